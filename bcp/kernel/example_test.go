package kernel_test

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
)

// A kernel that reads mail and sends it, and the gate's answer to two calls before
// anything runs.
func ExampleChecked_Preflight() {
	text := func(s string) *kernel.Type {
		t, err := kernel.ParseType([]byte(s))
		if err != nil {
			panic(err)
		}
		return t
	}
	k, defects := kernel.New(kernel.Definition{
		Name: "desk", Planner: "planner", Limits: kernel.DefaultLimits(),
		Requesters: map[bcp.AgentName][]string{"kim": {"mail"}},
		Grants:     map[string][]kernel.Capability{"mail": {"mail.read", "mail.send"}},
		Tools: []kernel.Tool{
			{Name: "read", Level: kernel.Read, RequiredCaps: []kernel.Capability{"mail.read"}, Input: text(`{"type":"object","properties":{}}`), Output: text(`{"type":"string"}`)},
			{Name: "send", Level: kernel.Write, RequiredCaps: []kernel.Capability{"mail.send"}, Input: text(`{"type":"object","properties":{"to":{"type":"string"}}}`), Output: text(`{"type":"boolean"}`)},
		},
	})
	if defects != nil {
		fmt.Println(defects)
		return
	}
	grant, _ := k.GrantOf("kim", "mail")
	checked, fault := k.ReadPlan([]byte(`{"steps":[
		{"kind":"tool","id":"mail","tool":"read"},
		{"kind":"tool","id":"mine","tool":"send","args":{"to":"kim@example.com"}},
		{"kind":"tool","id":"theirs","tool":"send","args":{"to":{"ref":"mail"}}}],"final":"mine"}`), kernel.Frame{Grant: grant, Query: kernel.Trusted()})
	if fault.Code != "" {
		fmt.Println(fault)
		return
	}
	for _, f := range checked.Preflight() {
		fmt.Println(f.Step, f.Verdict.Ruling.Word(), f.Verdict.Code, f.Certain)
	}
	// Output:
	// mail allow permitted true
	// mine allow permitted true
	// theirs deny not_declassified true
}
