package mailbox_test

import (
	"fmt"

	"github.com/bcpmesh/bcpmesh/examples/mailroom/mailbox"
)

func ExampleOpen() {
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
	facts := mailbox.Extract(m)
	fmt.Println(m.Subject)
	fmt.Println(facts.Kind, facts.NeedsReply, facts.KeySentence)
	// Output:
	// When does order 4471 ship?
	// support true When does it ship?
}
