package gateway

import (
	"bytes"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

func testMarker(t testing.TB, secret byte) *marker {
	t.Helper()
	k, err := newMarker(bytes.Repeat([]byte{secret}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A later run with the same secret opens a mark for the one whom it was made for. All
// marks are as long, and no two are the same.
//
// covers P11.7, A-ROLLBACK
func TestMark(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 31, 33} {
		if _, err := newMarker(make([]byte, n)); err == nil {
			t.Errorf("a secret of %d bytes", n)
		}
	}
	run, later, foreign := testMarker(t, 1), testMarker(t, 1), testMarker(t, 2)
	mailer := agentRole{"mailer", bcp.RoleReader}
	given := mark{sequence: 1 << 40, head: [32]byte{7}, at: time.UnixMilli(1_700_000_000_123)}
	text := run.seal(given, mailer)
	if again := run.seal(given, mailer); again == text || len(again) != len(run.seal(mark{at: given.at}, agentRole{"m", bcp.RoleController})) {
		t.Errorf("%q, then %q", text, again)
	}
	got, own, err := later.open(text, mailer)
	if err != nil || own || got.sequence != given.sequence || got.head != given.head || !got.at.Equal(given.at) {
		t.Errorf("%+v, %v, %v", got, own, err)
	}
	if _, own, err := run.open(text, mailer); err != nil || !own {
		t.Errorf("its own: %v, %v", own, err)
	}
	for _, who := range []agentRole{{"main", bcp.RoleController}, {"mailer", bcp.RoleController}, {"mailer", bcp.RoleKeeper}, {}} {
		if _, _, err := later.open(text, who); err == nil {
			t.Errorf("shown by %v", who)
		}
	}
	if _, _, err := foreign.open(text, mailer); err == nil {
		t.Error("opened with another secret")
	}
}

// FuzzMark: whatever an agent shows is the mark that it was given, or none.
func FuzzMark(f *testing.F) {
	run, later := testMarker(f, 1), testMarker(f, 1)
	who := agentRole{"mailer", bcp.RoleReader}
	given := run.seal(mark{sequence: 9, at: time.UnixMilli(1)}, who)
	for _, seed := range []string{"", "x", given, given[1:], given + "A", given[:len(given)-1] + "_", run.seal(mark{}, agentRole{"main", bcp.RoleController}), later.seal(mark{}, who)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, own, err := later.open(text, who)
		if err == nil && !own && text != given {
			t.Errorf("%q is taken: %+v", text, m)
		}
		if (err != nil || own) && m != (mark{}) {
			t.Errorf("%q is no mark, and says %+v", text, m)
		}
	})
}
