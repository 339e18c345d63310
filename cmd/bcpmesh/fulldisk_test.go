//go:build faults

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

var smallDisk = flag.String("small-disk", "", "a folder on an empty disk of a few megabytes that TestFullDisk fills; none: it mounts one")

// The disk is full, and later there is room again, three times: meanwhile clients
// hear unavailable, status, log and an alert say why, and then the mesh goes on
// by itself. Everything that was accepted is stored, once.
//
// covers P11.1, P4.5, P4.6
func TestFullDisk(t *testing.T) {
	disk := *smallDisk
	if disk == "" {
		disk = t.TempDir()
		err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=24m")
		stopIf(t, err != nil, "mounting a small disk: %v", err)
		t.Cleanup(func() {
			err := syscall.Unmount(disk, syscall.MNT_DETACH)
			failIf(t, err != nil, "%v", err)
		})
	}
	dir, state := t.TempDir(), filepath.Join(disk, "state")
	writeFiles(t, dir, crashFiles)
	p := startProcess(t, dir, state, "127.0.0.1:0")
	store := must(accounts.Open(state))(t)
	pushes := startPushing(t, store, p.url)
	alerts := listenAlerts(t, store, p.url)
	filler := filepath.Join(disk, "filler")
	for round := 1; round <= 3; round++ {
		pushes.await(t, "progress", func() bool { return pushes.count >= 50 })
		fill(t, filler)
		pushes.await(t, "unavailable", func() bool { return pushes.unavailable > 0 })
		if m, err := alerts.NextMsg(stepPatience); err != nil || !strings.Contains(string(m.Data), "journal_unwritable") {
			t.Errorf("the alert: %v %v", m, err)
		}
		status, err := exec.Command("bcpmesh", "status", "--dir", dir, "--state", state).CombinedOutput()
		failIf(t, err == nil || !strings.Contains(string(status), "no space left") && !strings.Contains(string(status), "journal cannot be written"),
			"status: %v: %s", err, status)
		pushes.fault()
		noError(t, os.Remove(filler))
		room := time.Now()
		pushes.await(t, "a push that is accepted", func() bool { return pushes.count > 0 })
		t.Logf("round %d: %d accepted, going on %s after there was room", round, len(pushes.accepted), time.Since(room).Round(time.Millisecond))
	}
	pushes.end()
	p.end(t)
	log := p.stderr.String()
	failIf(t, !strings.Contains(log, "no space left on device"), "the log does not say why: %s", log)
	pushes.check(t, state)
}

func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	noError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	stopIf(t, !errors.Is(err, syscall.ENOSPC), "filling the disk: %v", err)
	_ = f.Close()
}

func listenAlerts(t *testing.T, store *accounts.Store, url string) *nats.Subscription {
	t.Helper()
	creds := must(store.Issue(bcp.Operator, bcp.RoleOperator, time.Hour))(t)
	conn := must(nats.Connect(url, nats.UserCredentialBytes(creds.Text()), nats.CustomInboxPrefix(subjects.InboxPrefix(bcp.Operator)),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.Timeout(time.Minute)))(t)
	t.Cleanup(conn.Close)
	alerts, err := conn.SubscribeSync(subjects.Alerts())
	if err == nil {
		err = conn.Flush()
	}
	noError(t, err)
	return alerts
}

// pushPatience is how long a client waits for a reply: one that repeats too often
// is limited.
const pushPatience = 2 * time.Second

// pushing is clients that push, and repeat what was not accepted.
type pushing struct {
	clients // count what is accepted

	accepted    map[string]time.Time // when the client knew
	unavailable int                  // refusals since the fault
	wrong       error
}

func startPushing(t *testing.T, store *accounts.Store, url string) *pushing {
	t.Helper()
	p := &pushing{accepted: map[string]time.Time{}}
	for _, reader := range []bcp.AgentName{"clerk", "mailer"} {
		conn := dial(t, store, url, reader, nats.RetryOnFailedConnect(true))
		for _, controller := range []bcp.AgentName{"boss", "main"} {
			p.running.Go(func() { p.push(conn, reader, controller) })
		}
	}
	t.Cleanup(p.end)
	return p
}

func (p *pushing) push(conn *nats.Conn, reader, controller bcp.AgentName) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("%s %s p%d", controller, reader, n)
		text := meshtest.PushText(controller, "alerts", `{"urgent":true}`, fmt.Sprintf(`,"push_id":"p%d"`, n))
		for done := false; !done; {
			if p.ended.Load() {
				return
			}
			reply, err := conn.Request(subjects.Push(reader, controller, "alerts"), []byte(text), pushPatience)
			p.mu.Lock()
			switch {
			case err != nil:
			case strings.Contains(string(reply.Data), `"success":true`):
				p.accepted[key], done = time.Now(), true
				p.count++
			case strings.Contains(string(reply.Data), `unavailable`):
				p.unavailable++
			case p.wrong == nil:
				p.wrong = fmt.Errorf("%s: %s", key, reply.Data)
			}
			p.mu.Unlock()
			if !done {
				time.Sleep(5 * time.Millisecond) // as a client that repeats does
			}
		}
	}
}

// fault begins to count anew.
func (p *pushing) fault() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.unavailable = 0, 0
}

func (p *pushing) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	p.clients.await(t, stepPatience, func() bool { return done() || p.wrong != nil }, func() string {
		return fmt.Sprintf("waited for %s: %d accepted, %d unavailable", what, p.count, p.unavailable)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	noError(t, p.wrong)
}

// check compares what was accepted with the journal of a mesh that rests.
func (p *pushing) check(t *testing.T, state string) meshtest.Journal {
	t.Helper()
	records, keys, err := journalIn(t, state, meshtest.Parse(t, crashFiles))
	noError(t, err)
	journal := must(meshtest.CheckJournal(records, keys, crashBudgets))(t)
	for key := range p.accepted {
		failIf(t, journal.Pushes[key] != 1, "push %s was accepted, and is there %d times", key, journal.Pushes[key])
	}
	for key, n := range journal.Pushes {
		failIf(t, n != 1, "push %s is there %d times", key, n)
	}
	settled := bcp.Bits(0)
	for _, b := range journal.Balances {
		settled += b.Settled
	}
	failIf(t, settled != bcp.Bits(len(journal.Pushes))*bcp.Bit, "settled %v for %d pushes", settled, len(journal.Pushes))
	return journal
}
