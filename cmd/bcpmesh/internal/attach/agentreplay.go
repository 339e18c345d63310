package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

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
	if p.Out.JSON {
		if err := p.Out.Value(map[string]any{"conversations": list}); err != nil {
			return err
		}
	} else {
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
	if p.Out.JSON {
		return p.Out.Value(map[string]any{"conversations": list})
	}
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
	return nil
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
