package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func pushed(body string) *message {
	return &message{subject: subjects.Subject{Kind: subjects.KindPush, Reader: "mailer", Controller: "main", Subscription: "alerts"}, body: []byte(body)}
}

// What is in quarantine stays there over a restart, whatever its file says by then, and
// also where it could not be written; it is taken out by removing the file. There is room
// for a thousand messages, and the oldest makes room for one more.
//
// covers A-CRASH, A-FLOODRESP
func TestQuarantineIsKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "quarantine")
	open := func() *Quarantine {
		t.Helper()
		q, err := OpenQuarantine(dir)
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	who, channel, mistake := agentRole{"mailer", bcp.RoleReader}, bcp.ChannelKey{Controller: "main", Reader: "mailer"}, &panicError{kind: "string"}
	begin := time.Unix(1_800_000_000, 0)
	q := open()
	put := func(q *Quarantine, n int) {
		t.Helper()
		if err := q.add(pushed(fmt.Sprint(n)), who, channel, mistake, begin.Add(time.Duration(n)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for n := range maxQuarantined {
		put(q, n)
	}
	holds := func(q *Quarantine, n int, want bool) {
		t.Helper()
		if got := q.holds(pushed(fmt.Sprint(n))); got != want {
			t.Errorf("it holds %d: %v", n, got)
		}
	}
	holds(q, 0, true)
	holds(q, maxQuarantined, false)
	other := pushed("0")
	other.subject.Subscription = "texts"
	if q.holds(other) {
		t.Error("another subject is held")
	}
	put(q, maxQuarantined)
	holds(q, 0, false)
	holds(q, 1, true)
	holds(q, maxQuarantined, true)

	name := func(n int) string { return filepath.Join(dir, quarantineName(pushed(fmt.Sprint(n)))) }
	if err := os.WriteFile(name(2), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(name(3)); err != nil {
		t.Fatal(err)
	}
	for _, q := range []*Quarantine{q, open()} {
		holds(q, 1, true)
		holds(q, 2, true)
		holds(q, 3, false)
		if q.Len() != maxQuarantined-1 {
			t.Errorf("it holds %d", q.Len())
		}
	}

	// Another sending of a query has another subject, and the same answer.
	answer := &message{subject: subjects.Subject{Kind: subjects.KindReply, Role: bcp.RoleReader, Agent: "mailer", ID: "q1"}, body: []byte("x")}
	if err := q.add(answer, who, channel, mistake, begin); err != nil {
		t.Fatal(err)
	}
	again := *answer
	again.subject.Attempt = 2
	if !q.holds(&again) {
		t.Error("the answer to another sending is not held")
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	full := &Quarantine{dir: file, held: map[string]Quarantined{}}
	if err := full.add(pushed("1"), who, channel, mistake, begin); err == nil {
		t.Error("it is written into a file")
	}
	holds(full, 1, true)
	if _, err := OpenQuarantine(file); err == nil {
		t.Error("a file is opened")
	}
	var none *Quarantine
	if err := none.add(pushed("1"), who, channel, mistake, begin); err != nil || none.holds(pushed("1")) {
		t.Errorf("none holds something: %v", err)
	}
}
