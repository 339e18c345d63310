package definition

import (
	_ "embed" // the introduction
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

//go:embed testdata/introduction.md
var introduction string

// Schema returns every key that definitions may have, by level, in the order
// in which documents should list them.
func Schema() []Key {
	var all []Key
	for _, l := range levels {
		all = append(all, l.keys...)
	}
	return all
}

// Markdown returns the reference of definitions for people: a written
// introduction with examples, then every key of [Schema]. It is the same at every call.
func Markdown() string {
	var b strings.Builder
	b.WriteString(introduction)
	writeNeeds(&b)
	b.WriteString("\n## Keys\n\nBehind each key is what it holds, and its default; one in `code` can be written as it is. Keys in bold are required. *C*: only in the controller's entry of a channel.\n\n" + formsInWords)
	for _, level := range levels {
		fmt.Fprintf(&b, "\n### %s\n\n", heading(level))
		for i := range level.keys {
			if k, meaning := &level.keys[i], level.keys[i].Doc; k.ofSubscription() {
				fmt.Fprintf(&b, "- `%s`: as of [a subscription](#a-subscription)\n", k.Name)
			} else {
				if k.ControllerOnly {
					meaning += " *C*"
				}
				fmt.Fprintf(&b, "- %s (%s): %s\n", k.shown(), strings.Join(slices.DeleteFunc([]string{k.holds(), k.absent()}, func(part string) bool { return part == "" }), "; "), meaning)
			}
		}
	}
	b.WriteString("\n## What `check` says\n\nA folder with an error is not loaded; a mesh with warnings runs. With `--json` each has a code that never changes ([all](../bcp/definition/report.go)).\n")
	return b.String()
}

// needs is the table by which a category is chosen: what a Controller may want to know, and
// the lowest category that tells it (BCP-73 to BCP-76).
var needs = []struct {
	name     string
	category bcp.Category
	example  string
	write    string
}{
	{"yes or no", 1, "Is it urgent?", "{name: urgent, type: boolean}"},
	{"one of known choices", 1, "Which of these is it: request, invoice or meeting?", "{name: kind, type: enum, values: [request, invoice, meeting]}"},
	{"a score", 1, "How relevant is it, on a scale of 1 to 5?", "{name: relevance, type: integer, min: 1, max: 5}"},
	{"a whole number", 1, "How many people attend?", "{name: people, type: integer, min: 0, max: 1000}"},
	{"a date", 2, "On which day is it due?", `{id: day, question: "On which day is it due?", max_words: 4, expected_format: date}`},
	{"a time of day", 2, "At what time does it begin?", `{id: time, question: "At what time does it begin?", max_words: 1, expected_format: time}`},
	{"an e-mail address", 2, "What is the sender's email address?", `{id: address, question: "What is the sender's email address?", max_words: 1, expected_format: email}`},
	{"a person's name", 2, "Who asks for the meeting?", `{id: who, question: "Who asks for the meeting?", max_words: 4, expected_format: person_name, max_chars: 40}`},
	{"words of a list of the mesh", 2, "Which department is it for?", `{id: department, question: "Which department is it for?", max_words: 1, expected_format: vocabulary, vocabulary: departments}`},
	{"a few words", 2, "What is it about?", `{id: topic, question: "What is it about?", max_words: 6, expected_format: short_text, max_chars: 40, alphabet: ascii}`},
	{"a few items", 2, "What are the three action items?", `{id: actions, question: "What are the three action items?", max_words: 15, expected_format: short_list, max_chars: 100, alphabet: ascii}`},
	{"what no question can put", 3, "Summarise the key findings of this document.", `{category: 3, directive: "Summarise the key findings of this document.", max_words: 100}`},
}

// needFolder is a mesh that asks for a need, on a channel of at most a category.
func needFolder(write string, category, most bcp.Category) map[string][]byte {
	entry := [...]string{1: "{id: s, category: 1, fields: [" + write + "]}", 2: "{id: s, category: 2, questions: [" + write + "]}", 3: "{id: s, " + strings.TrimPrefix(write, "{")}[category]
	return map[string][]byte{
		"mesh.yaml":   []byte("vocabularies: {departments: [billing, legal, sales, support]}\n"),
		"agents/c.md": fmt.Appendf(nil, "---\nname: c\nbcp_channels:\n  - {peer: r, role: controller, max_category: %d, budget_bits: 2000, subscriptions: [%s]}\n---\n", most, entry),
		"agents/r.md": []byte("---\nname: r\nbcp_channels: [{peer: c, role: reader}]\n---\n"),
	}
}

// pricesOf are those of a push of the only subscription of a folder.
func pricesOf(files map[string][]byte) (bcp.Prices, error) {
	mesh, report := Parse(files)
	if mesh == nil {
		return bcp.Prices{}, fmt.Errorf("%v", report.Errors)
	}
	v, err := bcp.Compile(mesh.Channels[0].Subscriptions[0].Spec, mesh.Channels[0].Settings(mesh, nil).OfSubscription(mesh.Channels[0].Subscriptions[0], 1))
	if err != nil {
		return bcp.Prices{}, err
	}
	return v.Prices(), nil
}

func writeNeeds(b *strings.Builder) {
	b.WriteString("\n## Which category?\n\nThe lowest that satisfies the need; in category 3 a person reads every answer. Budgets count nominal bits; capacity is a proven bound of one push, without its timing.\n")
	b.WriteString("\n| need | category | write | nominal | capacity |\n|---|---|---|---|---|\n")
	for _, n := range needs {
		prices, err := pricesOf(needFolder(n.write, n.category, n.category))
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(b, "| %s | %d | `%s` | %s | %s |\n", cell(n.name), n.category, cell(n.write), prices.Nominal, prices.Capacity)
	}
}

func heading(level *Level) string {
	if level == LevelMesh {
		return "`" + level.String() + "`"
	}
	return capital(level.String())
}

// ofSubscription reports whether what a kernel asks has the key as a subscription has it.
func (k *Key) ofSubscription() bool {
	same := LevelSubscription.key(k.Name)
	return (k.Level == LevelParse || k.Level == LevelResult) && same != nil && k.Doc == same.Doc && k.Max == same.Max && k.absent() == same.absent()
}

// formsInWords says what the forms of a value are called.
const formsInWords = "A *name* is 1 to 63 of a-z, 0-9 and hyphen, begins with a letter or digit, and is not `gateway`. A *duration* is written 90s or 1h30m; *bytes* 512KiB or 64MiB; a *rate* 30/m or 1/s, of pushes also 1/h or 10/d; a *host* example.com, *.example.com or example.com:8443. *Bits* and *dollars* have at most nine decimals. A *secret* is the place where it is kept, env:NAME or file:PATH; a *key* also command:WORDS. A *schema* is a closed type in JSON Schema: object, array, string, integer, number, boolean or enum. Numbers behind a text count its characters, behind a list its entries.\n"

var forms = map[*Type]string{
	TypeText: "text", TypeName: "name", TypeKeyPlace: "key", TypeVariables: "names of variables", TypeSubscription: "subscription id", TypeInteger: "integer", TypeBoolean: "boolean", TypeBits: "bits", TypeUSD: "dollars", TypeDuration: "duration",
	TypeRate: "rate a minute", TypePushRate: "rate of pushes", TypeTimeZone: "IANA time zone", TypeCron: "minute, hour, day of month, month, day of week", TypeBytes: "bytes", TypeSecretName: "secret",
	TypeServer: "host:port", TypeOrigin: "https://host, perhaps with a port", TypeMailAddress: "mail address", TypeOrganisation: "host name", TypeTexts: "texts", TypeTools: "texts, or one with commas", TypeNames: "names", TypeHosts: "hosts, or one text with commas",
	TypePrefixes: "prefixes of addresses", TypeMailAddresses: "mail addresses", TypeChoices: "one or more of", TypeWordLists: "lists of words, by name", TypeObjects: "list of", TypeObject: "",
	TypeNamedObjects: "by name, each", TypeNameLists: "lists of texts, by name", TypeClosed: "schema", TypeCalls: "calls", TypeWord: "",
}

// holds says what the value may be.
func (k *Key) holds() string {
	form, ok := forms[k.Type]
	if !ok {
		panic(fmt.Sprintf("%s has no form", k.Name))
	}
	words := "`" + strings.Join(k.Words, "`, `") + "`"
	if k.Type == TypeWord {
		return words
	}
	if k.Child != nil {
		form = strings.TrimSpace(form + " [" + k.Child.String() + "](#" + strings.ToLower(strings.ReplaceAll(k.Child.String(), " ", "-")) + ")")
	}
	if k.Type == TypeChoices {
		return form + " " + words
	}
	if k.bounded() {
		bound := k.Type.bound
		if bound == nil {
			bound = func(n int64) string { return strconv.FormatInt(n, 10) }
		}
		form += " " + bound(k.Min) + "–" + bound(k.Max)
	}
	if len(k.Words) > 0 {
		form += " or " + words
	}
	return form
}

// shown is the name, in bold if the key is required.
func (k *Key) shown() string {
	if k.Required {
		return "**`" + k.Name + "`**"
	}
	return "`" + k.Name + "`"
}

// absent says what holds without the key, if it may be missing.
func (k *Key) absent() string {
	if k.Default != "" {
		return "`" + k.Default + "`"
	}
	return k.DefaultRule
}

// cell makes text fit for one cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Each need of the table has a line of YAML that loads, in the lowest category that has a
// form for it; below that the channel refuses it, and as free text it costs more.
//
// covers BCP-40, BCP-54, BCP-65, BCP-67, BCP-73, BCP-74, BCP-75, BCP-76
func TestEachNeedHasItsLowestCategory(t *testing.T) {
	t.Parallel()
	for i, n := range needs {
		prices, err := pricesOf(needFolder(n.write, n.category, n.category))
		if err != nil {
			t.Errorf("%s: %v", n.name, err)
			continue
		}
		if i > 0 && n.category < needs[i-1].category {
			t.Errorf("%s: category %d after %d: the first that fits is to be the lowest", n.name, n.category, needs[i-1].category)
		}
		if n.category > 1 {
			if mesh, report := Parse(needFolder(n.write, n.category, n.category-1)); mesh != nil || report.Errors[0].Code != CodeAboveCategory {
				t.Errorf("%s: category %d loads where %d is the highest", n.name, n.category, n.category-1)
			}
		}
		text, err := pricesOf(needFolder(fmt.Sprintf("{id: q, question: %q, max_words: %d, expected_format: short_text}", n.example, 15), 2, 2))
		if err != nil {
			t.Fatal(err)
		}
		if n.category < 3 && (prices.Nominal > text.Nominal || prices.Capacity >= text.Capacity) {
			t.Errorf("%s: costs %v, and as free text %v", n.name, prices, text)
		}
	}
}
