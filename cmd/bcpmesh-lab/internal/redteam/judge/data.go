package judge

import (
	"bufio"
	"cmp"
	"embed"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io/fs"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// row is a sentence and where it is from.
type row struct {
	Text   string `json:"text"`
	Lang   string `json:"lang"`
	Kind   string `json:"kind"`
	Source string `json:"source"`

	hostile bool
	draw    uint64 // by the text alone: the order of training
	group   uint64 // of sentences that are in one fold: an order with what it is wrapped in
	words   []text.Weighed
	weight  float64
}

// Kinds of sentences that are not of the shared data.
const (
	kindPhrase = "own phrase" // a phrase of the lists of phrases
	kindOrder  = "own order"
	kindReport = "own report" // harmless, with the words of orders
	kindName   = "own name"   // of a person or a mailbox
	kindPlain  = "task_plain" // an order of a collection that no form can tell from a question

	kindFragment = "fragment" // of a harmless sentence
	kindComposed = "composed" // an attacker's order in a wrapper
)

// core are the kinds whose errors are bounded at 2 %.
var core = []string{"mail", "chat", "answer", "support", "review", "narrative", "sentence"}

// orders are the kinds that are orders by nature.
var orders = []string{"mail_request", "notinject", "command", "prompt"}

// load reads the sentences of a folder in the form of its README: a file of benign ones and one of hostile ones.
func load(folder fs.FS) ([]row, error) {
	var rows []row
	for _, name := range []string{"benign.jsonl", "hostile.jsonl"} {
		file, err := folder.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			r := row{hostile: name == "hostile.jsonl"}
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			rows = append(rows, r.ready())
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		_ = file.Close() // nothing was written
	}
	group(rows)
	return append(rows, fragments(rows)...), nil
}

// group puts an attacker's order in one fold with the texts that contain it, or the fold would say what was seen in training.
func group(rows []row) {
	var orders []*row
	for i := range rows {
		if r := &rows[i]; r.hostile && r.Kind != kindComposed && len(r.words) > 0 {
			orders = append(orders, r)
		}
	}
	slices.SortStableFunc(orders, func(a, b *row) int { return cmp.Compare(len(b.words), len(a.words)) })
	for i := range rows {
		r := &rows[i]
		if r.Kind != kindComposed {
			continue
		}
		for _, o := range orders {
			if strings.Contains(r.spoken(), o.spoken()) {
				r.group = o.group
				break
			}
		}
	}
}

// spoken is a row by its words.
func (r *row) spoken() string {
	var b strings.Builder
	for _, w := range r.words {
		b.WriteString(w.Word + " ")
	}
	return b.String()
}

// fragmentWords is the most words of a fragment.
const fragmentWords = 3

// fragments are a few words of each harmless sentence: most answers are names and short facts, and the collections have no short ones.
func fragments(rows []row) (list []row) {
	for _, r := range rows {
		if !slices.Contains(core, r.Kind) {
			continue
		}
		parts, space := strings.Fields(r.Text), " "
		if len(parts) <= fragmentWords {
			parts, space = strings.Split(r.Text, ""), ""
		}
		for i := range fragmentWords {
			n := 1 + i
			at := int(r.draw>>(8*i)&0xffff) % max(1, len(parts)-n)
			f := row{Text: strings.Join(parts[at:min(len(parts), at+n)], space), Lang: r.Lang, Kind: kindFragment, Source: r.Source}.ready()
			f.group = r.group
			list = append(list, f)
		}
	}
	return list
}

// repository is the source without commit and path.
func (r *row) repository() string {
	name, _, _ := strings.Cut(r.Source, "@")
	return name
}

// english says whether a row is in English.
func (r *row) english() bool { return r.Lang == "en" }

// ready fills in what follows from the text. What the validator refuses for its form has no words.
func (r row) ready() row {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Text)) // never fails
	r.draw = h.Sum64() ^ h.Sum64()>>29
	r.group = r.draw
	if normal, err := text.Normalise(nil, []byte(r.Text), text.Options{Alphabet: text.Any, MaxWords: 40}); err == nil {
		r.words, _ = text.DefaultRules().Weigh(normal.Text)
	}
	r.weight = r.importance()
	return r
}

// importance is how much one sentence counts in training.
func (r *row) importance() float64 {
	switch r.Kind {
	case kindPhrase:
		if !r.english() {
			return 0.035
		}
		return 0.015
	case kindOrder, kindReport:
		return 0.05
	case kindFragment:
		return 0.2
	case kindName:
		return 0.3
	case "notinject":
		return 20
	case "chat":
		return 12
	case "mail":
		return 6
	case "answer":
		return 5
	case "command", "mail_request", "prompt":
		return 0.15
	case "sentence":
		if !r.english() {
			return 8
		}
	}
	return 1
}

// phraseFiles are lists of phrases of attackers by language, and of pairs of them that stand near each other.
//
//go:embed phrases
var phraseFiles embed.FS

// orderFile is a grammar of orders to tools, and of reports with the same words.
//
//go:embed orders.json
var orderFile []byte

// own returns the sentences that we made.
func own() ([]row, error) {
	rows, err := phrases()
	if err != nil {
		return nil, err
	}
	more, err := grammar()
	return append(rows, more...), err
}

func phrases() (rows []row, err error) {
	entries, err := phraseFiles.ReadDir("phrases")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		data, err := phraseFiles.ReadFile("phrases/" + entry.Name())
		if err != nil {
			return nil, err
		}
		var file struct {
			Phrases []string
			Pairs   []struct{ First, Then []string }
		}
		if err := json.Unmarshal(data, &file); err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		language, _, _ := strings.Cut(entry.Name(), ".")
		add := func(text string) {
			rows = append(rows, row{Text: text, Lang: language, Kind: kindPhrase, Source: "own", hostile: true}.ready())
		}
		for _, phrase := range file.Phrases {
			add(phrase)
		}
		space := " "
		if language == "zh" || language == "ja" {
			space = ""
		}
		for _, pair := range file.Pairs {
			n := max(len(pair.First), len(pair.Then))
			for i := range 2 * n {
				add(pair.First[i%len(pair.First)] + space + pair.Then[(i*7+i/n)%len(pair.Then)])
			}
		}
	}
	return rows, nil
}

// sentencesMade is how many orders and reports the grammar makes.
const sentencesMade = 3000

// namesMade is how many names it makes.
const namesMade = 1000

func grammar() (rows []row, err error) {
	var file struct {
		Orders        []struct{ Verbs, Objects, Ends []string }
		Frames, Tails []string
		Reports       struct{ Frames, Who, Did, When, About, First, Last, Box, Host, Ask, Thing, Where []string }
	}
	if err := json.Unmarshal(orderFile, &file); err != nil {
		return nil, fmt.Errorf("orders.json: %w", err)
	}
	state := uint64(1)
	below := func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state>>33) % n
	}
	of := func(list []string) string { return list[below(len(list))] }
	order := func() string {
		group := file.Orders[below(len(file.Orders))]
		return of(group.Verbs) + " " + of(group.Objects) + " " + of(group.Ends)
	}
	for range sentencesMade {
		what := order()
		if below(5) == 0 {
			what += " and " + order()
		} else {
			what += " " + of(file.Tails)
		}
		said := strings.Replace(of(file.Frames), "{}", what, 1)
		rows = append(rows, row{Text: said, Lang: "en", Kind: kindOrder, Source: "own", hostile: true}.ready())
		told := strings.NewReplacer("{who}", of(file.Reports.Who), "{did}", of(file.Reports.Did), "{about}", of(file.Reports.About), "{when}", of(file.Reports.When),
			"{object}", of(file.Orders[below(len(file.Orders)-2)].Objects),
			"{first}", of(file.Reports.First), "{last}", of(file.Reports.Last), "{box}", of(file.Reports.Box), "{host}", of(file.Reports.Host),
			"{ask}", of(file.Reports.Ask), "{thing}", of(file.Reports.Thing), "{where}", of(file.Reports.Where)).Replace(of(file.Reports.Frames))
		rows = append(rows, row{Text: told, Lang: "en", Kind: kindReport, Source: "own"}.ready())
	}
	r := file.Reports
	for i := range namesMade {
		name := of(r.First) + " " + of(r.Last)
		switch i % 4 {
		case 0:
			name += " " + of(r.Host)
		case 1:
			name = of(r.Box) + " " + of(r.Host)
		}
		rows = append(rows, row{Text: name, Lang: "en", Kind: kindName, Source: "own"}.ready())
	}
	return rows, nil
}
