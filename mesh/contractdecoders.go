package mesh

import (
	"crypto/sha256"
	_ "embed" // the vectors of decoders

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

//go:embed contractdecoders.json
var decoderTexts []byte

// decoderVectors are the test vectors of the strict decoders.
type decoderVectors struct {
	// Tools are the types of the arguments and results of the tools of the plans, and
	// Spec the spec of a Reader.
	Tools []struct {
		Name   string         `json:"name"`
		Input  jsontext.Value `json:"input"`
		Output jsontext.Value `json:"output"`
	} `json:"tools"`
	Spec    jsontext.Value  `json:"spec"`
	Plans   []decoderVector `json:"plans"`
	Answers []decoderVector `json:"answers"`
}

// decoderVector is one input; OK says that the decoder must accept it.
type decoderVector struct {
	Input string `json:"input"`
	OK    bool   `json:"ok"`
}

// testDecoders tests the decoders of plans and of answers with the embedded vectors. A
// decoder that cannot be tested has failed.
func testDecoders() []contract.SelfTest {
	var v decoderVectors
	if err := json.Unmarshal(decoderTexts, &v); err != nil {
		return nil
	}
	return []contract.SelfTest{
		tryDecoder("planner.output", v.Plans, v.planDecoder()), tryDecoder("processor.output", v.Answers, v.answerDecoder()),
	}
}

// tryDecoder counts the vectors that a decoder judges correctly; nil judges none.
func tryDecoder(output string, vectors []decoderVector, takes func([]byte) bool) contract.SelfTest {
	text, _ := json.Marshal(vectors) // of texts and booleans
	t := contract.SelfTest{Output: output, Vectors: sha256.Sum256(text)}
	for _, v := range vectors {
		if takes != nil && takes([]byte(v.Input)) == v.OK {
			t.Passed++
		} else {
			t.Failed++
		}
	}
	return t
}

// planDecoder returns the decoder of plans, for a kernel with the tools of the vectors.
func (v *decoderVectors) planDecoder() func([]byte) bool {
	d := kernel.Definition{
		Name: "kernel", Planner: "planner", Limits: kernel.DefaultLimits(), UntestedRules: true,
		Requesters: map[bcp.AgentName][]string{"user": {"all"}}, Grants: map[string][]kernel.Capability{"all": {"all"}},
	}
	for _, t := range v.Tools {
		input, err1 := kernel.ParseType(t.Input)
		output, err2 := kernel.ParseType(t.Output)
		if err1 != nil || err2 != nil {
			return nil
		}
		d.Tools = append(d.Tools, kernel.Tool{Name: t.Name, Level: kernel.Read, RequiredCaps: []kernel.Capability{"all"}, Input: input, Output: output})
	}
	k, defects := kernel.New(d)
	if len(defects) > 0 {
		return nil
	}
	grant, ok := k.GrantOf("user", "all")
	if !ok {
		return nil
	}
	return func(b []byte) bool {
		_, fault := k.ReadPlan(b, kernel.Frame{Grant: grant, Query: kernel.Trusted()})
		return fault.Code == ""
	}
}

// answerDecoder returns the decoder of answers to the spec of the vectors.
func (v *decoderVectors) answerDecoder() func([]byte) bool {
	spec, err := bcp.ParseSpec(v.Spec)
	if err != nil {
		return nil
	}
	validator, err := bcp.Compile(spec, bcp.Settings{})
	if err != nil {
		return nil
	}
	return func(b []byte) bool { return validator.Validate(b, bcp.JSON).Outcome == bcp.Accept }
}
