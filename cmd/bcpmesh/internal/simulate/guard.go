package simulate

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	agentsfolder "github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// judgement judges what is in a case. What it returns has the keys of the result; the code says why there is none.
type judgement func(in input) (any, guard.Code)

// operations are what the guard does to what is in a case.
var operations = map[string]judgement{
	"redact": judgeRedact,
	"clean":  func(in input) (any, guard.Code) { return map[string]string{"text": guard.Clean(string(in.Text))}, "" },
	"fence":  judgeFence,
	"tainted": func(in input) (any, guard.Code) {
		return map[string]bool{"tainted": guard.IsTainted(string(in.Text))}, ""
	},
	"egress": judgeEgress,
	"hosts":  judgeHosts,
	"address": func(in input) (any, guard.Code) {
		return map[string]bool{"public": guard.PublicText(string(in.Address))}, ""
	},
	"price": judgePrice,
}

// scripted are operations whose cases have a world of their own.
var scripted = map[string]func(ctx context.Context, raw jsontext.Value) (any, guard.Code){"fetch": judgeFetch, "quarantine": judgeQuarantine}

// Guard does to a text or to cases what the guard does.
type Guard struct {
	Set     cli.WordFlag `words:"all keys seed" default:"all"`
	Command *cobra.Command
}

// Adjust says which operations there are.
func (o *Guard) Adjust(cmd *cobra.Command) {
	cmd.ValidArgs = append(slices.Sorted(maps.Keys(operations)), slices.Sorted(maps.Keys(scripted))...)
}

// Run does an operation.
func (o *Guard) Run(ctx context.Context, p *cli.Program, args []string) error {
	switch name, names := args[0], o.Command.ValidArgs; {
	case !slices.Contains(names, name):
		return cli.Usagef("guard: no operation %s", cli.Quoted(name)).WithHint("%s --help lists them", o.Command.CommandPath()).Near(name, names)
	case !p.Out.JSON && name == "redact":
		return redactFile(ctx, p, strings.Join(args[1:], ""), o.Set.Value)
	case !p.Out.JSON:
		return cli.Usagef("guard %s: expected --json", name).WithHint("it reads cases from stdin; bcpmesh fetch gets a page from the real network")
	case len(args) > 1:
		return cli.Usagef("guard %s: one argument too many: %s", name, cli.Quoted(args[1]))
	case o.Command.Flags().Changed("set"):
		return cli.Usagef("guard %s: --set does nothing here: a case has its own", name)
	default:
		return judgeLines(ctx, p, name)
	}
}

// redactFile redacts a file, or what comes on stdin while it comes.
func redactFile(ctx context.Context, p *cli.Program, name, set string) error {
	from := p.In
	if name != "" && name != "-" {
		f, err := agentsfolder.OpenFile(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		defer f.Close()
		from = f
	} else if cli.IsTerminal(p.In) {
		p.Out.Talkf("reading text from the terminal; Ctrl-D ends it")
	}
	chosen, err := guard.ParseSet(set)
	if err != nil {
		return cli.Usagef("%s", err)
	}
	stream := guard.NewStream(flushingWriter{p}, chosen)
	if _, err := io.Copy(stream, cli.Interruptible(ctx, from)); err != nil {
		return cli.Failf("the text cannot be redacted: %s", cli.FileReason(err))
	}
	if err := stream.Close(); err != nil {
		return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
	}
	return nil
}

// flushingWriter writes results at once; on a terminal they are made harmless.
type flushingWriter struct{ p *cli.Program }

func (w flushingWriter) Write(b []byte) (int, error) {
	text := string(b)
	if w.p.Out.Terminal {
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			lines[i] = cli.Plain(line)
		}
		text = strings.Join(lines, "\n")
	}
	if _, err := w.p.Out.Stdout.WriteString(text); err != nil {
		return 0, err
	}
	return len(b), w.p.Out.Stdout.Flush()
}

// Codes of cases that cannot be judged.
const (
	unreadableCase guard.Code = "malformed"
	otherOp        guard.Code = "op"
	tooLargeCase   guard.Code = "too_large"
	unknownSource  guard.Code = "source"
	unknownSet     guard.Code = "set"
)

// guardCase is one line of the input.
type guardCase struct {
	ID jsontext.Value `json:"id"`
	Op string         `json:"op"`
	In jsontext.Value `json:"in"`
}

// caseOptions read cases leniently where no byte of an agent is judged by it: more keys are ignored, and what is no Unicode
// becomes U+FFFD.
var caseOptions = json.JoinOptions(jsontext.AllowInvalidUTF8(true), json.MatchCaseInsensitiveNames(false))

// judgeLines judges the cases of one command.
func judgeLines(ctx context.Context, p *cli.Program, name string) error {
	return cli.EachLine(ctx, p, "", p.In, func(_ int, line []byte, wrong error) error {
		if err := judgeLine(ctx, p, name, line, wrong); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
		return nil
	})
}

func judgeLine(ctx context.Context, p *cli.Program, name string, line []byte, wrong error) error {
	var c guardCase
	var in input
	if wrong != nil {
		return writeCase(p, nil, nil, tooLargeCase)
	}
	wrong = json.Unmarshal(line, &c, caseOptions)
	switch {
	case wrong != nil:
		return writeCase(p, c.ID, nil, unreadableCase)
	case c.Op != "" && c.Op != name:
		return writeCase(p, c.ID, nil, otherOp)
	case c.In.Kind() != '{':
		return writeCase(p, c.ID, nil, unreadableCase)
	case scripted[name] != nil:
		result, code := scripted[name](ctx, c.In)
		return writeCase(p, c.ID, result, code)
	case json.Unmarshal(c.In, &in, caseOptions) != nil:
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	result, code := operations[name](in)
	return writeCase(p, c.ID, result, code)
}

// writeCase writes the line of one case: its id before the keys of the result.
func writeCase(p *cli.Program, id jsontext.Value, result any, code guard.Code) error {
	if !id.IsValid(jsontext.AllowInvalidUTF8(true)) {
		id = jsontext.Value("null")
	}
	if code != "" {
		result = map[string]guard.Code{"error": code}
	}
	keys, err := json.Marshal(result, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	line := append([]byte(`{"id":`), id...)
	return p.Out.HarmlessLine(append(append(line, ','), keys[1:]...))
}

// input is what is in a case: what its operation takes of it.
type input struct {
	Text    caseText   `json:"text"`
	Set     string     `json:"set"`
	Source  caseText   `json:"source"`
	URL     *caseURL   `json:"url"`
	Allow   []caseText `json:"allow"`
	Env     *caseText  `json:"env"`
	Address caseText   `json:"address"`
	Link    bool       `json:"link"`
	Starts  uint64     `json:"start_urls"`
	Served  []uint64   `json:"served"`
}

func judgeRedact(in input) (any, guard.Code) {
	set := guard.All
	if in.Set != "" {
		var err error
		if set, err = guard.ParseSet(in.Set); err != nil {
			return nil, unknownSet
		}
	}
	return map[string]string{"text": guard.Redact(string(in.Text), set)}, ""
}

func judgeFence(in input) (any, guard.Code) {
	fenced, err := guard.Fence(string(in.Text), guard.Source(in.Source))
	if err != nil {
		return nil, unknownSource
	}
	return struct {
		Text    string `json:"text"`
		Tainted bool   `json:"tainted"`
	}{fenced.String(), guard.IsTainted(fenced.String())}, ""
}

// policyOf is the policy of a case's list.
func policyOf(list []caseText) guard.Policy {
	policy, _ := guard.ParsePolicy(cli.Map(list, func(t caseText) string { return string(t) }))
	return policy
}

func judgeEgress(in input) (any, guard.Code) {
	url := caseURL("")
	if in.URL != nil {
		url = *in.URL
	}
	target, err := guard.Check(string(url), policyOf(in.Allow))
	if err != nil {
		return map[string]any{"allowed": false, "code": fetch.CodeOf(err)}, ""
	}
	return map[string]any{"allowed": true, "canonical": target.String()}, ""
}

func judgeHosts(in input) (any, guard.Code) {
	var allow, invalid []string
	if in.Env != nil {
		allow = guard.SplitHosts(string(*in.Env))
		_, invalid = guard.ParsePolicy(allow)
	}
	return map[string][]string{"allow": allow, "invalid": invalid}, ""
}

func judgePrice(in input) (any, guard.Code) {
	var result struct {
		NanoBits guard.NanoBits `json:"nano_bits"`
		Bytes    int            `json:"bytes,omitzero"`
	}
	if in.Link || in.URL == nil {
		result.NanoBits = guard.LinkPrice(in.Starts, in.Served)
		return result, ""
	}
	target, err := guard.ParseTarget(string(*in.URL))
	if err != nil {
		return nil, fetch.CodeOf(err)
	}
	result.NanoBits, result.Bytes = guard.ComposedPrice(target)
	return result, ""
}

// maxCaseText bounds a text of a case after its repetitions are written out.
const maxCaseText = 64 << 20

var errCaseText = errors.New("a text is a string or a list of parts")

// caseText is a text of a case: a string, or a list whose parts are joined. A part is a string or {"repeat", "times"}.
type caseText string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *caseText) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	var b strings.Builder
	if err := readCaseText(d, &b); err != nil {
		return err
	}
	*t = caseText(b.String())
	return nil
}

func readCaseText(d *jsontext.Decoder, b *strings.Builder) error {
	switch d.PeekKind() {
	case '"':
		token, err := d.ReadToken()
		if err != nil {
			return err
		}
		return addText(b, token.String(), 1)
	case '[':
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		for d.PeekKind() != ']' {
			if err := readCaseText(d, b); err != nil {
				return err
			}
		}
		_, err := d.ReadToken()
		return err
	case '{':
		var part struct {
			Repeat caseText `json:"repeat"`
			Times  int      `json:"times"`
		}
		if err := json.UnmarshalDecode(d, &part); err != nil {
			return err
		}
		return addText(b, string(part.Repeat), part.Times)
	}
	return errCaseText
}

func addText(b *strings.Builder, text string, times int) error {
	if times < 0 || len(text) > 0 && times > (maxCaseText-b.Len())/len(text) {
		return errCaseText
	}
	b.WriteString(strings.Repeat(text, times))
	return nil
}

// caseURL is a URL of a case. One that is no Unicode stays so, and is refused like any other that is malformed.
type caseURL string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (u *caseURL) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	var text caseText
	if err := json.Unmarshal(raw, &text, caseOptions); err != nil {
		return err
	}
	*u = caseURL(text)
	if !raw.IsValid() {
		*u += "\xff"
	}
	return nil
}
