package wrap

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const draftHead = `# A draft by "bcpmesh tool import". Comments with "says" are the server's own words: believe none
# of them. Names of tools and arguments, and choices, are the server's too, and planners see them.
# Write descriptions, and lower effect_level only for what you know to change nothing.
`

// Draft writes a definition, for tools/, of a service with the tools of a server that
// command starts with the environment variables in pass. Until an operator changes it,
// each tool writes, needs its own capability, and is never called twice. The server's
// descriptions of its tools are in comments, which nothing reads.
func Draft(service bcp.AgentName, pass, command []string, listed []*sdk.Tool) ([]byte, error) {
	var tools strings.Builder
	words := []string{"bcpmesh", "tool"}
	taken := map[string]bool{}
	for _, tool := range listed {
		pin, err := Pin(tool)
		if err != nil {
			return nil, err
		}
		p := Pinned{Name: planName(tool.Name), Listed: tool.Name, SHA256: pin}
		capability := strings.ToLower(string(service) + "." + p.Name)
		if _, err := ParsePinned(p.String()); err != nil || len(capability) > maxCapability || taken[capability] {
			comment(&tools, "  ", "left out, since no tool of a kernel can have its name, or one has it already: "+tool.Name)
			continue
		}
		taken[capability] = true
		words = append(words, "--pin", p.String())
		write(&tools, p.Name, capability, tool)
	}
	for _, name := range pass {
		words = append(words, "--pass", name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%sservice: %s\ncommand:\n", draftHead, service)
	items(&b, "  ", append(append(words, "--"), command...))
	if len(pass) > 0 {
		b.WriteString("environment:\n")
		items(&b, "  ", pass)
	}
	b.WriteString("sandbox: none\ntools:\n")
	b.WriteString(tools.String())
	return []byte(b.String()), nil
}

const readerHead = `# A draft by "bcpmesh tool import --reader", for mesh.yaml. Comments with "says" are the server's own
# words: believe none of them. Names of tools and arguments, and choices, are the server's too, and
# models see them. Write descriptions, and leave out the tools that no agent needs.
`

// DraftServer writes an entry of mcp_servers, for mesh.yaml, of a server with its command
// and environment, or its URL and key. It does not load until an operator has written
// what each tool does.
func DraftServer(server *bcp.MCPServer, listed []*sdk.Tool) ([]byte, error) {
	var b strings.Builder
	name := server.Name
	fmt.Fprintf(&b, "%smcp_servers:\n  - name: %s\n", readerHead, name)
	if server.URL != "" {
		fmt.Fprintf(&b, "    url: %s\n", quoted(server.URL))
		if server.Key != "" {
			fmt.Fprintf(&b, "    key: %s\n", quoted(server.Key))
		}
	} else {
		b.WriteString("    command:\n")
		items(&b, "      ", server.Command)
		if len(server.Environment) > 0 {
			b.WriteString("    environment:\n")
			items(&b, "      ", server.Environment)
		}
		b.WriteString("    sandbox: none\n")
	}
	b.WriteString("    tools:\n")
	taken := map[string]bool{}
	for _, tool := range listed {
		pin, err := Pin(tool)
		if err != nil {
			return nil, err
		}
		called := modelName(tool.Name)
		if called == "" || len(called) > maxModelName || len(tool.Name) > maxListed || len("mcp____")+len(name)+len(called) > maxWhole || taken[called] {
			comment(&b, "      ", "left out, since no tool of a model can have its name, or one has it already: "+tool.Name)
			continue
		}
		taken[called] = true
		fmt.Fprintf(&b, "      - name: %s\n", quoted(called))
		if called != tool.Name {
			fmt.Fprintf(&b, "        listed: %s\n", quoted(tool.Name))
		}
		comment(&b, "        ", "says: "+tool.Description)
		fmt.Fprintf(&b, "        sha256: %q\n        description: \"\"\n", pin)
		schema(&b, "        ", "input_schema", tool.InputSchema, isProperty, map[string]any{"type": "object", "properties": map[string]any{}})
	}
	return []byte(b.String()), nil
}

// What definitions allow of a model's tools, in bytes.
const (
	maxModelName = 48
	maxListed    = 128
	maxWhole     = 64
)

var noNames = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// modelName is a server's name as models can have it; it may be empty.
func modelName(listed string) string { return noNames.ReplaceAllString(listed, "_") }

func items(b *strings.Builder, indent string, texts []string) {
	for _, text := range texts {
		fmt.Fprintf(b, "%s- %s\n", indent, quoted(text))
	}
}

// maxCapability bounds a capability, in bytes.
const maxCapability = 63

func write(b *strings.Builder, name, capability string, tool *sdk.Tool) {
	fmt.Fprintf(b, "  - name: %s\n", name)
	comment(b, "    ", "says: "+tool.Description)
	if a := tool.Annotations; a != nil {
		comment(b, "    ", fmt.Sprintf("says: read only %t, idempotent %t, destructive %s, open world %s",
			a.ReadOnlyHint, a.IdempotentHint, hint(a.DestructiveHint), hint(a.OpenWorldHint)))
	}
	fmt.Fprintf(b, "    description: \"\"\n    effect_level: write\n    required_caps: [%s]\n", quoted(capability))
	schema(b, "    ", "input_schema", tool.InputSchema, isName, map[string]any{"type": "object"})
	schema(b, "    ", "output_schema", tool.OutputSchema, isProperty, map[string]any{"type": "object", "properties": map[string]any{textField: text()}, "required": []string{textField}})
	b.WriteString("    result_subjects: [third_party]\n")
}

func hint(said *bool) string {
	if said == nil {
		return "not said"
	}
	return fmt.Sprint(*said)
}

// schema writes the closed type of a schema, or other if it is no object, with what differs in comments.
func schema(b *strings.Builder, indent, key string, listed any, named func(string) bool, other map[string]any) {
	t := other
	if listed != nil {
		drafted, notes := closed(listed, named)
		if drafted["type"] == "object" {
			t = drafted
			delete(t, "nullable")
		} else {
			notes = []string{"it is no object"}
		}
		for _, note := range notes {
			comment(b, indent, key+" differs from the server's: "+note)
		}
	}
	text, err := json.Marshal(t, json.Deterministic(true))
	if err != nil { // it is made of texts and numbers
		text = []byte("{}")
	}
	fmt.Fprintf(b, "%s%s: %s\n", indent, key, text)
}

// planName converts a server's name to one that plans can have; the result may be
// invalid.
func planName(listed string) string {
	return strings.NewReplacer("-", "_", ".", "_", "/", "_").Replace(listed)
}

const (
	// maxComment bounds the lines of a server's text in comments, and lineLength the
	// bytes of each.
	maxComment = 20
	lineLength = 90
)

// comment writes a text as comments, which it cannot end.
func comment(b *strings.Builder, indent, text string) {
	line, lines := "", 0
	flush := func() {
		if line != "" && lines < maxComment {
			fmt.Fprintf(b, "%s# %s\n", indent, line)
			lines++
		}
		line = ""
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) {
		if line != "" && len(line)+len(word) > lineLength {
			flush()
		}
		line = strings.TrimSpace(line + " " + strings.ToValidUTF8(word[:min(len(word), 4*lineLength)], ""))
	}
	flush()
}

// quoted is a text as YAML has it. What a person would not see in it is spelled by its
// number.
func quoted(text string) string {
	b, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return `""`
	}
	var q strings.Builder
	for _, r := range string(b) {
		if unicode.IsPrint(r) && guard.Clean(string(r)) == string(r) {
			q.WriteRune(r)
		} else {
			fmt.Fprintf(&q, `\U%08X`, r)
		}
	}
	return q.String()
}
