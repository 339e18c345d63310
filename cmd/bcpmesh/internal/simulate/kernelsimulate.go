package simulate

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// KernelSimulate plays cases of kernels.
type KernelSimulate struct{}

func (*KernelSimulate) Run(ctx context.Context, p *cli.Program, _ []string) error {
	s := &simulation{contexts: map[string][]string{}}
	return simulate(ctx, p, s.line)
}

// simulate plays the lines of the input, and writes a result for each that can be
// played. The error of play says why one cannot.
func simulate(ctx context.Context, p *cli.Program, play func(line []byte) (any, error)) error {
	var queue resultQueue
	bad := 0
	err := cli.EachLine(ctx, p, "", p.In, func(n int, line []byte, wrong error) error {
		var result any
		if wrong == nil {
			result, wrong = play(line)
		}
		if wrong != nil {
			bad++
			p.Out.Talkf("line %d: %s", n, wrong)
			return nil
		}
		queue = append(queue, result)
		return queue.print(p, false)
	})
	if err == nil {
		err = queue.print(p, true)
	}
	if err == nil && bad > 0 {
		err = cli.Failf("%s not played", cli.Count(bad, "line"))
	}
	return err
}

// resultQueue has the results that are not printed yet.
type resultQueue []any

// print prints results in order, up to one that is compared with a case which comes
// later; at the end all.
func (q *resultQueue) print(p *cli.Program, end bool) error {
	for len(*q) > 0 {
		if run, ok := (*q)[0].(*runResult); ok && !run.compare() && !end {
			return nil
		}
		if err := p.Out.Value((*q)[0]); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
		*q = (*q)[1:]
	}
	return nil
}

// simulation keeps what one run of simulate needs from line to line.
type simulation struct {
	contexts map[string][]string // what planners were given, by the id of the case
}

// line plays one line. The error says why it cannot be played.
func (s *simulation) line(line []byte) (any, error) {
	c, err := parseKernelCase(bytes.Clone(line))
	if err != nil {
		return nil, err
	}
	switch c.Kind {
	case "plan":
		return c.playPlan()
	case "label":
		return c.playLabel()
	case "gate":
		return c.playGate()
	case "load":
		return c.playLoad()
	case "run":
		return s.playRun(&c)
	default:
		return nil, errors.New("kind: expected plan, label, gate, load or run")
	}
}

// planResult says whether a plan is right.
type planResult struct {
	ID   jsontext.Value `json:"id"`
	OK   bool           `json:"ok"`
	Code kernel.Code    `json:"code,omitempty"`
	Step string         `json:"step,omitempty"`
}

func (c *kernelCase) playPlan() (any, error) {
	k, _, err := c.Input.kernel()
	if err != nil {
		return nil, err
	}
	plan, err := c.Input.plan()
	if err != nil {
		return nil, errors.New("plan_base64: expected base64")
	}
	_, fault := k.ReadPlan(plan, kernel.Frame{Grant: kernel.NewGrant(c.Input.Grant...), Query: kernel.Trusted()})
	return planResult{c.ID, fault.Code == "", fault.Code, fault.Step}, nil
}

type labelResult struct {
	ID    jsontext.Value `json:"id"`
	Label kernel.Label   `json:"label"`
}

func (c *kernelCase) playLabel() (any, error) {
	in := &c.Input
	switch in.Op {
	case "join":
		return labelResult{c.ID, joinAll(in.Labels)}, nil
	case "tool_result":
		var labels []kernel.Label
		if err := json.Unmarshal(in.Args, &labels); err != nil {
			return nil, errors.New("args: expected a list of labels")
		}
		t := in.Tool.tool()
		return labelResult{c.ID, t.ResultLabel(joinAll(labels), in.OriginID)}, nil
	case "parse":
		in.Schemas = map[string]jsontext.Value{"schema": in.Schema}
		k, _, err := in.kernel()
		if err != nil {
			return nil, err
		}
		label, _ := k.ParseLabel("schema", in.Source, in.OriginID)
		return labelResult{c.ID, label}, nil
	default:
		return nil, errors.New("op: expected join, tool_result or parse")
	}
}

// joinAll joins labels as a run does: what is made of nothing is made of its query.
func joinAll(labels []kernel.Label) kernel.Label {
	if len(labels) == 0 {
		return kernel.Trusted()
	}
	return kernel.Join(labels...)
}

type gateResult struct {
	ID jsontext.Value `json:"id"`
	kernel.Verdict
	Defects []string `json:"defects,omitzero"` // of rules, which fail
}

// caseArgument is a value with its label.
type caseArgument struct {
	Value jsontext.Value `json:"value"`
	Label kernel.Label   `json:"label"` // without one it is tainted
}

func (c *kernelCase) playGate() (any, error) {
	in := &c.Input
	if in.Tool.OutputSchema == nil { // a gate does not look at it
		in.Tool.OutputSchema = jsontext.Value(`{"type": "object"}`)
	}
	in.Tools = []caseTool{in.Tool}
	k, defects, err := in.kernel()
	if err != nil {
		return nil, err
	}
	task := in.Query.label()
	call := kernel.Call{
		Tool: in.Tool.Name, Grant: kernel.NewGrant(in.Grant...), Depth: in.Run.Depth, Control: task,
		Asker: kernel.Asker{Requester: in.Requester, Task: kernel.Task{Known: true, Text: in.Query.Text, Label: task}},
	}
	if call.Arguments, err = parseArguments(in.Args); err != nil {
		return nil, err
	}
	return gateResult{c.ID, k.Gate().Judge(&call), defects}, nil
}

func parseArguments(raw jsontext.Value) ([]kernel.Argument, error) {
	var args map[string]caseArgument
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, errors.New("args: expected an object of {value, label}")
	}
	var list []kernel.Argument
	for name, arg := range args {
		value, err := kernel.ParseValue(arg.Value)
		if err != nil { // what is no value is one of no type
			value, _ = kernel.ParseValue([]byte(`{"?": null}`))
		}
		list = append(list, kernel.Argument{Name: name, Value: &value, Label: arg.Label, Literal: !arg.Label.Tainted()})
	}
	slices.SortFunc(list, func(a, b kernel.Argument) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

type loadResult struct {
	ID    jsontext.Value      `json:"id"`
	OK    bool                `json:"ok"`
	Codes []kernel.DefectCode `json:"codes"`
}

func (c *kernelCase) playLoad() (any, error) {
	d, err := c.Input.definition(true)
	if err != nil {
		return nil, err
	}
	if err := c.Input.setExamples(&d); err != nil {
		return nil, err
	}
	_, defects := kernel.New(d)
	result := loadResult{ID: c.ID, OK: len(defects) == 0, Codes: []kernel.DefectCode{}}
	for _, defect := range defects {
		if !slices.Contains(result.Codes, defect.Code) {
			result.Codes = append(result.Codes, defect.Code)
		}
	}
	return result, nil
}
