package contentguard

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// guardFlags are the flags of guard.
type guardFlags struct {
	set, source cli.WordFlag
	allow       allowFlags
}

// operation is one thing that the guard does: to a text, which people may stream, or to an argument.
type operation struct {
	name, flags, argument string
	judge                 judgement
	in                    func(text string) any
	text                  func(string) error
	stream                func(io.Reader) error
	one                   func(argument string) error
}

// GuardCommand returns the command guard.
func GuardCommand(p *cli.Program) *cobra.Command {
	var g guardFlags
	g.set = cli.WordFlag{Value: guard.All.String(), Words: []string{guard.All.String(), guard.Keys.String(), guard.Seed.String()}}
	g.source = cli.WordFlag{Value: string(guard.File), Name: "SOURCE"}
	for _, s := range guard.Sources {
		g.source.Words = append(g.source.Words, string(s))
	}
	operations := g.operations(p)
	names := cli.Map(operations, func(o operation) string { return o.name })
	cmd := &cobra.Command{
		Use: "guard OPERATION [FILE|ARGUMENT]",
		RunE: func(cmd *cobra.Command, args []string) error {
			at := slices.Index(names, args[0])
			if at < 0 {
				return cli.Usagef("guard: no operation %s", cli.Quoted(args[0])).WithHint("%s --help lists them", cmd.CommandPath()).Near(args[0], names)
			}
			return g.run(cmd, p, &operations[at], args[1:])
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	g.set.AddTo(cmd, "set", "redact: which rules; keys leaves hex and base64 alone")
	g.source.AddTo(cmd, "source", "fence: where the text came from")
	g.allow.addTo(cmd)
	return cmd
}

// run does one operation, for people or for cases.
func (g *guardFlags) run(cmd *cobra.Command, p *cli.Program, o *operation, args []string) error {
	for _, name := range []string{"set", "source", "allow"} {
		if cmd.Flags().Changed(name) && !slices.Contains(strings.Fields(o.flags), name) {
			return cli.Usagef("guard %s: --%s does nothing here", o.name, name)
		}
	}
	ctx, argument := cmd.Context(), strings.Join(args, "")
	switch {
	case len(args) > 0 && o.one == nil && o.in == nil:
		return cli.Usagef("guard %s: one argument too many: %s", o.name, cli.Quoted(argument))
	case p.Out.JSON && len(args) == 0:
		return judgeLines(ctx, p, o.name, o.judge)
	case o.name == "hosts" && len(args) == 0:
		return o.one(p.Env(guard.AllowVariable))
	case o.one != nil && len(args) > 0:
		return o.one(argument)
	case o.one != nil:
		return cli.Usagef("guard %s: expected %s", o.name, o.argument).WithHint("or --json, to read cases from stdin")
	case o.in == nil:
		return cli.Usagef("guard %s: expected --json", o.name).WithHint("it reads cases from stdin; bcpmesh fetch gets a page from the real network")
	}
	return readInput(ctx, p, argument, func(r io.Reader) error {
		if o.stream != nil && !p.Out.JSON {
			return o.stream(r)
		}
		text, err := readText(r)
		switch {
		case err != nil:
			return err
		case p.Out.JSON:
			return judgeOne(ctx, p, o.judge, o.in(text))
		}
		return o.text(text)
	})
}

// judgement judges one case. What it returns has the keys of the result; the code says why there is none.
type judgement func(ctx context.Context, in jsontext.Value) (any, guard.Code)

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
func judgeLines(ctx context.Context, p *cli.Program, op string, judge judgement) error {
	if cli.IsTerminal(p.In) {
		p.Out.Talkf("reading cases from the terminal; Ctrl-D ends them")
	}
	lines := cli.NewLineReader(cli.Interruptible(ctx, p.In))
	for {
		if lines.Waits() {
			if err := p.Out.Stdout.Flush(); err != nil {
				return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
			}
		}
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, cli.ErrLongLine):
			err = writeCase(p, nil, nil, tooLargeCase)
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return cli.Failf("the input cannot be read: %s", cli.FileReason(err))
		default:
			err = judgeLine(ctx, p, op, judge, line)
		}
		if err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
	}
}

func judgeLine(ctx context.Context, p *cli.Program, op string, judge judgement, line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var c guardCase
	if err := json.Unmarshal(line, &c, caseOptions); err != nil {
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	switch {
	case c.Op != "" && c.Op != op:
		return writeCase(p, c.ID, nil, otherOp)
	case c.In.Kind() != '{':
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	result, code := judge(ctx, c.In)
	return writeCase(p, c.ID, result, code)
}

// writeCase writes the line of one case: its id before the keys of the result.
func writeCase(p *cli.Program, id jsontext.Value, result any, code guard.Code) error {
	if !id.IsValid(jsontext.AllowInvalidUTF8(true)) {
		id = jsontext.Value("null")
	}
	if code != "" {
		result = struct {
			Error guard.Code `json:"error"`
		}{code}
	}
	keys, err := json.Marshal(result, json.Deterministic(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return err
	}
	line := append([]byte(`{"id":`), id...)
	return p.Out.HarmlessLine(append(append(line, ','), keys[1:]...))
}

// judged makes a judgement of a function that takes the members of a case.
func judged[In any](judge func(in In) (any, guard.Code)) judgement {
	return func(_ context.Context, raw jsontext.Value) (any, guard.Code) {
		var in In
		if err := json.Unmarshal(raw, &in, caseOptions); err != nil {
			return nil, unreadableCase
		}
		return judge(in)
	}
}

type textResult struct {
	Text string `json:"text"`
}

type redactCase struct {
	Text caseText `json:"text"`
	Set  string   `json:"set"`
}

func judgeRedact(in redactCase) (any, guard.Code) {
	set := guard.All
	if in.Set != "" {
		var err error
		if set, err = guard.ParseSet(in.Set); err != nil {
			return nil, unknownSet
		}
	}
	return textResult{guard.Redact(string(in.Text), set)}, ""
}

type textCase struct {
	Text caseText `json:"text"`
}

func judgeClean(in textCase) (any, guard.Code) { return textResult{guard.Clean(string(in.Text))}, "" }

type taintedResult struct {
	Tainted bool `json:"tainted"`
}

func judgeTainted(in textCase) (any, guard.Code) {
	return taintedResult{guard.IsTainted(string(in.Text))}, ""
}

type fenceCase struct {
	Text   caseText `json:"text"`
	Source caseText `json:"source"`
}

type fenceResult struct {
	Text    string `json:"text"`
	Tainted bool   `json:"tainted"`
}

func judgeFence(in fenceCase) (any, guard.Code) {
	fenced, err := guard.Fence(string(in.Text), guard.Source(in.Source))
	if err != nil {
		return nil, unknownSource
	}
	return fenceResult{fenced.String(), guard.IsTainted(fenced.String())}, ""
}

type egressCase struct {
	URL   caseURL    `json:"url"`
	Allow []caseText `json:"allow"`
}

func (c egressCase) policy() guard.Policy {
	policy, _ := guard.ParsePolicy(entryTexts(c.Allow))
	return policy
}

func entryTexts(list []caseText) []string {
	texts := cli.Map(list, func(t caseText) string { return string(t) })
	return texts
}

type egressResult struct {
	Allowed   bool       `json:"allowed"`
	Canonical string     `json:"canonical,omitzero"`
	Code      guard.Code `json:"code,omitzero"`
}

func judgeEgress(in egressCase) (any, guard.Code) {
	return checkEgress(string(in.URL), in.policy()), ""
}

func checkEgress(url string, policy guard.Policy) egressResult {
	target, err := guard.Check(url, policy)
	if err != nil {
		return egressResult{Code: fetchCode(err)}
	}
	return egressResult{Allowed: true, Canonical: target.String()}
}

type hostsCase struct {
	Env *caseText `json:"env"`
}

type hostsResult struct {
	Allow   []string `json:"allow"`
	Invalid []string `json:"invalid"`
}

func judgeHosts(in hostsCase) (any, guard.Code) {
	if in.Env == nil {
		return hostsResult{}, ""
	}
	return checkHosts(string(*in.Env)), ""
}

func checkHosts(value string) hostsResult {
	allow := guard.SplitHosts(value)
	_, invalid := guard.ParsePolicy(allow)
	return hostsResult{allow, invalid}
}

type addressCase struct {
	Address caseText `json:"address"`
}

type addressResult struct {
	Public bool `json:"public"`
}

func judgeAddress(in addressCase) (any, guard.Code) {
	return addressResult{guard.PublicText(string(in.Address))}, ""
}

type priceCase struct {
	Link   bool     `json:"link"`
	Starts uint64   `json:"start_urls"`
	Served []uint64 `json:"served"`
	URL    *caseURL `json:"url"`
}

type priceResult struct {
	NanoBits guard.NanoBits `json:"nano_bits"`
	Bytes    int            `json:"bytes,omitzero"`
}

func judgePrice(in priceCase) (any, guard.Code) {
	if in.Link || in.URL == nil {
		return priceResult{NanoBits: guard.LinkPrice(in.Starts, in.Served)}, ""
	}
	target, err := guard.ParseTarget(string(*in.URL))
	if err != nil {
		return nil, fetchCode(err)
	}
	price, length := guard.ComposedPrice(target)
	return priceResult{price, length}, ""
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
