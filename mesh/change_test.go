package mesh_test

import (
	"context"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

const (
	colours   = "vocabularies: {colours: [red, green, blue]}\n"
	askColour = `{"category":2,"questions":[{"id":"c","question":"Which?","max_words":1,"expected_format":"vocabulary","vocabulary":"colours"}]}`
)

// covers A-GUESS, P1.1
func TestQueryIDs(t *testing.T) {
	t.Parallel()
	m := meshtest.Start(t, pair(100000))
	main := controller(t, m, "main")
	seen := map[string]bool{}
	letters := map[byte]int{}
	const n = 500
	for range n {
		id := string(main.Accepted(t, "mailer", askUrgent))
		_, err := bcp.ParseQueryID(id)
		stopIf(t, err != nil || seen[id] || len(id) != 27, "id %q", id)
		seen[id] = true
		for i := range len(id) - 1 {
			letters[id[1+i]]++
		}
	}
	// 26 letters of 32 are 130 bits, if all are about equally frequent.
	for letter, count := range letters {
		mean := n * 26 / 32
		failIf(t, count < mean*2/3 || count > mean*3/2, "%c stands there %d times", letter, count)
	}
	expect(t, len(letters), 32, "letters")
}

// covers P9.2
func TestLifecycle(t *testing.T) {
	t.Parallel()
	if m, err := mesh.Start(t.Context(), mesh.Config{State: t.TempDir()}); err == nil || m != nil {
		t.Errorf("a mesh without definitions runs: %v", err)
	}
	if m, err := mesh.Start(t.Context(), mesh.Config{Definition: meshtest.Parse(t, pair(1))}); err == nil || m != nil {
		t.Errorf("a mesh without a state folder runs: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := must(mesh.Start(ctx, mesh.Config{Definition: meshtest.Parse(t, pair(1)), State: t.TempDir()}))
	cancel()
	<-m.Done()
	for range 2 {
		err := m.Stop(context.Background())
		failIf(t, err != nil, "%v", err)
	}
	m, err := mesh.Start(ctx, mesh.Config{Definition: meshtest.Parse(t, pair(1)), State: t.TempDir()})
	failIf(t, err == nil || m != nil, "a mesh runs although its context has ended: %v", err)
}
