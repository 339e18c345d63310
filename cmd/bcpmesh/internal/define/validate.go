package define

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	agentsfolder "github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
)

// caseVerdict is one line of the output; its keys are a contract.
type caseVerdict struct {
	ID           jsontext.Value `json:"id"`
	Verdict      string         `json:"verdict"`
	Code         bcp.Code       `json:"code"`
	Field        string         `json:"field"`
	Response     jsontext.Value `json:"response"`
	Delivered    string         `json:"delivered"`
	NominalBits  bcp.Bits       `json:"nominal_bits"`
	CapacityBits bcp.Bits       `json:"capacity_bits"`
	Anomalies    []string       `json:"anomalies"`
}

const invalidSpec = "invalid_spec"

// Validate has no flags.
type Validate struct{}

// Run judges cases.
func (*Validate) Run(ctx context.Context, p *cli.Program, files []string) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	j := &judge{out: p.Out, ready: map[[2]string]compiled{}}
	for _, name := range files {
		if info, err := os.Stat(name); name != "-" && err == nil && info.IsDir() {
			return cli.Failf("%s is a folder", cli.Quoted(name))
		}
	}
	for _, name := range files {
		if err := j.file(ctx, p, name); err != nil {
			return err
		}
	}
	if j.bad > 0 {
		return cli.Failf("%s not judged", cli.Count(j.bad, "line"))
	}
	return nil
}

// judge keeps what one run of validate needs from line to line.
type judge struct {
	out   *cli.Output
	bad   int
	ready map[[2]string]compiled // by settings and spec
}

func (j *judge) file(ctx context.Context, p *cli.Program, name string) error {
	at, in := "", p.In
	if name == "-" {
		name = ""
	} else {
		f, err := agentsfolder.OpenFile(name)
		if err != nil {
			return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
		}
		defer f.Close()
		at, in = cli.Plain(name)+": ", f
	}
	return cli.EachLine(ctx, p, name, in, func(n int, line []byte, wrong error) error {
		var v caseVerdict
		if wrong == nil {
			v, wrong = j.line(line)
		}
		if wrong != nil {
			j.bad++
			j.out.Talkf("%sline %d: %s", at, n, wrong)
			return nil
		}
		if err := j.out.Value(v); err != nil {
			return cli.Failf("the result cannot be written: %s", cli.FileReason(err))
		}
		return nil
	})
}

// line judges one line. The error says why it cannot be judged.
func (j *judge) line(line []byte) (caseVerdict, error) {
	c, err := parseCase(line)
	if err != nil {
		return caseVerdict{}, err
	}
	result := caseVerdict{ID: c.id, Response: jsontext.Value("null"), Anomalies: []string{}}
	spec, err := j.compile(&c)
	switch {
	case err != nil:
		return result, err
	case spec.validator == nil:
		result.Verdict, result.Code, result.Field = invalidSpec, bcp.InvalidQuery, spec.wrong
		return result, nil
	}
	prices := spec.validator.Prices()
	result.NominalBits, result.CapacityBits = prices.Nominal, prices.Capacity
	v := spec.validator.Validate(c.answer, c.encoding)
	result.Verdict, result.Field = v.Outcome.String(), v.Field
	if v.Outcome != bcp.Accept && v.Outcome != bcp.Hold {
		result.Code = v.Reason.Code()
	}
	if !v.Answer.IsZero() {
		result.Response, result.Delivered = v.Answer.JSON(), v.Answer.String()
	}
	result.Anomalies = append(result.Anomalies, v.Anomalies...)
	return result, nil
}

// answerCase is one line of the input of validate. Its values are parts of the
// line.
type answerCase struct {
	id       jsontext.Value
	spec     jsontext.Value
	settings jsontext.Value // nil: none
	encoding bcp.Encoding
	answer   []byte
}

// caseKeys are those of a line.
var caseKeys = []string{"id", "spec", "response", "response_raw", "response_base64", "encoding", "settings"}

// parseCase reads a line. The line is strict JSON with known keys, each once;
// what is in response and spec is not judged here and stays as it is.
func parseCase(line []byte) (c answerCase, err error) {
	members, err := splitMembers(line)
	if err != nil {
		return c, err
	}
	c = answerCase{id: jsontext.Value("null"), encoding: bcp.JSON}
	var response jsontext.Value
	texts, answers := map[string]string{}, 0
	for _, m := range members {
		switch m.name {
		case "id":
			c.id = m.value
		case "spec":
			c.spec = m.value
		case "settings":
			c.settings = m.value
		case "response":
			response = m.value
		case "encoding", "response_raw", "response_base64":
			if texts[m.name], err = memberText(m); err != nil {
				return c, err
			}
		default:
			return c, unknownKey(m.name, caseKeys)
		}
		if strings.HasPrefix(m.name, "response") {
			answers++
		}
	}
	word, encoded := texts["encoding"]
	packed, inBase64 := texts["response_base64"]
	switch kind := c.id.Kind(); {
	case kind != '"' && kind != '0' && kind != 'n' || !c.id.IsValid():
		return c, errors.New("id: expected text or a number")
	case encoded && c.encoding.UnmarshalText([]byte(word)) != nil:
		return c, errors.New("encoding: expected json or msgpack")
	case c.spec == nil:
		return c, errors.New("there is no spec")
	case answers != 1:
		return c, errors.New("expected one of response, response_raw and response_base64")
	case inBase64:
		if c.answer, err = base64.StdEncoding.Strict().DecodeString(packed); err != nil {
			return c, errors.New("response_base64: expected base64 with padding")
		}
	case response == nil:
		c.answer = []byte(texts["response_raw"])
	case c.encoding == bcp.MessagePack:
		// What MessagePack cannot say is malformed in it, like the empty
		// message that is left.
		c.answer, _ = wire.MsgpackFromJSON(nil, response)
	default:
		c.answer = response
	}
	return c, nil
}

func unknownKey(name string, known []string) error {
	if near := cli.Suggestion(name, known); near != "" {
		return fmt.Errorf("unknown key %s; did you mean %s?", cli.Quoted(name), near)
	}
	return fmt.Errorf("unknown key %s", cli.Quoted(name))
}

// member is one member of a JSON object; value is the very bytes.
type member struct {
	name  string
	value jsontext.Value
}

// splitMembers splits a JSON object without judging what is inside its values,
// where names may repeat and texts be invalid.
func splitMembers(b []byte) ([]member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if start, err := dec.ReadToken(); err != nil || start.Kind() != '{' {
		return nil, notJSON(err)
	}
	var members []member
	seen := map[string]bool{}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, notJSON(err)
		}
		m := member{name: name.String()}
		if seen[m.name] {
			return nil, fmt.Errorf("the key %s is there twice", cli.Quoted(m.name))
		}
		seen[m.name] = true
		value, err := dec.ReadValue()
		if err != nil {
			return nil, notJSON(err)
		}
		end := dec.InputOffset()
		m.value = b[end-int64(len(value)) : end : end]
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is data after the JSON object")
	}
	return members, nil
}

// notJSON says where the JSON is broken, and quotes nothing.
func notJSON(err error) error {
	var syntax *jsontext.SyntacticError
	switch {
	case err == nil:
		return errors.New("expected a JSON object")
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON at byte %d", syntax.ByteOffset+1)
	default:
		return errors.New("not JSON: it ends too early")
	}
}

func memberText(m member) (string, error) {
	var text string
	if m.value.Kind() != '"' {
		return "", fmt.Errorf("%s: expected text", m.name)
	}
	if err := json.Unmarshal(m.value, &text); err != nil {
		return "", fmt.Errorf("%s: not valid Unicode; response_base64 takes any bytes", m.name)
	}
	return text, nil
}

// compiled is a spec with its settings, ready to judge; without a validator,
// the key that is wrong.
type compiled struct {
	validator *bcp.Validator
	wrong     string
}

// maxReady bounds how many specs stay compiled: cases often share one.
const maxReady = 64

// compile compiles the case's spec. The error is about the settings.
func (j *judge) compile(c *answerCase) (compiled, error) {
	key := [2]string{string(c.settings), string(c.spec)}
	if ready, ok := j.ready[key]; ok {
		return ready, nil
	}
	settings, subscriptions, err := parseSettings(c.settings)
	if err != nil {
		return compiled{}, err
	}
	settings.Constraints = constraint.Compile
	ready := compileSpec(c.spec, settings, subscriptions)
	if len(j.ready) >= maxReady {
		clear(j.ready)
	}
	if len(c.settings)+len(c.spec) <= bcp.MaxControllerMessage {
		j.ready[key] = ready
	}
	return ready, nil
}

// compileSpec compiles the spec of a query, or, if it has an id, of a subscription.
func compileSpec(raw jsontext.Value, settings bcp.Settings, subscriptions int) compiled {
	var named struct {
		ID jsontext.Value `json:"id"`
	}
	_ = json.Unmarshal(raw, &named) // what is broken in it is found below
	var sub bcp.ProposedSubscription
	var err error
	read := any(&sub.Spec)
	if named.ID == nil {
		sub.Spec, err = bcp.ParseSpec(raw)
	} else {
		sub, err = bcp.ParseProposedSubscription(raw)
		settings, read = settings.OfSubscription(bcp.Subscription{PublishWhen: sub.PublishWhen}, max(1, subscriptions)), &sub
	}
	var validator *bcp.Validator
	if err == nil {
		validator, err = bcp.Compile(sub.Spec, settings)
	}
	var wrong *bcp.SpecError
	switch {
	case errors.As(err, &wrong):
		return compiled{wrong: wrong.Key}
	case err != nil:
		return compiled{wrong: wrongKey(raw, read)}
	}
	return compiled{validator: validator}
}

// wrongKey finds the key of what could not be read into a spec, or nothing where
// the spec as a whole is wrong.
func wrongKey(raw jsontext.Value, into any) string {
	var syntax *jsontext.SyntacticError
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw))
	for {
		token, err := dec.ReadToken()
		if errors.As(err, &syntax) {
			return keyPath(syntax.JSONPointer)
		}
		if err != nil {
			break
		}
		switch token.Kind() {
		case 'n':
			return keyPath(dec.StackPointer())
		case '0':
			if _, err := strconv.ParseInt(token.String(), 10, 64); err != nil || token.String() == "-0" {
				return keyPath(dec.StackPointer())
			}
		}
	}
	var semantic *json.SemanticError
	if err := json.Unmarshal(raw, into, json.RejectUnknownMembers(true)); errors.As(err, &semantic) {
		return keyPath(semantic.JSONPointer)
	}
	return ""
}

// keyPath writes /questions/1/max_words as questions[1].max_words.
func keyPath(pointer jsontext.Pointer) string {
	var path strings.Builder
	for token := range pointer.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 32); err == nil {
			path.WriteString("[" + token + "]")
			continue
		}
		if path.Len() > 0 {
			path.WriteByte('.')
		}
		path.WriteString(token)
	}
	return path.String()
}
