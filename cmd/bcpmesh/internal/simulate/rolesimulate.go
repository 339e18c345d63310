package simulate

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// RoleSimulate plays cases of roles.
type RoleSimulate struct{}

func (*RoleSimulate) Run(ctx context.Context, p *cli.Program, _ []string) error {
	return simulate(ctx, p, playRole)
}

// playRole judges one line. The error says that it is no case.
func playRole(line []byte) (any, error) {
	c, err := parseRoleCase(line)
	if err != nil {
		return nil, err
	}
	var result map[string]any
	if play := rolePlays[c.Kind]; play != nil {
		result, err = play(c.Input)
	} else {
		err = errors.New("kind: expected contract, matrix, edge, error or attest")
	}
	if err != nil {
		return map[string]any{"id": c.ID, "error": err.Error()}, nil
	}
	for key := range result {
		if _, asked := c.Expect[key]; c.Expect != nil && !asked {
			delete(result, key)
		}
	}
	result["id"] = c.ID
	return result, nil
}

// rolePlays judge the inputs of each kind of case.
var rolePlays = map[string]func(input jsontext.Value) (map[string]any, error){
	"contract": judged(contractInput{}, playContract), "matrix": judged(matrixInput{}, playMatrix), "edge": judged(edgeInput{}, playEdge),
	"error": judged(roleFailure{Attempt: 1, Step: "s1"}, playError), "attest": judged(attestInput{}, playAttest),
}

// judged reads an input over what it is without keys. Keys that a kind does not have are left out.
func judged[In any](without In, play func(In) (map[string]any, error)) func(jsontext.Value) (map[string]any, error) {
	return func(input jsontext.Value) (map[string]any, error) {
		in := without
		if err := json.Unmarshal(input, &in, jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, errors.New("input: a value has the wrong type; docs/contracts.md shows each kind")
		}
		return play(in)
	}
}

type contractInput struct {
	Contract jsontext.Value `json:"contract"`
	Facts    jsontext.Value `json:"facts"`
}

func playContract(in contractInput) (map[string]any, error) {
	parsed, defects := contract.Parse(document(in.Contract))
	result := map[string]any{"ok": len(defects) == 0, "codes": contract.Codes(defects)}
	if len(defects) > 0 {
		return result, nil
	}
	predicates := cli.Map(parsed.Invariants, func(v contract.Invariant) string { return v.Predicate.String() })
	result["predicates"] = predicates
	if in.Facts != nil && in.Facts.Kind() != 'n' {
		var facts contract.Facts
		if err := json.Unmarshal(in.Facts, &facts, jsontext.AllowDuplicateNames(true)); err != nil {
			return nil, errors.New("input.facts: a value is wrong; docs/contracts.md says what they are")
		}
		report := contract.Verify(parsed, facts)
		result["ok"], result["report"] = report.OK, report
	}
	return result, nil
}

type matrixInput struct {
	Role   string          `json:"role"`
	Column contract.Column `json:"column"`
}

func playMatrix(in matrixInput) (map[string]any, error) {
	role, known := contract.ParseRole(in.Role)
	if !known {
		return nil, errors.New("input.role: expected planner, processor, orchestrator, user or tool")
	}
	cell := contract.Sees(role, in.Column)
	if !cell.Column.Known() {
		return nil, errors.New("input.column: expected user_query, tool_outputs, plan or external_data")
	}
	return map[string]any{"sees": cell.Sees, "how": cell.How}, nil
}

type edgeInput struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func playEdge(in edgeInput) (map[string]any, error) {
	from, ok1 := contract.ParseRole(in.From)
	to, ok2 := contract.ParseRole(in.To)
	if !ok1 || !ok2 {
		return nil, errors.New("input: expected from and to, each of them planner, processor, orchestrator, user or tools")
	}
	by := contract.Between(from, to)
	return map[string]any{"exists": by != contract.NoPassage, "by": by}, nil
}

func playAttest(in attestInput) (map[string]any, error) {
	e, err := in.examination()
	if err != nil {
		return nil, err
	}
	a := contract.JudgeAttestation(&e)
	result := map[string]any{"accepted": a.Accepted, "code": a.Code}
	if a.Accepted {
		result["until"] = a.Until.UTC().Format(time.RFC3339)
	}
	return result, nil
}

// roleFailure is what failed, in the words of the answers of a kernel's case.
type roleFailure struct {
	Kind                 string         `json:"kind"`
	Step                 string         `json:"step"`
	Attempt              int            `json:"attempt"`
	Value                jsontext.Value `json:"value"`
	NotEnoughInformation jsontext.Value `json:"not_enough_information"`
	Result               jsontext.Value `json:"result"`
	Error                jsontext.Value `json:"error"`
	Timeout              jsontext.Value `json:"timeout"`
	Plan                 jsontext.Value `json:"plan"`
	Text                 *string        `json:"text"`
	Fail                 string         `json:"fail"`
}

// notEnough reports whether a processor said that it has not enough information, and
// nothing else (PROTOCOL P3.9).
func (in *roleFailure) notEnough() bool {
	value := in.Value.Clone()
	return string(in.NotEnoughInformation) == "true" || in.Kind == "not_enough_information" || value.Compact() == nil && string(value) == `{"not_enough_information":true}`
}

// noArguments is the type of a tool without arguments.
var noArguments = jsontext.Value(`{"type":"object","properties":{}}`)

// maxAttempt bounds the attempts of a case. A kernel asks for far fewer plans, and its
// planner hears nothing of what failed in the last one.
const maxAttempt = 1000

// playError has a kernel meet the failure, and returns what its planner is told with
// the next request; nothing if the run ends by it.
func playError(in roleFailure) (map[string]any, error) {
	if in.Attempt < 1 || in.Attempt > maxAttempt {
		return nil, errors.New("input.attempt: expected 1 to 1000")
	}
	run, err := in.run()
	if err != nil {
		return nil, err
	}
	w, err := newKernelWorld(run)
	if err != nil {
		return nil, err
	}
	if err := w.run(); err != nil {
		return nil, err
	}
	result := map[string]any{"told": nil}
	if len(w.out.ErrorsTold) <= in.Attempt {
		return result, nil
	}
	var told []struct {
		Attempt int            `json:"attempt"`
		Step    jsontext.Value `json:"step"`
		Code    string         `json:"code"`
	}
	if err := json.Unmarshal(w.out.ErrorsTold[in.Attempt], &told); err != nil {
		return nil, err
	}
	result["told"] = told[len(told)-1]
	return result, nil
}

// run returns the run of a kernel whose planner makes useless plans until the attempt
// that fails.
func (in *roleFailure) run() (*kernelInput, error) {
	source := "source"
	if in.Step == source {
		source = "content"
	}
	steps := map[string]string{
		"parse": `{"kind":"const","id":"` + source + `","value":"x"},{"kind":"q_parse","id":STEP,"source":{"ref":"` + source + `"},"schema_ref":"Expected","instruction":"x"}`,
		"tool":  `{"kind":"tool","id":STEP,"tool":"act"}`,
		"index": `{"kind":"tool","id":"` + source + `","tool":"list"},{"kind":"merge","id":STEP,"inputs":{"x":{"ref":"` + source + `","path":"0"}}}`,
	}
	run := kernelInput{
		Query: caseQuery{Text: "a task"},
		// No answer of a case is one of this schema, or one of this tool.
		Schemas: map[string]jsontext.Value{"Expected": jsontext.Value(`{"category":1,"fields":[{"name":"no_answer_has_this","type":"boolean"}]}`)},
		Tools: []caseTool{
			{Tool: kernel.Tool{Name: "act", Level: kernel.Read}, InputSchema: noArguments, OutputSchema: jsontext.Value(`{"enum":["no outcome is this"]}`)},
			{Tool: kernel.Tool{Name: "list", Level: kernel.Read}, InputSchema: noArguments, OutputSchema: jsontext.Value(`{"type":"array","items":{"type":"string"}}`)},
		},
		ToolResults: map[string][]caseResult{"act": {{Result: in.Result, Error: in.Error, Timeout: in.Timeout}}, "list": {{Result: jsontext.Value("[]")}}},
		Parser:      map[string][]caseParser{"Expected": {{Value: in.Value, NotEnoughInformation: in.notEnough(), Timeout: in.Timeout}}},
	}
	for range in.Attempt - 1 {
		run.Planner = append(run.Planner, casePlanner{Fail: "malformed"})
	}
	failing := casePlanner{Plan: in.Plan, Text: in.Text, Fail: in.Fail}
	if in.Kind != "planner" {
		kind := in.Kind
		if kind == "not_enough_information" {
			kind = "parse"
		}
		plan, known := steps[kind]
		if !known {
			return nil, errors.New("input.kind: expected parse, not_enough_information, tool, index or planner")
		}
		id, err := json.Marshal(in.Step)
		if err != nil {
			return nil, errors.New("input.step: expected UTF-8")
		}
		plan = strings.Replace(plan, "STEP", string(id), 1)
		failing = casePlanner{Plan: jsontext.Value(`{"steps":[` + plan + `],"final":` + string(id) + `}`)}
	}
	run.Planner = append(run.Planner, failing, casePlanner{Fail: "timeout"})
	return &run, nil
}

// roleCase is one line of the input of role simulate.
type roleCase struct {
	ID     jsontext.Value            `json:"id"`
	Kind   string                    `json:"kind"`
	Input  jsontext.Value            `json:"input"`
	Expect map[string]jsontext.Value `json:"expect"`
}

func parseRoleCase(line []byte) (roleCase, error) {
	c := roleCase{ID: jsontext.Value("null")}
	// A contract with a repeated key is a case too: its own parser refuses it.
	if err := json.Unmarshal(line, &c, jsontext.AllowDuplicateNames(true)); err != nil || c.Input.Kind() != '{' {
		return c, errors.New("expected an object with id, kind, input and perhaps expect, as docs/contracts.md says")
	}
	return c, nil
}

// document returns the bytes of a document that is in a case as JSON, or as a
// text.
func document(v jsontext.Value) []byte {
	var text string
	if v.Kind() == '"' && json.Unmarshal(v, &text) == nil {
		return []byte(text)
	}
	return v
}

// attestInput is an attestation, and everything that a verdict about it depends on.
type attestInput struct {
	Envelope    jsontext.Value      `json:"envelope"`
	Trust       []caseTrust         `json:"trust"`
	Revocations jsontext.Value      `json:"revocations"`
	LastNumber  int64               `json:"last_revocation_number"`
	Now         string              `json:"now"`
	Requirement jsontext.Value      `json:"requirement"`
	Contracts   []jsontext.Value    `json:"contracts"`
	Agent       string              `json:"agent"`
	Challenge   *contract.Challenge `json:"challenge"`
	Proof       contract.Proof      `json:"proof"`
}

type caseTrust struct {
	Organisation string `json:"organisation"`
	Key          string `json:"key"`
	Until        string `json:"until"`
}

// examination returns what is to be judged. A key that cannot be read is not trusted,
// and a revocation list that cannot be read is not current.
func (in *attestInput) examination() (contract.Examination, error) {
	e := contract.Examination{
		Envelope: document(in.Envelope), Agent: in.Agent, LastNumber: in.LastNumber, Proof: in.Proof, Challenge: in.Challenge,
		Verify: func(key [32]byte, message, signature []byte) bool { return ed25519.Verify(key[:], message, signature) },
	}
	var err error
	if e.Now, err = time.Parse(time.RFC3339, in.Now); err != nil {
		return e, errors.New("input.now: expected a time such as 2026-03-01T06:00:00Z")
	}
	for i, t := range in.Trust {
		trusted := bcp.Trust{Organisation: t.Organisation}
		if t.Until != "" {
			if trusted.Until, err = time.Parse(time.RFC3339, t.Until); err != nil {
				return e, fmt.Errorf("input.trust[%d].until: expected a time such as 2026-03-01T06:00:00Z", i)
			}
		}
		if key, ok := ParsePublicKey([]byte(t.Key)); ok {
			trusted.Key = key
			e.Trust = append(e.Trust, trusted)
		}
	}
	if list, ok := contract.ParseRevocations(in.Revocations); ok {
		e.Revocations = list
	}
	if e.Requirement, err = parseRequirement(in.Requirement); err != nil {
		return e, fmt.Errorf("input.requirement: %w", err)
	}
	for _, c := range in.Contracts {
		e.Contracts = append(e.Contracts, document(c))
	}
	if in.Challenge != nil {
		in.Challenge.Verify = accounts.Verify
	}
	return e, nil
}

// parseRequirement reads a requirement, or the name of the built-in one, which is
// also what holds if there is none.
func parseRequirement(raw jsontext.Value) (contract.Requirement, error) {
	if raw == nil || string(raw) == `"dual-llm"` {
		return contract.DualLLMRequirement(), nil
	}
	r, ok := contract.ParseRequirement(raw)
	if !ok {
		return r, errors.New("expected architectures, orchestrators, invariants and evidence, as docs/contracts.md says")
	}
	return r, nil
}

// ParsePublicKey reads an ed25519 key in PEM, as openssl pkey -pubout writes it.
func ParsePublicKey(b []byte) (key [32]byte, ok bool) {
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PUBLIC KEY" {
		return key, false
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return key, false
	}
	edwards, ok := public.(ed25519.PublicKey)
	copy(key[:], edwards)
	return key, ok
}
