package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// fate is what becomes of what a client says.
type fate uint8

const (
	passes fate = iota
	notProtocol
	foreignReply
)

// A reply subject that is no inbox of the sender is one that the server refuses,
// however the message is written. What the server could read in another way goes nowhere.
//
// covers A-REPLYPEER, A-FRAME
func TestRepliesAreTheSendersOwn(t *testing.T) {
	t.Parallel()
	const push = "bcp.v1.push.mailer.main.alerts"
	for name, tt := range map[string]struct {
		said string
		want fate
	}{
		"no reply":                          {"PUB " + push + " 2\r\n{}\r\n", passes},
		"no reply, in two spaces":           {"PUB " + push + "  2\r\n{}\r\n", passes},
		"its own inbox":                     {"PUB " + push + " _INBOX_mailer.x 2\r\n{}\r\n", passes},
		"its own inbox, with headers":       {"HPUB " + push + " _INBOX_mailer.x 12 14\r\nNATS/1.0\r\n\r\n{}\r\n", passes},
		"an inbox, of no sender":            {"PUB BCPJS.DIRECT.GET.BCP_AUDIT _INBOX_kim.x 2\r\n{}\r\n", passes},
		"a line feed alone":                 {"PUB " + push + " _INBOX_mailer.x 2\n{}\r\n", passes},
		"a payload like a message":          {"PUB " + push + " 30\r\nPUB " + push[:8] + " _INBOX_x.y 2\r\n{}\r\n", passes},
		"the longest line":                  {"PUB " + push + strings.Repeat(" ", maxControlLine-len(push)-6) + "2\r\n{}\r\n", passes},
		"others' lines":                     {"CONNECT {}\r\nPING\r\nPONG\r\nSUB a.> 1\r\nsub a.> q 1\r\nUNSUB 1 5\r\n", passes},
		"another's inbox":                   {"PUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", foreignReply},
		"an inbox whose name begins as its": {"PUB " + push + " _INBOX_mailer2.x 2\r\n{}\r\n", foreignReply},
		"an inbox without a dot":            {"PUB " + push + " _INBOX_mailer 2\r\n{}\r\n", foreignReply},
		"another's queries":                 {"PUB " + push + " bcp.v1.query.clerk.boss 2\r\n{}\r\n", foreignReply},
		"another's queries, small letters":  {"pub " + push + " bcp.v1.query.clerk.boss 2\r\n{}\r\n", foreignReply},
		"another's queries, tabs":           {"PUB\t" + push + "\tbcp.v1.query.clerk.boss\t2\r\n{}\r\n", foreignReply},
		"another's queries, with headers":   {"HPUB " + push + " bcp.v1.query.clerk.boss 12 14\r\nNATS/1.0\r\n\r\n{}\r\n", foreignReply},
		"another's deliveries, of an ask":   {"PUB bcp.v1.ask.main.mailer bcp.v1.deliver.controller.boss.clerk 2\r\n{}\r\n", foreignReply},
		"people's alerts":                   {"PUB BCPJS.DIRECT.GET.BCP_AUDIT bcp.v1.alert.x 2\r\n{}\r\n", foreignReply},
		"the second message":                {"PUB " + push + " 2\r\n{}\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", foreignReply},
		"behind an empty message":           {"PUB " + push + " 0\r\n\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", foreignReply},
		"a carriage return in the line":     {"PUB " + push + "\r _INBOX_mailer.x 22\n{}\r\n", notProtocol},
		"no size":                           {"PUB " + push + "\r\n", notProtocol},
		"a negative size":                   {"PUB " + push + " -1\r\n", notProtocol},
		"a size with a sign":                {"PUB " + push + " +2\r\n{}\r\n", notProtocol},
		"a size beyond all":                 {"PUB " + push + " 99999999999\r\n", notProtocol},
		"four words":                        {"PUB a b c 2\r\n{}\r\n", notProtocol},
		"five words, with headers":          {"HPUB a b c 12 14\r\n", notProtocol},
		"no blank":                          {"PUBa 2\r\n{}\r\n", notProtocol},
		"a longer line":                     {"PUB " + push + strings.Repeat(" ", maxControlLine-len(push)-5) + "2\r\n{}\r\n", notProtocol},
		"behind a word without more":        {"SUB \nPUB a 2\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", notProtocol},
		"behind a tab without more":         {"UNSUB\t\nPUB a 2\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", notProtocol},
		"behind an error":                   {"-ERR \nPUB a 2\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", notProtocol},
		"behind a server's greeting":        {"INFO \nPUB a 2\r\nPUB " + push + " _INBOX_clerk.x 2\r\n{}\r\n", notProtocol},
		"a carriage return in another line": {"SUB a.>\r 1\r\n", notProtocol},
		"an unknown word":                   {"PROXY TCP4 127.0.0.1 127.0.0.1 1 1\r\n", notProtocol},
		"a word with a tail":                {"PINGS\r\n", notProtocol},
		"a ping with more":                  {"PING a\r\n", notProtocol},
		"an empty line":                     {"\r\n", notProtocol},
		"options in the next line":          {"CONNECT\n{}\r\n", notProtocol},
		"options in the next line, a blank": {"CONNECT \n{}\r\n", notProtocol},
		"options that are none":             {"CONNECT {}x\r\n", notProtocol},
		"a line without end":                {strings.Repeat("x", maxControlLine+1), notProtocol},
	} {
		want := tt.said
		switch tt.want {
		case notProtocol:
			want = ""
		case foreignReply:
			for _, reply := range []string{"_INBOX_clerk.x", "_INBOX_mailer2.x", "_INBOX_mailer ", "bcp.v1.query.", "bcp.v1.deliver.", "bcp.v1.alert."} {
				want = strings.Replace(want, reply, "_R_."+reply[4:], 1)
			}
			if want == tt.said {
				t.Fatalf("%s: what should be refused?", name)
			}
		}
		for size := 1; size <= len(tt.said); size = size*3 + 1 {
			m, got := meter{}, ""
			for said := []byte(tt.said); len(said) > 0; {
				n := min(size, len(said))
				_, on, ok := m.read(slices.Clone(said[:n]))
				if said = said[n:]; !ok {
					got = ""
					break
				}
				got += string(on)
			}
			if got = strings.TrimSuffix(got, "\x00"); tt.want != notProtocol && got != want || tt.want == notProtocol && len(got) > 0 && len(got) == len(tt.said) {
				t.Errorf("%s, in pieces of %d: %q goes on, not %q", name, size, got, want)
			}
		}
		m := meter{frames: &frames{}}
		mask := [4]byte{1, 2, 3, 4}
		_, on, ok := m.read(frame([]byte(tt.said), 0x82, mask))
		if ok != (tt.want != notProtocol) || ok && string(on) != want {
			t.Errorf("%s, over WebSocket: %t, %q", name, ok, on)
		}
	}
}

// Creds that may not come by a gate are none, and are as long as they were; others are
// as they were.
//
// covers A-JWTSELF, BCP-19
func TestCredsComeByTheirGate(t *testing.T) {
	t.Parallel()
	account, user := must(nkeys.CreateAccount()), must(nkeys.CreateUser())
	token := must(jwt.NewUserClaims(must(user.PublicKey())).Encode(account))
	issuer := must(account.PublicKey())
	for name, tt := range map[string]struct {
		options  string
		refused  bool
		protocol bool
	}{
		"as clients write it":         {` {"verbose":false,"jwt":"` + token + `","sig":"x"}`, true, true},
		"in other letters":            {` {"JWT":"` + token + `"}`, true, true},
		"twice":                       {` {"jwt":"","jwt":"` + token + `"}`, true, true},
		"twice, another the last":     {` {"jwt":"` + token + `","jwt":"x"}`, false, true},
		"escaped":                     {` {"jwt":"\u0065` + token[1:] + `"}`, true, true},
		"behind tabs":                 {"\t \t{\"jwt\":\"" + token + `"}`, true, true},
		"of nobody":                   {` {"jwt":"x.y.z"}`, false, true},
		"no creds":                    {` {"user":"a","pass":"b"}`, false, true},
		"no object":                   {` [{"jwt":"` + token + `"}]`, false, false},
		"more than an object":         {` {"jwt":"` + token + `"}x`, false, false},
		"a carriage return before it": {" \r{\"jwt\":\"" + token + `"}`, false, false},
		"one in it":                   {` {"jwt":"` + token + "\"}\rx", false, false},
	} {
		for _, admitted := range []bool{true, false} {
			for _, word := range []string{"CONNECT", "connect"} {
				m := meter{said: speech{admits: func(key string) bool { return admitted || key != issuer }}}
				line := word + tt.options + "\r\n"
				_, on, ok := m.read([]byte(line))
				want := line
				if tt.refused && !admitted {
					want = word + " {}" + strings.Repeat(" ", len(tt.options)-len(" {}")) + "\r\n"
				}
				if ok != tt.protocol || ok && string(on) != want {
					t.Errorf("%s, %t: %t, %q", name, admitted, ok, on)
				}
			}
		}
	}
	// The zero value lets nobody in.
	if _, on, ok := (&meter{}).read([]byte(`CONNECT {"jwt":"` + token + "\"}\r\n")); !ok || !strings.HasPrefix(string(on), "CONNECT {}  ") {
		t.Errorf("%t, %q", ok, on)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The pieces that bytes come in change nothing, whatever they are.
//
// covers A-REPLYPEER
func FuzzSpeech(f *testing.F) {
	f.Add([]byte("PUB bcp.v1.push.mailer.main.alerts _INBOX_mailer.x 2\r\n{}\r\nPING\r\n"), 9)
	f.Add([]byte("HPUB bcp.v1.ask.main.mailer bcp.v1.deliver.controller.boss.clerk 12 14\r\nNATS/1.0\r\n\r\n{}\r\n"), 20)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		var whole, pieces meter
		_, want, wantOK := whole.read(slices.Clone(b))
		if len(b) == 0 {
			return
		}
		if wantOK && len(want) > len(b) {
			t.Errorf("%d bytes go on of %d", len(want), len(b))
		}
		at = int(uint(at) % uint(len(b)))
		_, first, ok := pieces.read(slices.Clone(b[:at]))
		got := slices.Clone(first)
		if ok {
			var second []byte
			_, second, ok = pieces.read(slices.Clone(b[at:]))
			got = append(got, second...)
		}
		if ok != wantOK || ok && (!bytes.Equal(got, want) || pieces.said.left != whole.said.left || !bytes.Equal(pieces.begun, whole.begun)) {
			t.Errorf("%t, %q in two pieces, %t, %q whole", ok, got, wantOK, want)
		}
	})
}
