package agents_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// archive is a server with the two streams that an Auditor reads, under the
// prefix that it uses.
type archive struct {
	*gateway
	js   natsjs.JetStream
	url  string
	lose atomic.Int32 // replies to drop
}

func startArchive(t *testing.T) *archive {
	t.Helper()
	s := startServer(t, func(o *server.Options) { o.JetStream, o.StoreDir = true, t.TempDir() })
	a := &archive{gateway: startGateway(t, s.ClientURL(), bcp.JSON), url: s.ClientURL()}
	var err error
	if a.js, err = natsjs.New(a.nc); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]subjects.Kind{subjects.AuditStream: subjects.KindAudit, subjects.LedgerStream: subjects.KindLedger} {
		must(a.js.CreateStream(within(t), natsjs.StreamConfig{Name: name, Subjects: []string{subjects.All(kind)}, AllowDirect: true, Storage: natsjs.MemoryStorage}))
	}
	// Plays the account import that renames the interface, and loses replies.
	must(a.nc.Subscribe(subjects.AuditPrefix+".>", func(m *nats.Msg) {
		inbox := a.nc.NewInbox()
		var sub *nats.Subscription
		sub, err := a.nc.Subscribe(inbox, func(r *nats.Msg) {
			if r.Header.Get("Status") != "" {
				_ = sub.Unsubscribe()
			} else if a.lose.Add(-1) == 0 {
				return
			}
			r.Subject, r.Reply = m.Reply, ""
			_ = a.nc.PublishMsg(r)
		})
		if err == nil {
			_ = a.nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, subjects.AuditPrefix), inbox, m.Data)
		}
	}))
	a.flush()
	return a
}

func (a *archive) record(subject string, d bcp.Decision) {
	a.t.Helper()
	b := must(bcp.EncodeDecision(&d))
	a.store(subject, b)
}

func (a *archive) store(subject string, data []byte) {
	a.t.Helper()
	must(a.js.PublishAsync(subject, data))
	if a.js.PublishAsyncPending() > 1000 {
		next(a.t, a.js.PublishAsyncComplete(), "the stored records")
	}
}

func (a *archive) auditor(o agents.Options) *agents.Auditor {
	a.t.Helper()
	next(a.t, a.js.PublishAsyncComplete(), "the stored records")
	o.Name = "bob"
	return agents.NewAuditor(connect(a.t, a.url, o))
}

// covers P11.3
func TestFollow(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	auditor := a.auditor(agents.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan uint64), make(chan struct{})
	go func() {
		defer close(ended)
		for r, err := range auditor.Select(ctx, agents.Selection{Follow: true}) {
			failIf(t, err != nil, "%v", err)
			got <- r.Decision.Seq
		}
	}()
	for seq := range uint64(3) {
		a.record(subjects.Audit("", "", "start"), bcp.Decision{Seq: seq, Kind: bcp.KindStart})
		expect(t, next(t, got, "a new record"), seq, "got")
	}
	cancel()
	next(t, ended, "the end")
}

// The newest line of each channel, however many there are.
//
// covers P4.5
func TestLedgerHasTheNewestLines(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	for i := range 3 {
		for _, reader := range []bcp.AgentName{researcher, "archivist"} {
			a.store(subjects.Ledger(main, reader), []byte(fmt.Sprint(reader, i)))
		}
	}
	auditor := a.auditor(agents.Options{})
	lines, err := auditor.Ledger(within(t))
	failIf(t, err != nil || len(lines) != 2 || string(lines[0].Data) != "archivist2" || string(lines[1].Data) != "researcher2",
		"got %v, %v", lines, err)
	for i := range 1030 { // more than the server gives at a time
		a.store(subjects.Ledger(main, bcp.AgentName(fmt.Sprint("r", i))), []byte("1"))
	}
	next(t, a.js.PublishAsyncComplete(), "the stored records")
	lines, err = auditor.Ledger(within(t))
	failIf(t, err != nil || len(lines) != 1032 || string(lines[0].Data) != "archivist2", "got %d lines, %v", len(lines), err)
}

// A damaged record is an error, and the last value.
//
// covers P11.1
func TestLastIsTheNewestRecord(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	auditor := a.auditor(agents.Options{})
	fails(t, errorOf(auditor.Last(within(t))), agents.ErrNoRecords, "an empty audit: got")
	for seq := range uint64(3) {
		record := must(bcp.EncodeDecision(&bcp.Decision{Seq: seq + 1, Kind: bcp.KindStart}))
		a.store(subjects.Audit("", "", "start"), record)
	}
	next(t, a.js.PublishAsyncComplete(), "the stored records")
	last, err := auditor.Last(within(t))
	failIf(t, err != nil || last.Decision.Seq != 3 || last.Sequence != 3, "got %+v, %v", last, err)
	a.store(subjects.Audit("", "", "start"), []byte("damaged"))
	next(t, a.js.PublishAsyncComplete(), "the damaged record")
	fails(t, errorOf(auditor.Last(within(t))), nil, "a damaged record is no error")
	values := 0
	for r, err := range auditor.Select(within(t), agents.Selection{}) {
		values++
		failIf(t, (err == nil) != (values < 4), "value %d: %+v, %v", values, r, err)
	}
	expect(t, values, 4, "values")
}

// The newest record is asked for again where nobody answers yet, and where an answer
// is lost.
//
// covers P11.4, A-RECONN
func TestLastIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s, g := startBoth(t, bcp.JSON)
	data := must(bcp.EncodeDecision(&bcp.Decision{Seq: 7, Kind: bcp.KindStart}))
	var lose atomic.Int32 // requests that are not answered
	serve := func() {
		must(g.nc.Subscribe(subjects.AuditPrefix+".DIRECT.GET."+subjects.AuditStream, func(m *nats.Msg) {
			if lose.Add(-1) >= 0 {
				return
			}
			newest := nats.NewMsg(m.Reply)
			newest.Header.Set(nats.JSSequence, "7")
			newest.Header.Set(nats.JSTimeStamp, "2026-03-15T12:00:00Z")
			newest.Data = data
			err := m.RespondMsg(newest)
			failIf(t, err != nil, "%v", err)
		}))
		g.flush()
	}
	last := func(c *agents.Connection) <-chan error {
		return later(func() error {
			r, err := agents.NewAuditor(c).Last(within(t))
			if err == nil && r.Decision.Seq != 7 {
				err = fmt.Errorf("got decision %d", r.Decision.Seq)
			}
			return err
		})
	}
	c := connect(t, s.ClientURL(), agents.Options{Name: "bob"})
	read := last(c)
	eventually(t, "a request that nobody answers", func() bool { return c.NATS().Stats().InMsgs > 0 })
	serve()
	noError(t, next(t, read, "the newest record"))
	lose.Store(1)
	noError(t, next(t, last(connect(t, s.ClientURL(), agents.Options{Name: "bob", Attempt: 100 * time.Millisecond})), "the newest record"))
}

// covers P11.4
func TestAuditorWithoutAStream(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "none", Password: "p", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"nothing"}},
				Subscribe: &server.SubjectPermission{Allow: []string{subjects.InboxesOf("bob")}},
			}},
			{Username: "all", Password: "p"},
		}
	})
	for user, want := range map[string]error{"none": nats.ErrPermissionViolation, "all": agents.ErrNoRecords} {
		auditor := agents.NewAuditor(connect(t, s.ClientURL(), agents.Options{Name: "bob", Attempt: 200 * time.Millisecond, NATS: []nats.Option{nats.UserInfo(user, "p")}}))
		for _, err := range auditor.Select(within(t), agents.Selection{}) {
			failIf(t, !errors.Is(err, want), "audit: got %v, want %v", err, want)
		}
		fails(t, errorOf(auditor.Ledger(within(t))), want, "ledger")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	auditor := agents.NewAuditor(connect(t, s.ClientURL(), agents.Options{Name: "bob", NATS: []nats.Option{nats.UserInfo("all", "p")}}))
	for _, err := range auditor.Select(ctx, agents.Selection{Follow: true}) {
		t.Errorf("following: %v", err)
	}
}

// All records come in order, over several pages, from where one likes, also where a reply is lost on the way. The server
// leaves out what was not asked for, and the first record of a time is found by the journal's time, whenever it was stored.
//
// covers P11.1, P11.3
func TestSelect(t *testing.T) {
	t.Parallel()
	a := startArchive(t)
	begin := time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)
	at := func(i uint64) time.Time { return begin.Add(time.Duration(i/3) * time.Second) } // three records each
	const records = 2800                                                                  // more than two pages
	for i := range uint64(records) {
		reader, kind := bcp.AgentName("archivist"), bcp.KindAnswer
		if i%5 == 0 {
			reader = researcher
		}
		if i%7 == 0 {
			kind = bcp.KindPush
		}
		a.record(subjects.Audit(main, reader, kind.String()), bcp.Decision{Seq: i + 1, Kind: kind, Controller: main, Reader: reader, Time: at(i).UnixNano()})
	}
	auditor := a.auditor(agents.Options{})
	for name, c := range map[string]struct {
		selection agents.Selection
		want      int
	}{
		"all":                {agents.Selection{}, records},
		"from the first":     {agents.Selection{From: 1}, records},
		"from the 300th":     {agents.Selection{From: 300}, 2501},
		"the last":           {agents.Selection{From: records}, 1},
		"past the last":      {agents.Selection{From: records + 1}, 0},
		"a channel":          {agents.Selection{Controller: main, Reader: researcher}, 560},
		"a kind":             {agents.Selection{Kind: bcp.KindPush}, 400},
		"both":               {agents.Selection{Controller: main, Reader: researcher, Kind: bcp.KindPush}, 80},
		"from the middle":    {agents.Selection{From: 351, Kind: bcp.KindPush}, 350},
		"what there is none": {agents.Selection{Kind: bcp.KindAsk}, 0},
	} {
		a.lose.Store(100)
		n, last := 0, uint64(0)
		for r, err := range auditor.Select(within(t), c.selection) {
			stopIf(t, err != nil || r.Sequence <= last || r.Decision.Seq != r.Sequence || r.Time.IsZero() ||
				r.Subject != subjects.Audit(main, r.Decision.Reader, r.Decision.Kind.String()), "%s: %+v, %v", name, r, err)
			n, last = n+1, r.Sequence
		}
		failIf(t, n != c.want, "%s: %d records, want %d", name, n, c.want)
	}
	for range auditor.Select(within(t), agents.Selection{}) {
		break
	}
	for r, err := range auditor.Select(within(t), agents.Selection{Controller: main}) {
		stopIf(t, err == nil, "half a channel: %+v", r)
	}
	for _, c := range []struct {
		at   time.Time
		want uint64
	}{{time.Time{}, 1}, {begin, 1}, {begin.Add(1), 4}, {at(3), 4}, {at(300).Add(-1), 301}, {at(300), 301}, {at(records - 1), records}, {at(records + 2), records + 1}, {at(records + 900), records + 1}} {
		got, err := auditor.From(within(t), c.at)
		failIf(t, err != nil || got != c.want, "from %s: %d, %v, want %d", c.at, got, err, c.want)
	}
}
