package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// startWithDenials runs a server whose refusals the test reads.
func startWithDenials(t *testing.T, change ...any) (*bench, <-chan server.Denial) {
	t.Helper()
	denials := make(chan server.Denial, 4096)
	b := start(t, append(change, func(c *server.Config) { c.Denials = func(d server.Denial) { denials <- d } })...)
	return b, denials
}

// covers P11.1, A-WILD, A-SYS, A-JWTSELF
func TestRefusalsAreTold(t *testing.T) { everyWay(t, refusalsAreTold) }

func refusalsAreTold(t *testing.T, w way) {
	b, denials := startWithDenials(t, w)
	// The client's words look like the server's.
	words := `x" - "y" - Publish Violation - Subject %q %s %d - Subscription Violation - Subject "z", SID 1`
	if nc, err := nats.Connect(b.URL(), append(w.options(b), nats.UserInfo(words, words), nats.Name(words), nats.NoReconnect(), nats.Timeout(patience))...); err == nil {
		nc.Close()
		t.Fatal("a stranger is let in")
	}
	equal(t, server.Denial{Operation: server.Connect, Count: 1}, next(t, denials))
	researcher := b.connect("researcher", bcp.RoleReader, nats.Name(words))
	for _, c := range []struct {
		do        func() error
		operation server.Operation
		subject   string
	}{
		{func() error { return researcher.Publish("$SYS.REQ.%d%s%n", nil) }, server.Publish, "$SYS.REQ.%d%s%n"},
		{func() error { _, err := researcher.SubscribeSync("$JS.%s.>"); return err }, server.Subscribe, "$JS.%s.>"},
	} {
		noError(t, c.do())
		got := next(t, denials)
		want := server.Denial{
			Operation: c.operation, Party: server.Party{Agent: "researcher", Role: bcp.RoleReader}, Subject: c.subject, Count: 1,
		}
		equal(t, want, got)
	}
	// Of those that follow soon one says how many and has one as an example; it is escaped
	// and cut.
	const more = 50
	for range more {
		publish(t, researcher.Conn, "\x1b[31m\u202ea."+strings.Repeat("b", 500), "")
		must(researcher.QueueSubscribeSync("bcp.>", "\x1bq"))
	}
	count := map[server.Operation]int{}
	for count[server.Publish] < more || count[server.Subscribe] < more {
		got := next(t, denials)
		count[got.Operation] += got.Count
		failIf(t, got.Operation == server.Publish && (!strings.HasPrefix(got.Subject, `\x1b[31m\u202ea.bbb`) || len(got.Subject) != 120),
			"subject %q", got.Subject)
		failIf(t, got.Operation == server.Subscribe && got.Subject != "bcp.>", "subject %q", got.Subject)
		expect(t, got.Agent, "researcher", "%+v", got)
	}
	equal(t, map[server.Operation]int{server.Publish: more, server.Subscribe: more}, count)
}

// covers P4.7, A-FLOODRESP
func TestAFloodOfRefusalsIsFewReports(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b, denials := startWithDenials(t, func(c *server.Config) { c.Logger = log.logger() })
	// A flood over many connections of one agent is one party's.
	const flood, connections = 3000, 6
	begun := time.Now()
	creds := b.issue("researcher", bcp.RoleReader)
	for range connections {
		nc := must(nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.Timeout(patience),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})))
		for range flood / connections {
			publish(t, nc, "x", "")
		}
		flush(t, nc)
		nc.Close()
	}
	writer := b.connect("writer", bcp.RoleController)
	publish(t, writer.Conn, "x", "")
	total, records, other := 0, 0, 0
	for total < flood || other == 0 {
		d := next(t, denials)
		if d.Agent == "writer" {
			other += d.Count
			continue
		}
		expect(t, d.Agent, "researcher", "%+v", d)
		records++
		total += d.Count
	}
	seconds := int(time.Since(begun)/time.Second) + 1
	failIf(t, total != flood || other != 1 || records > 4*seconds+1,
		"%d refusals in %d reports, and %d of another, within %d s", total, records, other, seconds)
	count := strings.Count(log.String(), "refused a publish")
	failIf(t, count > 10*(seconds+1), "%d lines in the log", count)
}

// covers A-FLOODRESP, BCP-19
func TestNoWordsOfClientsAreLogged(t *testing.T) {
	t.Parallel()
	log := &lines{}
	b, denials := startWithDenials(t, func(c *server.Config) { c.Logger = log.logger() })
	const canary = "CANARY"
	creds := b.issue("researcher", bcp.RoleReader)
	client := func() *nats.Conn {
		nc, err := nats.Connect(b.URL(), nats.UserCredentialBytes(creds.Text()), nats.Name(canary+" %s%d"), nats.NoReconnect(), nats.Timeout(patience),
			nats.CustomInboxPrefix(subjects.InboxPrefix("researcher")), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		noError(t, err)
		t.Cleanup(nc.Close)
		return nc
	}
	nc := client()
	publish(t, nc, canary+".%s", canary)
	noError(t, nc.PublishRequest(subjects.Push("researcher", "main", "findings"), "_R_."+canary, nil))
	for _, subject := range []string{canary, canary + ".>", "_INBOX.researcher." + strings.Repeat(canary+".", 20) + "x"} {
		must(nc.QueueSubscribe(subject, canary+"%d", func(*nats.Msg) {}))
	}
	for range 200 { // more than it may have
		must(nc.SubscribeSync("_INBOX.researcher." + canary))
	}
	flush(t, nc)
	nc.Close()
	stranger := b.dial() // who is known already may not say this: the server races with itself if somebody logs in twice
	stranger.say("CONNECT {\"user\":\"" + canary + "\",\"pass\":\"" + canary + "\"}\r\n")
	stranger.ends()
	for _, text := range []string{
		"CONNECT {\"name\":\"" + canary + "\"\r\n", canary + " " + canary + "\r\n", "PUB " + canary + " x\r\n", strings.Repeat(canary, 2000) + "\r\n",
		"CONNECT {\"jwt\":\"" + canary + "\",\"nkey\":\"" + canary + "\",\"sig\":\"" + canary + "\"}\r\nPING\r\n", "\x16\x03\x01" + canary,
		"PUB " + canary + " 1048577\r\n", "SUB " + canary + "..x 1\r\nSUB _INBOX.researcher. " + canary + " " + canary + "\r\nUNSUB\r\n", "HPUB " + canary + " 9 1\r\n",
	} {
		for _, known := range []bool{false, true} {
			c := b.dial()
			c.heard("INFO ")
			if known {
				c.show(b, "researcher", bcp.RoleReader)
			}
			_, _ = c.Write([]byte(text + "PING\r\n" + strings.Repeat("x", 64) + "\r\n")) // it may have hung up
			c.ends()
		}
	}
	for seen := map[server.Operation]bool{}; len(seen) < 3; {
		d := next(t, denials)
		seen[d.Operation] = true
	}
	stop(t, b.Server)
	text := log.String()
	if strings.Contains(text, canary) {
		for line := range strings.Lines(text) {
			failIf(t, strings.Contains(line, canary), "logged: %s", line)
		}
	}
	for _, want := range []string{"refused a publish", "refused a subscription", "refused a connection", "too large"} {
		failIf(t, !strings.Contains(text, want), "the log does not tell: %s", want)
	}
}
