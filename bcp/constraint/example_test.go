package constraint_test

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

func ExampleCompile() {
	c, err := constraint.Compile("(q_date.month <= 3) == q_is_q1", []bcp.Variable{
		{Name: "q_date", Kind: bcp.KindDate}, {Name: "q_is_q1", Kind: bcp.KindBool},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	march := bcp.Value{Kind: bcp.KindDate, Date: bcp.Date{Year: 2026, Month: 3, Day: 15}}
	fmt.Println(c.Holds([]bcp.Value{march, {Kind: bcp.KindBool, Bool: true}}))
	fmt.Println(c.Holds([]bcp.Value{march, {Kind: bcp.KindBool, Bool: false}}))
	// Output:
	// true <nil>
	// false <nil>
}
