package facts_test

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/examples/mailroom/facts"
)

func ExampleExtract() {
	box, err := mailbox.Open("../mail")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close()
	m, err := box.Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	f := facts.Extract(m)
	fmt.Println(m.Subject)
	fmt.Println(f.Kind, f.NeedsReply, f.KeySentence)
	// Output:
	// When does order 4471 ship?
	// support true When does it ship?
}
