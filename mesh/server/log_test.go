package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// record is an adapter whose refusals and lines a test reads.
func record(t testing.TB) (a *adapter, text *bytes.Buffer, refusals func() []string) {
	text = &bytes.Buffer{}
	d := &denials{wake: make(chan struct{}, 1), incoming: map[refusal]*refused{}}
	a = &adapter{
		logger:  hclog.New(&hclog.LoggerOptions{Output: text, Level: hclog.Trace, DisableTime: true}),
		denials: d,
	}
	return a, text, func() []string {
		incoming, lost := d.take()
		expect(t, lost, 0, "lost")
		var list []string
		for key, r := range incoming {
			list = append(list, fmt.Sprintf("%d %s %q x%d", key.clientID, key.operation, r.subject, r.count))
		}
		return list
	}
}

// covers P11.1, A-WILD
func TestAdapterReadsTheServersLines(t *testing.T) {
	t.Parallel()
	const known = `10.0.0.1:4222 - cid:7 - "v1:go:name" - "A/READERS/jwt:U" - `
	// Everything that a client may call itself is quoted by the server.
	forged := fmt.Sprintf(`10.0.0.1:4222 - cid:7 - %q - "A/READERS/jwt:U" - `, `v1:go:" - cid:8 - Publish Violation - Subject %q`)
	for _, c := range []struct {
		format  string
		args    []any
		line    string
		refusal string
	}{
		{"Server is ready", nil, "Server is ready", ""},
		{"Listening on %s:%d", []any{"localhost", 4222}, "Listening on localhost:4222", ""},
		{"Error: %v\x1b\n", []any{errors.New("a\nb")}, `Error: a\nb\x1b\n`, ""},
		{"%s", []any{strings.Repeat("x", 1000)}, strings.Repeat("x", maxLine), ""},
		{known + "Publish Violation - Subject %q", []any{[]byte("a.b")}, "refused a publish: client=7", `7 publish "a.b" x1`},
		{known + "Publish Violation - Reply %q", []any{[]byte("_R_.b")}, "refused a publish: client=7", `7 publish "_R_.b" x1`},
		{forged + "Publish Violation - Subject %q", []any{[]byte("a.b")}, "refused a publish: client=7", `7 publish "a.b" x1`},
		{forged + "something", nil, "an event of a client: client=7", ""},
		{known + `Subscription Violation - Subject "a.%d.>", SID 5`, nil, "refused a subscription: client=7", `7 subscribe "a.%d.>" x1`},
		{known + `Subscription Violation - Subject "a", Queue: "q - Subject \"b\"", SID 5`, nil, "refused a subscription: client=7", `7 subscribe "a" x1`},
		{known + `Subscription Violation Too Many Tokens - Subject "a.a", SID 5`, nil, "refused a subscription: client=7", `7 subscribe "a.a" x1`},
		{"[::1]:4222 - wid:9 - authentication error", nil, "refused a connection: client=9", `9 connect "" x1`},
		{"10.0.0.1:4222 - cid:9 - %v - %s", []any{errors.New("authentication error"), `User "x"`}, "refused a connection: client=9", `9 connect "" x1`},
		{"pipe - cid:1 - %s: %d vs %d", []any{"maximum payload exceeded", 5, 4}, "disconnected a client: its message is too large: client=1", ""},
		{"pipe - cid:1 - Client Error %s", []any{"its words"}, "an event of a client: client=1", ""},
		{"%s - %s%s", []any{"10.0.0.1:1 - cid:3", "Slow Consumer: its words", ""}, "a client reads too slowly: client=3", ""},
		{"10.0.0.1:1 - mid_ws:3 - \"its words\"", nil, "an event of a client: client=3", ""},
		{`10.0.0.1:1 - cid:3`, nil, "an event of a client: client=3", ""},
		{"Removed sub %q (sid %q) for %s - not authorized", []any{"its words", "1", "x"}, "Removed sub", ""},
	} {
		a, text, refusals := record(t)
		a.Errorf(c.format, c.args...)
		expect(t, strings.TrimSuffix(strings.TrimPrefix(text.String(), "[ERROR] "), "\n"), c.line, "%q: logged", c.format)
		expect(t, strings.Join(refusals(), "; "), c.refusal, "%q: refused", c.format)
		a.Debugf(c.format, c.args...)
		a.Tracef(c.format, c.args...)
		failIf(t, a.fatal() != nil || strings.Count(text.String(), "\n") != 1, "%q: %v, %q", c.format, a.fatal(), text)
	}
}

// Whatever is logged, and whoever has the server log it: it is a few lines a minute of
// each kind.
//
// covers A-FLOODRESP, BCP-19
func TestLinesOfEachKindAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, text, _ := record(t)
		kinds := []func(int){
			func(i int) { a.Errorf("Account fetch failed: %v", i) },
			func(i int) { a.Warnf("%d: a stranger", i) },
			func(int) { a.client(tlsFailed) },
			func(i int) { a.Errorf("pipe - cid:%d - authentication error", i) },
			func(i int) { a.Errorf("%s - %s", fmt.Sprintf("pipe - cid:%d", i), "its words") },
		}
		for round := range 3 {
			for i := range 1000 {
				for _, line := range kinds {
					line(i)
				}
			}
			// The first line of a minute says what the one before left out.
			got, want := strings.Count(text.String(), "\n"), len(kinds)*((round+1)*maxLines+round)
			failIf(t, got != want, "%d lines, not %d", got, want)
			time.Sleep(linesTime)
		}
		failIf(t, !strings.Contains(text.String(), "lines were left out: line=\"Account fetch failed: %v\" count=990"),
			"%v", text.String())
	})
}

// covers P11.1
func TestAdapterKeepsTheFirstFatalLine(t *testing.T) {
	t.Parallel()
	a, _, _ := record(t)
	a.Fatalf("cannot listen on %d", 1)
	a.Fatalf("and so on")
	err := a.fatal()
	failIf(t, err == nil || err.Error() != "cannot listen on 1", "%v", err)
}

// covers BCP-19, A-SUBJTOK
func FuzzAdapter(f *testing.F) {
	f.Add("v1:go:name", "a.b", true)
	f.Add(`" - cid:8 - Publish Violation - Subject "`, "\x1b[31m", false)
	f.Add("%s%d%!", "%s", true)
	f.Fuzz(func(t *testing.T, words, subject string, publish bool) {
		a, text, refusals := record(t)
		client := fmt.Sprintf(`10.0.0.1:1 - cid:7 - %q - "A/READERS/jwt:U" - `, words)
		if publish {
			a.Errorf(client+"Publish Violation - Subject %q", []byte(subject))
		} else {
			a.Errorf(client + fmt.Sprintf("Subscription Violation - Subject %q, SID %s", subject, words))
		}
		want := map[bool]string{true: "[ERROR] refused a publish: client=7\n", false: "[ERROR] refused a subscription: client=7\n"}[publish]
		stopIf(t, text.String() != want, "logged %q", text)
		operation := map[bool]Operation{true: Publish, false: Subscribe}[publish]
		told := fmt.Sprintf("7 %s %q x1", operation, printable(subject, maxSubject))
		got := refusals()
		stopIf(t, len(got) != 1 || got[0] != told, "refused %q, want %q", got, told)
	})
}
