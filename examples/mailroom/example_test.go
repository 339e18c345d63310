package mailroom_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bcpmesh/bcpmesh/examples/mailroom"
)

// Run the mesh of the example, and both agents, on the first four messages.
func ExampleRun() {
	ctx := context.Background()
	state, err := os.MkdirTemp("", "mailroom-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)
	m, options, err := start(ctx, state, nil)
	if err != nil {
		panic(err)
	}
	defer m.Stop(ctx)

	enough := errors.New("enough")
	options.After = func(done mailroom.Done) error {
		fmt.Printf("%d: %s\n", done.Number, done.Message.Subject)
		if done.Number == 4 {
			return enough
		}
		return nil
	}
	if err := mailroom.Run(ctx, options); !errors.Is(err, enough) {
		panic(err)
	}
	// Output:
	// 1: When does order 4471 ship?
	// 2: Invoice 2026-0318
	// 3: Beschädigte Lieferung: Reklamation zu Auftrag 4398
	// 4: Harbour Notes – tide tables are out
}
