package contract_test

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

// A contract is read, and judged by what was found out about a mesh.
func Example() {
	c, defects := contract.Parse([]byte(`{
  "contract:version": "1.0",
  "contract:role": "processor",
  "contract:invariants": [
    {"id": "no-tools", "description": "It has no tools", "formal": "processor.tools = ∅", "enforcement": "architectural"},
    {"id": "kind", "description": "It is kind", "formal": "processor is kind", "enforcement": "runtime_monitored"}
  ],
  "contract:capabilities": ["parse_unstructured_to_structured"],
  "contract:prohibited": ["call_tools"]
}`))
	if len(defects) > 0 {
		fmt.Println(defects)
		return
	}
	report := contract.Verify(c, contract.Facts{Roles: &contract.Claim{}, Effects: &contract.Claim{}})
	for _, i := range report.Invariants {
		fmt.Println(i.ID, i.Predicate, i.Verdict, i.Shown)
	}
	fmt.Println(report.OK)
	// Output:
	// no-tools has_none(processor, tools) holds [architectural]
	// kind unverified unverified []
	// false
}
