package kernel_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/kernel"
	"github.com/bcpmesh/bcpmesh/bcp/state"
)

// ledger is a journal with runs: what a gateway keeps, without its server.
type ledger struct {
	t       *testing.T
	config  state.Config
	key     bcp.SealingKey
	state   *state.State
	records [][]byte
	g       *gateway // decides
}

func newLedger(t *testing.T, agents ...bcp.Agent) *ledger {
	t.Helper()
	k := mustKernel(t, nil)
	l := &ledger{t: t, config: state.Config{Mesh: &bcp.Mesh{Agents: agents, Compiled: []*kernel.Kernel{k}}, Version: "test"}, g: newGateway(t, k)}
	l.key, l.state = must(bcp.NewSealingKey(sha256.Sum256([]byte("key")))), must(state.New(l.config))
	return l
}

// record stores what a kernel decided.
func (l *ledger) record(c kernel.Change, from bcp.AgentName, body string) bcp.Decision {
	l.t.Helper()
	m := bcp.Moment{Now: time.Unix(0, c.Time), Fresh: fmt.Sprintf("%024d", len(l.records)), Salt: [16]byte{1, byte(len(l.records))}}
	d := l.state.DecideRun(m, &c, from, []byte(body))
	l.store(d)
	return d
}

// example records the run of the seed's example, up to the end of its last step but n.
func (l *ledger) example(n int) {
	l.t.Helper()
	g := l.g
	g.begin("all")
	g.plan(mailPlan)
	if n < 3 {
		g.result(mail)
	}
	if n < 2 {
		g.answer(`{"text":"meeting at 3pm"}`, "")
	}
	if n < 1 {
		g.result(sent)
	}
	for _, c := range g.changes {
		l.record(c, "somebody", "canary body")
	}
}

// replay makes the state of the records. erased ones are not opened.
func (l *ledger) replay(config state.Config, erased bool) *state.State {
	l.t.Helper()
	s := must(state.New(config))
	for i, record := range l.records {
		d, err := bcp.DecodeDecision(record)
		switch {
		case err != nil || len(d.Sealed) == 0:
		case erased:
			d.Private = bcp.Private{Erased: true}
		default:
			err = d.Open(l.key)
		}
		if err == nil {
			err = s.Apply(&d, bcp.RecordDigest(record))
		}
		stopIf(l.t, err != nil, "record %d: %v", i+1, err)
	}
	return s
}

func checkpoint(t *testing.T, s *state.State) []byte {
	t.Helper()
	return must(s.Checkpoint())
}

// The state of runs is what the records make, and comes back from a checkpoint, also
// where its definitions are gone.
//
// covers P11.1, P11.3
func TestRunsAreInTheJournal(t *testing.T) {
	t.Parallel()
	for open := range 4 {
		l := newLedger(t)
		l.example(open)
		live := checkpoint(t, l.state)
		made := checkpoint(t, l.replay(l.config, false))
		failIf(t, !bytes.Equal(live, made), "with %d steps open the records make another state", open)
		restored, err := state.Restore(l.config, live)
		failIf(t, err != nil || !bytes.Equal(checkpoint(t, restored), live), "%v: a checkpoint gives another state", err)
		diff := cmp.Diff(savedText(l.g.state), savedText(restored.Runs()))
		failIf(t, diff != "", "the runs are others (-decided +restored):\n%s", diff)
		without := l.config
		without.Mesh = new(bcp.Mesh)
		made = checkpoint(t, l.replay(without, false))
		failIf(t, !bytes.Equal(live, made), "definitions change what the records make")
	}
}

// What agents and people said of a run is sealed. Nothing of it is in the record or in
// what the audit shows, and once a run has ended it can be erased.
//
// covers P11.4, P11.5
func TestRunsAreSealed(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.example(0)
	for i, record := range l.records {
		for _, said := range []string{"Do it.", "meeting", "boss", "message_id", "canary"} {
			failIf(t, bytes.Contains(record, []byte(said)), "record %d has %q", i+1, said)
		}
		d, err := bcp.DecodeDecision(record)
		failIf(t, err != nil || len(d.Sealed) == 0, "record %d is not sealed, %v", i+1, err)
	}
	expect(t, l.state.Runs().OpenSince(start.Add(time.Hour).UnixNano()), 0, "runs are open")
	failIf(t, !bytes.Equal(checkpoint(t, l.replay(l.config, true)), checkpoint(t, l.state)),
		"the state has something of what can be erased")
}

// An erasure waits for the runs of its days.
//
// covers P11.5
func TestOpenRunIsNotErased(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.example(1)
	m := bcp.Moment{Now: start.Add(72 * time.Hour), Fresh: "f", Salt: [16]byte{9}}
	_, reasons := l.state.DecideErase(m, bcp.EraseRequest{Before: "2026-03-02"})
	diff := cmp.Diff([]string{"1 runs of kernels of those days are open"}, reasons)
	failIf(t, diff != "", "(-want +got):\n%s", diff)
	_, reasons = l.state.DecideErase(m, bcp.EraseRequest{Before: "2026-03-01"})
	failIf(t, len(reasons) > 0, "a run that began later is in the way: %v", reasons)
}

// A record that does not follow, or says two things, is refused and changes nothing.
//
// covers P11.1
func TestRunRecordsAreChecked(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	l.example(1)
	runs := l.state.Runs()
	before := savedText(runs)
	last := l.g.changes[len(l.g.changes)-1]
	good := func() bcp.Decision {
		d := bcp.Decision{Time: last.Time}
		runs.Record(&d, &last, "somebody")
		return d
	}
	for name, spoil := range map[string]func(*bcp.Decision){
		"another kind":      func(d *bcp.Decision) { d.Kind = bcp.KindCall },
		"another time":      func(d *bcp.Decision) { d.Time++ },
		"another run":       func(d *bcp.Decision) { d.Run.Run = "r" },
		"another code":      func(d *bcp.Decision) { d.Run.Code = "malformed" },
		"another alert":     func(d *bcp.Decision) { d.Run.Alert = "in_doubt" },
		"no change":         func(d *bcp.Decision) { d.Run.Change = nil },
		"no run":            func(d *bcp.Decision) { d.Run = nil },
		"a kind of another": func(d *bcp.Decision) { d.Kind = bcp.KindAsk },
	} {
		d := good()
		must(kernel.ReadRecord(&d))
		spoil(&d)
		_, err := runs.ApplyRun(&d)
		failIf(t, !errors.Is(err, kernel.ErrRecord), "%s: got %v", name, err)
	}
	expect(t, savedText(runs), before, "a refused record changes the state")
	for _, d := range []bcp.Decision{{Kind: bcp.KindRun}, {Kind: bcp.KindAsk, Run: &bcp.RunChange{}}} {
		d.Seq, d.Prev, d.Time = l.state.Last()+1, l.state.Head(), last.Time
		s := l.replay(l.config, false)
		fails(t, s.Apply(&d, bcp.Digest{}), state.ErrReplay, "%s: got", d.Kind)
	}
}

// Who reads the open part of the records, and knows all else about a run, cannot try out
// what was said: the same run with the same words has other keys each time, and no digest
// of its message.
//
// covers P11.5
func TestKeysAreSalted(t *testing.T) {
	t.Parallel()
	open := func(salt byte) []byte {
		g := newGateway(t, mustKernel(t, nil))
		g.salt = [16]byte{salt}
		g.begin("all")
		g.plan(mailPlan, mail)
		var all []byte
		for _, r := range g.records {
			all = append(all, r[0]...)
		}
		return all
	}
	stopIf(t, !bytes.Equal(open(1), open(1)), "two equal runs have different records")
	failIf(t, bytes.Equal(open(1), open(2)), "the keys of a run do not depend on its salt")
	digest, _ := bcp.Digest(sha256.Sum256([]byte(`{"task":"Do it."}`))).MarshalText()
	failIf(t, bytes.Contains(open(1), digest), "a record has the digest of a message")
}

// charged is what a change tells its requester.
func charged(s *kernel.State, c *kernel.Change) bcp.Bits {
	var d bcp.Decision
	s.Record(&d, c, "")
	return d.Capacity
}

// The weights of a question and of all ends that a requester can hear of next add up to at
// most 1, and nothing that content had no part in is counted.
//
// covers DUAL-9, P4.1, KER-106
func TestEndsAreWeighed(t *testing.T) {
	t.Parallel()
	sum, runs := big.NewRat(1, 1<<7), kernel.NewState()
	for _, status := range kernel.Statuses() {
		for _, code := range append(kernel.Codes(), "") {
			if status == kernel.Committed && code != "" {
				continue
			}
			c := kernel.Change{Kind: bcp.KindOutcome, End: &kernel.End{Status: status, Code: code}}
			expect(t, charged(runs, &c), 0, "%s %s of a run that read nothing tells", status, code)
			for _, totals := range []kernel.Totals{{Parses: 1}, {Effects: 1}} {
				if c.Totals = totals; charged(runs, &c) < bcp.Bit {
					t.Errorf("%s %s of a run with %+v tells %s", status, code, totals, charged(runs, &c))
				}
			}
			sum.Add(sum, new(big.Rat).SetFrac64(1, 1<<(charged(runs, &c)/bcp.Bit)))
		}
	}
	failIf(t, sum.Cmp(big.NewRat(1, 1)) > 0 || sum.Cmp(big.NewRat(9, 10)) < 0, "all ends weigh %s", sum.FloatString(6))
}

// How its run ends counts into what a requester was told, and exposes it. Once it has begun
// anew it may ask again, and that counts again, once for each time; in between it is free.
//
// covers P8.2, P9.2, DUAL-9
func TestEndsAreTold(t *testing.T) {
	t.Parallel()
	l := newLedger(t, bcp.Agent{Name: "kim", Controller: true, Encoding: bcp.JSON, BaseTaint: bcp.TaintLow})
	told := func(want bcp.Bits) {
		t.Helper()
		got, _ := l.state.Told("kim", l.g.moment())
		failIf(t, got != want, "told %s, want %s", got, want)
	}
	l.example(1)
	told(0)
	last := l.g.result(sent)
	if d := l.record(last, "mail", ""); d.Capacity != bcp.Bit || d.Taint != bcp.TaintMedium {
		t.Errorf("the end is recorded with %s and %s", d.Capacity, d.Taint)
	}
	told(bcp.Bit)
	runs := l.state.Runs()
	failIf(t, runs.Ended(last.Run) != last.Time || l.state.HasForgotten("kim", last.Time) || runs.Ended("r") != 0,
		"it has forgotten what it was told just now")
	m := l.g.moment()
	m.Salt = [16]byte{9}
	d := l.state.DecideSession(m, "kim", []byte(`{"verb":"open"}`))
	l.store(d)
	told(0)
	failIf(t, !l.state.HasForgotten("kim", last.Time) || l.state.HasForgotten("kim", d.Time+1) || l.state.HasForgotten("nobody", 0),
		"it began anew, and has not forgotten")
	again := kernel.Change{Kind: bcp.KindRun, Run: last.Run, Code: kernel.Repeated, Start: &kernel.Start{Kernel: "desk", Requester: kim}, End: last.End}
	for n := range bcp.Bits(2) {
		again.Time = l.g.moment().Now.UnixNano()
		expect(t, l.record(again, "kim", "").Verdict, bcp.Accept, "asked again")
		told((n + 1) * bcp.Bit)
	}
	made := l.replay(l.config, false)
	failIf(t, !bytes.Equal(checkpoint(t, made), checkpoint(t, l.state)), "the records make another state")
}
