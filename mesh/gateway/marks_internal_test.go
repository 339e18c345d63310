package gateway

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

func testMarker(t testing.TB, secret byte) *marker {
	t.Helper()
	return must(newMarker(bytes.Repeat([]byte{secret}, 32)))
}

// A later run with the same secret opens a mark for the one whom it was made for. All
// marks are as long, and no two are the same.
//
// covers P11.7, A-ROLLBACK
func TestMark(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 31, 33} {
		_, err := newMarker(make([]byte, n))
		failIf(t, err == nil, "a secret of %d bytes", n)
	}
	run, later, foreign := testMarker(t, 1), testMarker(t, 1), testMarker(t, 2)
	mailer := agentRole{"mailer", bcp.RoleReader}
	given := mark{jetstream.Position{Sequence: 1 << 40, Head: [32]byte{7}}, time.UnixMilli(1_700_000_000_123)}
	text := run.seal(given, mailer)
	if again := run.seal(given, mailer); again == text || len(again) != len(run.seal(mark{at: given.at}, agentRole{"m", bcp.RoleController})) {
		t.Errorf("%q, then %q", text, again)
	}
	got, own, err := later.open(text, mailer)
	failIf(t, err != nil || own || got.Position != given.Position || !got.at.Equal(given.at),
		"%+v, %v, %v", got, own, err)
	_, own, err = run.open(text, mailer)
	failIf(t, err != nil || !own, "its own: %v, %v", own, err)
	for _, who := range []agentRole{{"main", bcp.RoleController}, {"mailer", bcp.RoleController}, {"mailer", bcp.RoleKeeper}, {}} {
		_, _, err := later.open(text, who)
		failIf(t, err == nil, "shown by %v", who)
	}
	_, _, err = foreign.open(text, mailer)
	failIf(t, err == nil, "opened with another secret")
}

// FuzzMark: whatever an agent shows is the mark that it was given, in the one spelling of
// its bytes, or none. Workers of the fuzzer seal the seeds again, each with nonces of its
// own, so they know the mark and not its text.
func FuzzMark(f *testing.F) {
	run, later := testMarkerOfRun(f, 1), testMarkerOfRun(f, 2)
	who := agentRole{"mailer", bcp.RoleReader}
	shown := mark{jetstream.Position{Sequence: 9}, time.UnixMilli(1)}
	given := run.seal(shown, who)
	for _, seed := range []string{"", "x", given, given[1:], given + "A", given[:len(given)-1] + "_", strings.Repeat("\n", len(given)), given[:60] + "\n" + given[61:], run.seal(mark{}, agentRole{"main", bcp.RoleController}), later.seal(mark{}, who)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, own, err := later.open(text, who)
		if err == nil && !own {
			sealed, _ := base64.RawURLEncoding.DecodeString(text)
			failIf(t, m != shown || base64.RawURLEncoding.EncodeToString(sealed) != text, "%q is taken: %+v", text, m)
		}
		failIf(t, (err != nil || own) && m != (mark{}), "%q is no mark, and says %+v", text, m)
	})
}

// testMarkerOfRun returns a marker whose run is the same in each process.
func testMarkerOfRun(t testing.TB, run byte) *marker {
	t.Helper()
	m := testMarker(t, 1)
	m.run = [runSize]byte{run}
	var err error
	m.sealer, err = m.newSealer(m.run[:])
	noError(t, err)
	return m
}

// What the operator accepts stays accepted although the clock is behind what somebody
// has seen; what closes is in the file, and what it closes is the channels of who has
// seen it, in the role in which they have.
//
// covers P11.7, A-ROLLBACK
func TestSetBackClosesUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "set-back")
	opened := func() *Marks { return must(OpenMarks(file, make([]byte, 32))) }
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	own, other := bcp.ChannelKey{Controller: "main", Reader: "mailer"}, bcp.ChannelKey{Controller: "other", Reader: "main"}
	for _, c := range []struct {
		role      bcp.Role
		own, both bool
	}{
		{bcp.RoleController, true, false}, {bcp.RoleReader, false, false}, {bcp.RoleKeeper, true, true}, {bcp.RoleApprover, true, true}, {bcp.RoleOperator, true, true},
	} {
		s := opened()
		stopIf(t, s.Pending() || s.closed(own), "%s: something is closed before anybody has seen anything", c.role)
		for _, first := range []bool{true, false} {
			added, err := s.add(agentRole{"main", c.role}, now.Add(time.Hour))
			failIf(t, added != first || err != nil, "%s: added %t, %v", c.role, added, err)
		}
		again := opened()
		if reads := c.role == bcp.RoleReader; !again.Pending() || again.closed(own) != c.own || again.closed(other) != (c.both || reads) {
			t.Errorf("%s: pending %t, closed %t and %t", c.role, again.Pending(), again.closed(own), again.closed(other))
		}
		noError(t, again.Accept(now, nil))
		if again = opened(); again.Pending() || again.closed(own) || !again.now().Accepted.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: after it is accepted: pending %t, accepted up to %s", c.role, again.Pending(), again.now().Accepted)
		}
	}
	noError(t, os.WriteFile(file, []byte("{"), 0o600))
	_, err := OpenMarks(file, make([]byte, 32))
	failIf(t, err == nil, "a file that says nothing is read as one that says that nothing is closed")
}

// What cannot be written closes all the same, until the gateway ends.
//
// covers P11.7
func TestSetBackThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := must(OpenMarks(filepath.Join(t.TempDir(), "missing", "set-back"), make([]byte, 32)))
	if added, err := s.add(agentRole{"main", bcp.RoleController}, time.Now()); !added || err == nil {
		t.Errorf("added %t, %v", added, err)
	}
	failIf(t, !s.closed(bcp.ChannelKey{Controller: "main", Reader: "mailer"}), "the channel is open")
	err := s.Accept(time.Now(), nil)
	failIf(t, err == nil || !s.Pending(), "it is open although the acceptance could not be written: %v", err)
}
