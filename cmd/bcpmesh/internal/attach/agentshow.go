package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/keeper"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/replay"
	"github.com/bcpmesh/bcpmesh/agents/sandbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/cost"
	"github.com/bcpmesh/bcpmesh/bcp/inert"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func agentShowCommand(p *cli.Program) *cobra.Command {
	var whole, live, again bool
	var where meshdir.StateFlags
	var model string
	cmd := &cobra.Command{
		Use: "show FILE|NAME",
		RunE: func(cmd *cobra.Command, args []string) error {
			if again || model != "" {
				return replayTranscript(cmd.Context(), p, args[0], where.Dir, model)
			}
			if live {
				return watchAgent(cmd.Context(), p, where, args[0], whole)
			}
			r, err := readRecording(args[0])
			if err != nil {
				return err
			}
			return p.Out.Show(r, func() { showRecording(&transcriptPrinter{out: p.Out, whole: whole}, r) })
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
	}
	where.AddTo(cmd)
	cmd.Flags().BoolVar(&whole, "whole", false, "do not cut long texts")
	cmd.Flags().BoolVar(&live, "live", false, "watch the agent NAME")
	cmd.Flags().BoolVar(&again, "replay", false, "run the agent's cell again, and compare")
	cmd.Flags().StringVar(&model, "model", "", "replay with another `MODEL`, and compare")
	cmd.MarkFlagsMutuallyExclusive("live", "replay")
	cmd.MarkFlagsMutuallyExclusive("live", "model")
	cmd.MarkFlagsMutuallyExclusive("whole", "replay")
	cmd.MarkFlagsMutuallyExclusive("whole", "model")
	return cmd
}

const shownLines = 20 // of a text

// transcriptPrinter shows a transcript.
type transcriptPrinter struct {
	out   *cli.Output
	whole bool
}

// say shows a heading of ours, without a word of anybody else's in it that is not quoted.
func (s *transcriptPrinter) say(format string, args ...any) {
	s.out.Printf("%s\n", inert.Line(fmt.Sprintf(format, args...)))
}

// text shows a text.
func (s *transcriptPrinter) text(text string) {
	lines := inert.Prefixed("  "+inert.Gutter, strings.TrimRight(text, "\n"), cli.Columns(s.out.Screen))
	rest := 0
	if !s.whole && len(lines) > shownLines {
		rest = len(lines) - shownLines
		lines = lines[:shownLines]
	}
	for _, line := range lines {
		s.out.Printf("%s\n", line)
	}
	if rest > 0 {
		s.say("  %s more", cli.Count(rest, "line"))
	}
}

func showRecording(s *transcriptPrinter, r *replay.Recording) {
	if r.Configuration != nil {
		s.configuration(r.Configuration)
	}
	for _, c := range r.Conversations {
		s.conversation(r.Configuration, c)
	}
}

func (s *transcriptPrinter) configuration(c *cell.Configuration) {
	s.say("%s (%s), model %s, tools %s", cli.Quoted(string(c.Agent)), c.Role, cli.Quoted(c.Model), cmp.Or(strings.Join(c.Tools, ", "), "none"))
}

func (s *transcriptPrinter) conversation(config *cell.Configuration, c *replay.Conversation) {
	s.say("")
	switch {
	case c.Kind == "":
		s.say("calls of a model only")
	case c.Kind == cell.TaskConversation && config != nil:
		s.say("a task:")
		s.text(config.Task)
	default:
		s.say("conversation %s: a %s:", cli.Quoted(c.ID), c.Kind)
		s.text(string(c.Asked))
	}
	var before *llm.Request
	turn := 0
	for i := range c.Calls {
		l := &c.Calls[i]
		if l.Kind != replay.Model {
			s.call(l)
			continue
		}
		r, err := l.ModelRequest()
		if err != nil { // it was read already
			continue
		}
		turn++
		s.turn(turn, l, r, before)
		before = r
	}
	switch {
	case c.Kind == "":
	case c.End == nil:
		s.say("it is unfinished in the transcript")
	default:
		s.end(c.End)
	}
}

// turn shows a call of a model, with what it was asked since the turn before.
func (s *transcriptPrinter) turn(n int, l *replay.Line, r, before *llm.Request) {
	s.say("turn %d, asked of %s:", n, cli.Quoted(l.Model))
	s.request(r, before)
	s.reply(l)
}

// end shows how a conversation ended.
func (s *transcriptPrinter) end(l *replay.Line) {
	if l.Failure != "" {
		s.say("it failed:")
		s.text(l.Detail)
		return
	}
	s.say("it ended with:")
	s.text(string(l.Response))
}

// call shows what else the cell asked for. What a fetch brought in is in the next turn.
func (s *transcriptPrinter) call(l *replay.Line) {
	s.say("the cell calls %s:", cli.Quoted(l.Kind))
	s.text(string(l.Request))
	switch {
	case l.Failure != "":
		s.say("  it was refused: %s", cli.Quoted(l.Detail))
	case l.Kind == "fetch":
		s.say("  it brought in %s", inert.Length(string(l.Response)))
	default:
		s.say("  it gave:")
		s.text(string(l.Response))
	}
}

// request shows what a request adds to the one before it.
func (s *transcriptPrinter) request(r, before *llm.Request) {
	turns := r.Turns
	if before != nil && len(before.Turns) <= len(turns) && reflect.DeepEqual(before.Turns, turns[:len(before.Turns)]) && reflect.DeepEqual(before.System, r.System) {
		turns = turns[len(before.Turns):]
	} else {
		s.parts("system", r.System)
	}
	if before == nil || !reflect.DeepEqual(before.Tools, r.Tools) {
		names := cli.Map(r.Tools, func(t llm.Tool) string { return t.Name })
		s.say("  tools: %s", cmp.Or(strings.Join(names, ", "), "none"))
	}
	for _, t := range turns {
		if t.Role == llm.Model { // shown as a reply
			continue
		}
		s.parts("told", t.Parts)
		for _, result := range t.Results {
			name := "result"
			if result.Failed {
				name = "failed"
			}
			s.parts(name+" of call "+cli.Quoted(result.Call), result.Parts)
		}
	}
}

func (s *transcriptPrinter) parts(name string, parts []llm.Part) {
	for _, p := range parts {
		if data, fenced := p.(llm.Data); fenced {
			s.say("  %s, untrusted, from %s, %s:", name, data.Source(), inert.Length(data.Body()))
			s.text(data.Body())
			s.say("  end of what is untrusted")
			continue
		}
		s.say("  %s:", name)
		s.text(p.Text())
	}
}

func (s *transcriptPrinter) reply(l *replay.Line) {
	if l.Failure != "" {
		s.say("  the model did not answer: %s", cli.Quoted(l.Failure))
		return
	}
	reply, err := llm.ParseReply(l.Response)
	if err != nil { // it was read already
		return
	}
	for _, said := range reply.Said {
		s.say("  the model says:")
		s.text(said.Text())
	}
	for _, call := range reply.Calls {
		s.say("  the model calls %s (%s):", cli.Quoted(call.Name), cli.Quoted(call.ID))
		s.text(string(call.Arguments))
	}
	u := reply.Usage
	s.say("  %d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output)
}

// readRecording reads a transcript.
func readRecording(path string) (*replay.Recording, error) {
	content, err := cli.ReadFile(path, replay.MaxBytes)
	if err != nil {
		return nil, err
	}
	r, err := replay.Read(content)
	if err != nil {
		return nil, cli.Failf("%s: %s", cli.Quoted(path), strings.TrimPrefix(err.Error(), "replay: ")).WithHint("bcpmesh agent run NAME --record FILE writes one")
	}
	return r, nil
}

// played is a conversation that was run again; its keys are a contract.
type played struct {
	Conversation string             `json:"conversation"`
	Kind         string             `json:"kind"`
	Outcome      string             `json:"outcome"` // same, different, unfinished; with another model compared
	Difference   *replay.Difference `json:"difference,omitempty"`
	Recorded     *taken             `json:"recorded,omitempty"`
	Now          *taken             `json:"now,omitempty"`
}

// taken is what one model made of a conversation.
type taken struct {
	Model   string         `json:"model"`
	Answer  jsontext.Value `json:"answer,omitzero"`
	Failure string         `json:"failure,omitzero"`
	replay.Judgement
	Calls  int         `json:"calls"`
	Tokens cost.Tokens `json:"tokens"`
	Cost   *cost.USD   `json:"cost_usd,omitempty"` // absent if nobody knows the price
}

func replayTranscript(ctx context.Context, p *cli.Program, path, dir, model string) error {
	r, err := readRecording(path)
	if err != nil {
		return err
	}
	if r.Configuration == nil {
		return cli.Failf("%s has only calls of a model, which cannot be replayed", cli.Quoted(path)).WithHint("bcpmesh agent run NAME --record FILE records what the cell needs")
	}
	confined := sandbox.Detect().Missing()
	if confined != nil && r.Configuration.Confined {
		return cli.Failf("the cell cannot be confined, and is not started: %s", confined).WithHint("run it in a container or a virtual machine")
	}
	o := replay.Options{Confined: confined == nil}
	var asked, was bcp.Model
	if model != "" {
		if o.Model, asked, was, err = replayModels(dir, model, r); err != nil {
			return err
		}
	}
	output := process.NewOutput(cli.NewLogger(hclog.Warn, p.Out.Stderr))
	defer output.End()
	var started keeper.Cell
	o.Start = func(context.Context) (io.Reader, io.WriteCloser, error) {
		by := bcp.SandboxNone
		if o.Confined {
			by = bcp.SandboxRequired
		}
		if started, err = startCell(by, nil, output); err != nil {
			return nil, nil, err
		}
		return started.Out, started.In, nil
	}
	outcomes, err := r.Run(ctx, o)
	if started.End != nil {
		_, _ = started.In.Close(), started.Out.Close() // or the run did
		started.End()
	}
	failure, isFailure := errors.AsType[*cli.Failure](err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isFailure:
		return failure
	case err != nil:
		return cli.Failf("%s %s", strings.TrimPrefix(err.Error(), "replay: "), output.LastLine())
	}
	if o.Model != nil {
		return compared(p, r, outcomes, was, asked)
	}
	return repeated(p, r, outcomes)
}

// replayModels opens another model, and finds the recorded one for its price.
func replayModels(dir, name string, r *replay.Recording) (*llm.Endpoint, bcp.Model, bcp.Model, error) {
	folder, def := meshdir.Folder{Dir: "."}, &bcp.Mesh{}
	found, err := meshdir.Find(".")
	if dir != "" {
		found, err = meshdir.Argument([]string{dir})
	}
	if err == nil {
		folder = found
		if def, err = folder.Load(); err != nil {
			return nil, bcp.Model{}, bcp.Model{}, err
		}
	} else if dir != "" {
		return nil, bcp.Model{}, bcp.Model{}, err
	}
	asked, known := def.ModelOf(name)
	if !known {
		return nil, asked, asked, cli.Usagef("agent show: --model: expected a name of models in mesh.yaml or PROVIDER/MODEL, got %s", cli.Quoted(name)).WithHint("the providers are %s", cli.JoinOr(bcp.Providers()))
	}
	e, err := folder.OpenModel(asked, r.Configuration.MaxTokens)
	if err != nil {
		return nil, asked, asked, cli.Failf("the model %s: %s", cli.Quoted(name), err)
	}
	was := bcp.Model{Model: r.Configuration.Model}
	if i := slices.IndexFunc(def.Models, func(m bcp.Model) bool { return m.Model == was.Model }); i >= 0 {
		was = def.Models[i]
	} else if agent, ok := def.Agent(r.Configuration.Agent); ok {
		if m, ok := def.ModelOf(agent.Model); ok && m.Model == was.Model {
			was = m
		}
	}
	return &e, asked, was, nil
}

// repeated says whether conversations are the recorded ones.
func repeated(p *cli.Program, r *replay.Recording, outcomes []replay.Outcome) error {
	list, different, same, requests := make([]played, len(outcomes)), 0, 0, 0
	for i, o := range outcomes {
		c := r.Conversations[i]
		list[i] = played{Conversation: c.ID, Kind: c.Kind, Outcome: "same", Difference: o.Difference}
		switch {
		case o.Unfinished:
			list[i].Outcome = "unfinished"
		case o.Difference != nil:
			list[i].Outcome = "different"
			different++
		default:
			same++
		}
		requests += o.Calls
	}
	if err := p.Out.Show(map[string]any{"conversations": list}, func() {
		for _, l := range list {
			switch d := l.Difference; {
			case d != nil:
				p.Out.Printf("conversation %s (%s): turn %d: %s differs from byte %d on\n  recorded: %s\n  now:      %s\n",
					cli.Plain(l.Conversation), l.Kind, d.Turn, callName(d.Kind), d.Byte, cli.Plain(strconv.Quote(d.Recorded)), cli.Plain(strconv.Quote(d.Now)))
			case l.Outcome == "unfinished":
				p.Out.Printf("conversation %s (%s): unfinished in the transcript, left out\n", cli.Plain(l.Conversation), l.Kind)
			}
		}
		p.Out.Printf("%s the same, %d different; %s of the model\n", cli.Count(same, "conversation"), different, cli.Count(requests, "call"))
	}); err != nil {
		return err
	}
	switch {
	case different > 0:
		return cli.Failf("%s differ from the transcript", cli.Count(different, "conversation"))
	case same == 0:
		return cli.Failf("the transcript has no finished conversation")
	}
	return nil
}

// callName is a kind of a call, for people.
func callName(kind string) string {
	switch kind {
	case replay.Model:
		return "the request to the model"
	case replay.End:
		return "the answer"
	}
	return "the call " + kind
}

// compared is a table of what two models made of the same content.
func compared(p *cli.Program, r *replay.Recording, outcomes []replay.Outcome, was, asked bcp.Model) error {
	var list []played
	for i, o := range outcomes {
		c := r.Conversations[i]
		if o.Unfinished {
			list = append(list, played{Conversation: c.ID, Kind: c.Kind, Outcome: "unfinished"})
			continue
		}
		name, usage, calls := c.Model()
		list = append(list, played{
			Conversation: c.ID, Kind: c.Kind, Outcome: "compared",
			Recorded: takenBy(c, was, name, c.End.Response, c.End.Detail, calls, usage),
			Now:      takenBy(c, asked, asked.Model, o.Answer, o.Failure, o.Calls, o.Usage),
		})
	}
	return p.Out.Show(map[string]any{"conversations": list}, func() {
		var rows [][]string
		var recorded, now total
		for _, l := range list {
			if l.Now != nil {
				rows = append(rows, replayRow(l, l.Recorded), replayRow(l, l.Now))
				recorded.add(l.Recorded)
				now.add(l.Now)
			}
		}
		for _, t := range []*total{&recorded, &now} {
			if t.conversations > 0 {
				rows = append(rows, []string{"all", "", t.model, "", fmt.Sprintf("%d accepted", t.accepted), t.bits.Rounded(), strconv.Itoa(t.calls), strconv.FormatInt(t.tokens, 10), describeCost(t.cost, t.priced == t.conversations)})
			}
		}
		p.Out.Table([]string{"conversation", "kind", "model", "answer", "verdict", "bits", "calls", "tokens", "cost"}, rows)
	})
}

// takenBy is what a model made of a conversation.
func takenBy(c *replay.Conversation, model bcp.Model, name string, answer jsontext.Value, failure string, calls int, u llm.Usage) *taken {
	t := &taken{
		Model: name, Answer: answer, Failure: failure, Judgement: c.Judge(answer), Calls: calls,
		Tokens: cost.Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output},
	}
	if price, known := model.Price(); known {
		spent := price.Of(t.Tokens)
		t.Cost = &spent
	}
	return t
}

// total is what a model made of all conversations.
type total struct {
	model                   string
	conversations, accepted int
	calls, priced           int
	bits                    bcp.Bits
	tokens                  int64
	cost                    cost.USD
}

func (s *total) add(t *taken) {
	s.model = t.Model
	s.conversations++
	s.calls += t.Calls
	s.bits += t.Bits
	s.tokens = cost.Plus(s.tokens, t.Tokens.Sum())
	if t.Cost != nil {
		s.priced++
		s.cost = cost.Plus(s.cost, *t.Cost)
	}
	if t.Verdict == bcp.Accept.String() || t.Verdict == bcp.Hold.String() {
		s.accepted++
	}
}

const longestAnswer = 48 // columns

func replayRow(l played, t *taken) []string {
	answer := string(t.Answer)
	if t.Answer == nil {
		answer = "failed: " + t.Failure
	}
	var spent cost.USD
	if t.Cost != nil {
		spent = *t.Cost
	}
	return []string{l.Conversation, l.Kind, t.Model, inert.Cut(inert.Line(answer), longestAnswer), t.Verdict, t.Bits.Rounded(), strconv.Itoa(t.Calls), strconv.FormatInt(t.Tokens.Sum(), 10), describeCost(spent, t.Cost != nil)}
}

func describeCost(spent cost.USD, known bool) string {
	if !known {
		return "unknown"
	}
	return spent.String() + " USD"
}
