package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// A client that ends is for a moment in neither of the server's lists.
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
			{Party: researcher, UserKey: "U", Operation: Publish, ClientID: 7, Host: "h", Subject: "0", Count: 1},
			{Party: researcher, UserKey: "U", Operation: Publish, ClientID: 7, Host: "h", Subject: "2", Count: 2},
		}},
		"listed soon": {denialWindow / 2, []Denial{
			{Party: researcher, UserKey: "U", Operation: Publish, ClientID: 7, Host: "h", Subject: "0", Count: 3},
		}},
		"never listed": {time.Hour, []Denial{{Operation: Publish, ClientID: 7, Subject: "0", Count: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var told []Denial
				d := newDenials(
					func(uint64) (source, bool) {
						return source{party: researcher, userKey: "U", host: "h"}, time.Since(begun) >= c.unlisted
					},
					func(denial Denial) { told = append(told, denial) },
				)
				for _, subject := range []string{"0", "1", "2"} {
					d.add(7, Publish, subject)
					time.Sleep(2 * denialPause)
				}
				time.Sleep(3 * denialWindow)
				synctest.Wait()
				if diff := cmp.Diff(c.want, told); diff != "" {
					t.Error(diff)
				}
				d.stop()
			})
		})
	}
}

// covers P4.7
func TestLastRefusalsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []Denial
		d := newDenials(func(uint64) (source, bool) { return source{}, false }, func(denial Denial) { told = append(told, denial) })
		d.add(7, Publish, "s")
		time.Sleep(2 * denialPause)
		d.add(8, Publish, "s")
		d.stop()
		total := 0
		for _, denial := range told {
			total += denial.Count
		}
		if total != 2 {
			t.Errorf("%+v", told)
		}
	})
}

// covers P4.7
func TestRefusalsPutBackAreBounded(t *testing.T) {
	t.Parallel()
	d := &denials{wake: make(chan struct{}, 1), incoming: map[refusal]*refused{}}
	d.add(0, Publish, "s")
	before, _ := d.take()
	for id := range uint64(maxDenials) {
		d.add(id+1, Publish, "s")
	}
	begun := time.Now().Add(-denialWindow)
	d.putBack(refusal{1, Publish}, &refused{count: 2, since: begun})
	for key, r := range before {
		d.putBack(key, r)
	}
	got := d.incoming[refusal{1, Publish}]
	if len(d.incoming) != maxDenials || d.lost != 1 || got.count != 3 || !got.since.Equal(begun) {
		t.Errorf("%d wait, %d are lost, %+v", len(d.incoming), d.lost, got)
	}
}
