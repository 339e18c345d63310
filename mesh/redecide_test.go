package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// compared counts how the decisions of a run compare, and lists those that differ.
type compared struct {
	count   map[state.Comparison]int
	differs []string
	seen    int
}

func (c *compared) each(d *bcp.Decision, r state.Redecision) error {
	c.seen++
	c.count[r.Comparison]++
	if r.Comparison == state.ComparedDiffers {
		c.differs = append(c.differs, fmt.Sprintf("%s %s %s %t", d.Kind, r.Rule, r.Aspect, r.Incident))
	}
	return nil
}

func redecide(t *testing.T, m *meshtest.Mesh, def *bcp.Mesh, change func(*mesh.RedecideOptions)) *compared {
	t.Helper()
	c := &compared{count: map[state.Comparison]int{}}
	o := mesh.RedecideOptions{Definition: def, Version: "test", Each: c.each}
	if change != nil {
		change(&o)
	}
	must(redecideFolder(t.Context(), m.State, m.Definition, o))
	return c
}

// The journal of a mesh is decided again as it was, under other definitions it is
// not: while it runs as when it rests, whole, and truncated, where the base stands for
// what is cut off. Raw messages that have expired are counted, and a lost key ends it.
//
// covers P4.5, P11.3, P11.4, P11.5
func TestRedecide(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	m := meshtest.Start(t, pair(1000))
	main, mailer := controller(t, m, "main"), reader(t, m, "mailer")
	for n := range 3 {
		main.Accepted(t, "mailer", askUrgent)
		mailer.Answer(t, mailer.queries.Next(t), isUrgent)
		m.WaitCount(t, n+1, meshtest.Of(bcp.KindAnswer))
	}
	pushes := func(mailer side) {
		mailer.Push(t, "main", "notes", `{"note":"four words are there"}`, "")
		mailer.Push(t, "main", "notes", `{"note":"two words"}`, "")
		m.Settle(t)
	}
	mailer.Push(t, "main", "notes", `{"note":1}`, "")
	pushes(mailer)
	const answers = 3 + 3 + 3 // asks, answers, pushes
	fewer := meshtest.Parse(t, pair(1000))
	notes := slices.IndexFunc(fewer.Channels[0].Subscriptions, func(s bcp.Subscription) bool { return s.ID == "notes" })
	fewer.Channels[0].Subscriptions[notes].Spec.Questions[0].MaxWords = 3
	fewer.Files[0].SHA256[0]++
	want := []string{"push P3.3 verdict false", "push P4.1 charge false"}
	look := func(name string, same int, of func(*bcp.Mesh) *compared) {
		t.Helper()
		c := of(m.Definition)
		failIf(t, c.count[state.ComparedSame] != same || len(c.count) != 2, "%s, the same definitions: %v", name, c.count)
		c = of(fewer)
		failIf(t, !slices.Equal(c.differs, want) || c.count[state.ComparedSame] != same-2, "%s, fewer words: %v %v", name, c.differs, c.count)
	}
	running := func(def *bcp.Mesh) *compared { return redecideRunning(t, m, def) }
	resting := func(def *bcp.Mesh) *compared { return redecide(t, m, def, nil) }
	look("running", answers, running)
	key := bcp.ChannelKey{Controller: "main", Reader: "mailer"}
	none := &compared{}
	_, err := redecideFolder(t.Context(), m.State, m.Definition, mesh.RedecideOptions{Definition: m.Definition, Each: none.each})
	failIf(t, !errors.Is(err, server.ErrInUse) || none.seen > 0, "while it runs: %v, %d decisions", err, none.seen)
	decided, behind := len(m.Decisions()), time.Now()
	m.Stop(t)
	look("resting", answers, resting)
	progress := uint64(0)
	far := func(o *mesh.RedecideOptions) {
		o.Progress = func(done, all uint64) { progress = max(progress, 1000*done/all) }
	}
	c := redecide(t, m, fewer, far)
	failIf(t, c.seen < decided || progress != 1000, "%d decisions of %d, progress %d", c.seen, decided, progress)

	// Parts of it.
	for name, part := range map[string]struct {
		change func(*mesh.RedecideOptions)
		want   int
	}{
		"since now":       {func(o *mesh.RedecideOptions) { o.Since = begin }, answers},
		"since then":      {func(o *mesh.RedecideOptions) { o.Since = behind }, 0},
		"until now":       {func(o *mesh.RedecideOptions) { o.Until = begin }, 0},
		"until then":      {func(o *mesh.RedecideOptions) { o.Until = behind }, answers},
		"its channel":     {func(o *mesh.RedecideOptions) { o.Channel = &key }, answers},
		"another channel": {func(o *mesh.RedecideOptions) { o.Channel = &bcp.ChannelKey{Controller: "main", Reader: "main"} }, 0},
		"no channel":      {func(o *mesh.RedecideOptions) { o.Channel = &bcp.ChannelKey{} }, 0},
	} {
		c := redecide(t, m, m.Definition, part.change)
		failIf(t, c.count[state.ComparedSame] != part.want, "%s: %v", name, c.count)
	}

	// What ends it early.
	enough := errors.New("enough")
	if _, err := redecideFolder(t.Context(), m.State, m.Definition, mesh.RedecideOptions{Definition: fewer,
		Each: func(*bcp.Decision, state.Redecision) error { return enough }}); !errors.Is(err, enough) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = redecideFolder(ctx, m.State, m.Definition, mesh.RedecideOptions{Definition: fewer, Each: c.each})
	failIf(t, !errors.Is(err, context.Canceled), "without time: %v", err)

	// Cut off, in a mesh that a backup makes.
	whole := m.State
	file, _ := backupTo(t, m, "whole.tar.gz")
	m.State, _, err = restored(t, file)
	noError(t, err)
	archive(t, m, "first.tar.gz")
	m.Start(t)
	pushes(reader(t, m, "mailer"))
	look("running and truncated", 2, running)
	m.Stop(t)
	look("truncated", 2, resting)
	bases, err := filepath.Glob(filepath.Join(m.State, jetstream.BaseFolder, "*"))
	stopIf(t, err != nil || len(bases) != 1 || os.Remove(bases[0]) != nil, "%v %v", bases, err)
	_, err = redecideFolder(t.Context(), m.State, m.Definition, mesh.RedecideOptions{Definition: m.Definition, Version: "test", Each: c.each})
	failIf(t, !errors.Is(err, jetstream.ErrBase), "without its base: %v", err)
	m.State = whole

	// Expired: the specs of the asks are still there, the messages are not.
	js, end := m.Streams(t)
	noError(t, jetstream.NewSealingKeys(js).ExpireRaw(t.Context(), begin.AddDate(0, 0, 40), 30*24*time.Hour))
	end()
	if c := redecide(t, m, fewer, nil); c.count[state.ComparedErased] != answers || c.count[state.ComparedSame] != 0 {
		t.Errorf("expired: %v", c.count)
	}

	// Lost is not expired.
	js, end = m.Streams(t)
	stream := must(js.Stream(t.Context(), jetstream.KeyStream))
	info := must(stream.Info(t.Context()))
	for seq := uint64(1); seq <= info.State.LastSeq; seq++ {
		_ = stream.DeleteMsg(t.Context(), seq) // some are deleted already
	}
	end()
	_, err = redecideFolder(t.Context(), m.State, m.Definition, mesh.RedecideOptions{Definition: fewer, Version: "test", Each: c.each})
	failIf(t, !errors.Is(err, jetstream.ErrKeyLost), "without its keys: %v", err)
}
