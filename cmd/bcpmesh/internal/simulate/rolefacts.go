package simulate

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// caseFacts are facts about a mesh in JSON.
type caseFacts struct {
	Roles    *caseClaim    `json:"roles"`
	Effects  *caseClaim    `json:"effects"`
	Messages []caseMessage `json:"messages"`
	Decoders []caseDecoder `json:"decoders"`
	Monitors []caseMonitor `json:"monitors"`
	Rules    *caseRules    `json:"rules"`
	Build    *caseBuild    `json:"build"`
}

type caseClaim struct {
	JWTs  bcp.Digest `json:"jwts"`
	Holes []caseHole `json:"holes"`
}

type caseHole struct {
	Role   contract.Role   `json:"role"`
	Column contract.Column `json:"column"`
	To     contract.Role   `json:"to"`
	Way    string          `json:"way"`
}

type caseMessage struct {
	From  contract.Role     `json:"from"`
	To    contract.Role     `json:"to"`
	Kind  string            `json:"kind"`
	Holds []contract.Column `json:"holds"`
}

type caseDecoder struct {
	Output  string     `json:"output"`
	Vectors bcp.Digest `json:"vectors"`
	Passed  int        `json:"passed"`
	Failed  int        `json:"failed"`
}

type caseMonitor struct {
	Predicate jsontext.Value `json:"predicate"`
	Checked   uint64         `json:"checked"`
	Violated  uint64         `json:"violated"`
	First     uint64         `json:"first"`
	Since     time.Time      `json:"since"`
}

type caseRules struct {
	Digest   bcp.Digest `json:"sha256"`
	ReadData []string   `json:"read_data"`
}

type caseBuild struct {
	Version         string `json:"version"`
	PureInterpreter bool   `json:"pure_interpreter"`
}

func (c *caseClaim) claim() *contract.Claim {
	if c == nil {
		return nil
	}
	claim := &contract.Claim{JWTs: c.JWTs}
	for _, h := range c.Holes {
		claim.Holes = append(claim.Holes, contract.Hole(h))
	}
	return claim
}

func (f *caseFacts) facts() (contract.Facts, error) {
	facts := contract.Facts{Roles: f.Roles.claim(), Effects: f.Effects.claim(), Rules: (*contract.Rules)(f.Rules), Build: (*contract.Build)(f.Build)}
	for _, m := range f.Messages {
		facts.Messages = append(facts.Messages, contract.MessageType(m))
	}
	for _, d := range f.Decoders {
		facts.Decoders = append(facts.Decoders, contract.SelfTest(d))
	}
	for i, m := range f.Monitors {
		predicate, code := contract.ParsePredicate(m.Predicate)
		if code != "" {
			return facts, fmt.Errorf("input.facts.monitors[%d].predicate: %s (%s)", i, code.Text(), code)
		}
		facts.Monitors = append(facts.Monitors, contract.Monitor{Predicate: predicate, Checked: m.Checked, Violated: m.Violated, First: m.First, Since: m.Since})
	}
	return facts, nil
}
