package contentguard

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	agentsfolder "github.com/bcpmesh/bcpmesh/agents/folder"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// operation is one thing that the guard does, to a text or to an argument.
type operation struct {
	name     string
	flags    string // that it takes
	argument string // what people give; empty for a text, in a file or on stdin
	judge    judgement
}

// judgement judges what is in a case. What it returns has the keys of the result; the code says why there is none.
type judgement func(in input) (any, guard.Code)

// onlyCases judge cases alone, with more in them.
var onlyCases = map[string]func(ctx context.Context, raw jsontext.Value) (any, guard.Code){"fetch": judgeFetch, "quarantine": judgeQuarantine}

var operations = []operation{
	{"redact", "set", "", judgeRedact},
	{"clean", "", "", func(in input) (any, guard.Code) { return textResult{guard.Clean(string(in.Text))}, "" }},
	{"fence", "source", "", judgeFence},
	{"tainted", "", "", func(in input) (any, guard.Code) { return taintedResult{guard.IsTainted(string(in.Text))}, "" }},
	{"egress", "allow", "URL", judgeEgress},
	{"hosts", "", "LIST", judgeHosts},
	{"address", "", "ADDRESS", func(in input) (any, guard.Code) { return addressResult{guard.PublicText(string(in.Address))}, "" }},
	{"price", "", "URL", judgePrice},
	{"fetch", "", "", nil},
	{"quarantine", "", "", nil},
}

// guardFlags are the flags of guard.
type guardFlags struct {
	set, source cli.WordFlag
	allow       allowFlags
}

// GuardCommand returns the command guard.
func GuardCommand(p *cli.Program) *cobra.Command {
	var g guardFlags
	g.set = cli.WordFlag{Value: guard.All.String(), Words: []string{guard.All.String(), guard.Keys.String(), guard.Seed.String()}}
	g.source = cli.WordFlag{Value: string(guard.File), Name: "SOURCE"}
	for _, s := range guard.Sources {
		g.source.Words = append(g.source.Words, string(s))
	}
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
	if len(args) == 0 && o.name == "hosts" && !p.Out.JSON {
		argument = p.Env(guard.AllowVariable)
	}
	switch {
	case o.judge == nil && len(args) > 0:
		return cli.Usagef("guard %s: one argument too many: %s", o.name, cli.Quoted(argument))
	case p.Out.JSON && len(args) == 0:
		return judgeLines(ctx, p, o)
	case o.judge == nil:
		return cli.Usagef("guard %s: expected --json", o.name).WithHint("it reads cases from stdin; bcpmesh fetch gets a page from the real network")
	case o.argument == "":
		return g.readInput(ctx, p, o, argument)
	case len(args) == 0 && o.name != "hosts":
		return cli.Usagef("guard %s: expected %s", o.name, o.argument).WithHint("or --json, to read cases from stdin")
	}
	in := input{URL: new(caseURL(argument)), Env: new(caseText(argument)), Address: caseText(argument)}
	if o.name == "egress" {
		entries, err := g.allow.valid(p)
		if err != nil {
			return err
		}
		in.Allow = cli.Map(entries, func(s string) caseText { return caseText(s) })
	}
	return tell(p, o, in, argument)
}

// readInput does an operation to the text of a file or of stdin.
func (g *guardFlags) readInput(ctx context.Context, p *cli.Program, o *operation, name string) error {
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
	from = cli.Interruptible(ctx, from)
	if o.name == "redact" && !p.Out.JSON {
		return redactStream(p, from, g.set.Value)
	}
	text, err := io.ReadAll(io.LimitReader(from, maxCaseText+1))
	switch {
	case err != nil:
		return cli.Failf("the input cannot be read: %s", cli.FileReason(err))
	case len(text) > maxCaseText:
		return cli.Failf("the input is longer than 64 MiB")
	}
	in := input{Text: caseText(text), Set: g.set.Value, Source: caseText(g.source.Value)}
	if o.name == "tainted" && !p.Out.JSON {
		in.Text = caseText(strings.TrimSuffix(string(in.Text), "\n"))
	}
	return tell(p, o, in, name)
}

// tell tells a person, or a program of theirs, what came of an operation.
func tell(p *cli.Program, o *operation, in input, argument string) error {
	result, code := o.judge(in)
	switch {
	case code != "" && o.argument != "":
		return deniedf(code, argument)
	case code != "":
		return cli.Usagef("%s", code.Error())
	}
	var said string
	var denied *cli.Failure
	switch r := result.(type) {
	case textResult:
		said = r.Text
	case fenceResult:
		said = r.Text + "\n"
	case taintedResult:
		if said = "one whole fence\n"; !r.Tainted {
			denied = cli.Failf("the text is not one whole fence")
		}
	case egressResult:
		if said = "allowed: " + r.Canonical + "\n"; !r.Allowed {
			denied = deniedf(r.Code, argument)
		}
	case hostsResult:
		valid := slices.DeleteFunc(slices.Clone(r.Allow), func(entry string) bool { return guard.ParseEntry(entry) != nil })
		if said = strings.Join(valid, "\n") + "\n"; len(r.Invalid) > 0 {
			denied = cli.Failf("%s is not a valid entry", cli.Quoted(r.Invalid[0])).WithHint(entryHint)
		} else if len(valid) == 0 {
			said = ""
			p.Out.Talkf("no host is allowed")
		}
	case addressResult:
		if said = "public\n"; !r.Public {
			denied = cli.Failf("%s is not a public address", cli.Quoted(argument))
			denied.Code = cli.ExitRefused
		}
	case priceResult:
		said = bcp.Bits(r.NanoBits).Words() + "\n"
	}
	if p.Out.JSON {
		if err := p.Out.Value(result); err != nil {
			return err
		}
	} else if _, hosts := result.(hostsResult); denied == nil || hosts {
		if _, err := (flushingWriter{p}).Write([]byte(said)); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
	}
	if denied != nil {
		return denied
	}
	return nil
}

// redactStream redacts what comes while it comes.
func redactStream(p *cli.Program, r io.Reader, set string) error {
	chosen, err := guard.ParseSet(set)
	if err != nil {
		return cli.Usagef("%s", err)
	}
	stream := guard.NewStream(flushingWriter{p}, chosen)
	if _, err := io.Copy(stream, r); err != nil {
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
func judgeLines(ctx context.Context, p *cli.Program, o *operation) error {
	return cli.EachLine(ctx, p, "", p.In, func(_ int, line []byte, wrong error) error {
		if err := judgeLine(ctx, p, o, line, wrong); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
		return nil
	})
}

func judgeLine(ctx context.Context, p *cli.Program, o *operation, line []byte, wrong error) error {
	var c guardCase
	var in input
	if wrong != nil {
		return writeCase(p, nil, nil, tooLargeCase)
	}
	wrong = json.Unmarshal(line, &c, caseOptions)
	switch {
	case wrong != nil:
		return writeCase(p, c.ID, nil, unreadableCase)
	case c.Op != "" && c.Op != o.name:
		return writeCase(p, c.ID, nil, otherOp)
	case c.In.Kind() != '{':
		return writeCase(p, c.ID, nil, unreadableCase)
	case o.judge == nil:
		result, code := onlyCases[o.name](ctx, c.In)
		return writeCase(p, c.ID, result, code)
	case json.Unmarshal(c.In, &in, caseOptions) != nil:
		return writeCase(p, c.ID, nil, unreadableCase)
	}
	result, code := o.judge(in)
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

type textResult struct {
	Text string `json:"text"`
}

func judgeRedact(in input) (any, guard.Code) {
	set := guard.All
	if in.Set != "" {
		var err error
		if set, err = guard.ParseSet(in.Set); err != nil {
			return nil, unknownSet
		}
	}
	return textResult{guard.Redact(string(in.Text), set)}, ""
}

type taintedResult struct {
	Tainted bool `json:"tainted"`
}

type fenceResult struct {
	Text    string `json:"text"`
	Tainted bool   `json:"tainted"`
}

func judgeFence(in input) (any, guard.Code) {
	fenced, err := guard.Fence(string(in.Text), guard.Source(in.Source))
	if err != nil {
		return nil, unknownSource
	}
	return fenceResult{fenced.String(), guard.IsTainted(fenced.String())}, ""
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

func judgeEgress(in input) (any, guard.Code) {
	url := caseURL("")
	if in.URL != nil {
		url = *in.URL
	}
	policy, _ := guard.ParsePolicy(entryTexts(in.Allow))
	target, err := guard.Check(string(url), policy)
	if err != nil {
		return egressResult{Code: fetchCode(err)}, ""
	}
	return egressResult{Allowed: true, Canonical: target.String()}, ""
}

type hostsResult struct {
	Allow   []string `json:"allow"`
	Invalid []string `json:"invalid"`
}

func judgeHosts(in input) (any, guard.Code) {
	if in.Env == nil {
		return hostsResult{}, ""
	}
	allow := guard.SplitHosts(string(*in.Env))
	_, invalid := guard.ParsePolicy(allow)
	return hostsResult{allow, invalid}, ""
}

type addressResult struct {
	Public bool `json:"public"`
}

type priceResult struct {
	NanoBits guard.NanoBits `json:"nano_bits"`
	Bytes    int            `json:"bytes,omitzero"`
}

func judgePrice(in input) (any, guard.Code) {
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
