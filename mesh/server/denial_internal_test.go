package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The first refusal is reported at once, later ones together, and also the last before the
// end. A client that ends is for a moment in neither of the server's lists.
//
// covers P4.7, A-FLOODRESP
func TestRefusalIsOfWhoJustEnded(t *testing.T) {
	t.Parallel()
	researcher := Party{Agent: "researcher", Role: bcp.RoleReader}
	for name, c := range map[string]struct {
		unlisted time.Duration // from the first refusal on
		want     []Denial
	}{
		"listed at once": {0, []Denial{
			{Party: researcher, Operation: Publish, Subject: "0", Count: 1},
			{Party: researcher, Operation: Publish, Subject: "1", Count: 2},
			{Party: researcher, Operation: Publish, Subject: "3", Count: 1},
		}},
		"listed soon": {denialPause / 2, []Denial{
			{Party: researcher, Operation: Publish, Subject: "0", Count: 3},
			{Party: researcher, Operation: Publish, Subject: "3", Count: 1},
		}},
		"never listed": {time.Hour, []Denial{{Operation: Publish, Subject: "0", Count: 3}, {Operation: Publish, Subject: "3", Count: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var told []Denial
				d := newDenials(
					func(uint64) (Party, bool) { return researcher, time.Since(begun) >= c.unlisted },
					func(denial Denial) { told = append(told, denial) },
				)
				for _, subject := range []string{"0", "1", "2"} {
					d.add(7, Publish, subject)
					time.Sleep(time.Millisecond)
				}
				time.Sleep(denialPatience + denialPause)
				synctest.Wait()
				d.add(7, Publish, "3")
				d.stop()
				diff := cmp.Diff(c.want, told)
				failIf(t, diff != "", "%v", diff)
			})
		})
	}
}

// Refusals wait in bounds, also when they are put back; the others are counted.
//
// covers P4.7
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	var told []Denial
	d := &denials{
		identify: func(id uint64) (Party, bool) { return Party{Agent: "a"}, id > 1 },
		handle:   func(denial Denial) { told = append(told, denial) },
		wake:     make(chan struct{}, 1), incoming: map[refusal]*refused{},
	}
	const more = 10
	for id := range uint64(maxDenials + more) {
		d.add(id, Publish, "s")
	}
	failIf(t, len(d.incoming) != maxDenials || d.lost != more, "%d wait, %d are lost", len(d.incoming), d.lost)
	begun := time.Now().Add(-denialPatience)
	d.put(refusal{1, Publish}, refused{count: 2, since: begun})
	if got := d.incoming[refusal{1, Publish}]; got.count != 3 || !got.since.Equal(begun) {
		t.Errorf("%+v", got)
	}
	d.report(time.Now())
	got := map[Denial]bool{}
	for _, denial := range told {
		got[denial] = true
	}
	want := map[Denial]bool{
		{Operation: Unknown, Count: more}:                                                   true, // what cannot be told apart
		{Operation: Publish, Subject: "s", Count: 3}:                                        true, // of one that is not listed for too long
		{Operation: Publish, Party: Party{Agent: "a"}, Subject: "s", Count: maxDenials - 2}: true,
	}
	diff := cmp.Diff(want, got)
	failIf(t, diff != "" || len(d.incoming) != 1, "%d wait\n%s", len(d.incoming), diff)
}
