package server

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// covers A-FLOODRESP, A-FRAME
func TestCostOfWhatIsRead(t *testing.T) {
	t.Parallel()
	large := append([]byte("PUB a 5000\r\n"), make([]byte, 5000)...)
	for name, tt := range map[string]struct {
		read   []byte
		sealed bool
		want   int
	}{
		"nothing":               {nil, false, 0},
		"nothing, under TLS":    {nil, true, 0},
		"a part of a message":   {make([]byte, 5000), false, 5000},
		"a ping":                {[]byte("PING\r\n"), false, lineBytes},
		"a small message":       {[]byte("PUB a 0\r\n\r\n"), false, 2 * lineBytes},
		"pings":                 {bytes.Repeat([]byte("PING\r\n"), 100), false, 100 * lineBytes},
		"a large message":       {large, false, len(large)},
		"a byte":                {[]byte("P"), false, 1},
		"a byte, under TLS":     {[]byte("P"), true, lineBytes},
		"pings, under TLS":      {bytes.Repeat([]byte("PING\r\n"), 100), true, 100 * lineBytes},
		"many bytes, in one go": {make([]byte, lineBytes+1), true, lineBytes + 1},
	} {
		s := speech{sealed: tt.sealed, begun: true}
		got, on, ok := s.read(tt.read)
		failIf(t, got != tt.want || !ok || !bytes.Equal(on, tt.read), "%s costs %d, not %d (%t)", name, got, tt.want, ok)
	}
}

// The first line that goes on is CONNECT, whole and in a spelling that the server reads
// in no other way; all after it goes on as it comes.
//
// covers A-FRAME
func TestFirstLineIsConnect(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		said   string
		passes bool
	}{
		"alone":                             {"CONNECT {}\r\n", true},
		"small letters, a line feed":        {"connect {}\n", true},
		"with more behind it":               {"CONNECT {}\r\nPING\r\nPUB a 2\r\n{}\r\nCONN", true},
		"the longest line":                  {"CONNECT {" + strings.Repeat(" ", maxControlLine-11) + "}\r\n", true},
		"a longer line":                     {"CONNECT {" + strings.Repeat(" ", maxControlLine-10) + "}\r\n", false},
		"another word":                      {"PING\r\nCONNECT {}\r\n", false},
		"a word with a tail":                {"CONNECTS {}\r\n", false},
		"an empty line":                     {"\r\nCONNECT {}\r\n", false},
		"a carriage return in it":           {"CONNECT {\r}\r\n", false},
		"options in the next line":          {"CONNECT\n{}\r\n", false},
		"options in the next line, a blank": {"CONNECT \n{}\r\n", false},
		"options that are none":             {"CONNECT {}x\r\n", false},
		"a line without end":                {strings.Repeat("x", maxControlLine+1), false},
	} {
		for size := 1; size <= len(tt.said); size = size*3 + 1 {
			m, got, fine := speech{}, "", true
			for said := []byte(tt.said); len(said) > 0 && fine; {
				n := min(size, len(said))
				var on []byte
				_, on, fine = m.read(slices.Clone(said[:n]))
				if said = said[n:]; fine {
					got += string(on)
				}
			}
			if want := tt.said; fine != tt.passes || fine && got != want || !fine && got != "" {
				t.Errorf("%s, in pieces of %d: %t, %q goes on", name, size, fine, got)
			}
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
				m := speech{admits: func(key string) bool { return admitted || key != issuer }}
				line := word + tt.options + "\r\n"
				_, on, ok := m.read([]byte(line))
				want := line
				if tt.refused && !admitted {
					want = word + " {}" + strings.Repeat(" ", len(tt.options)-len(" {}")) + "\r\n"
				}
				failIf(t, ok != tt.protocol || ok && string(on) != want, "%s, %t: %t, %q", name, admitted, ok, on)
			}
		}
	}
	// The zero value lets nobody in.
	_, on, ok := (&speech{}).read([]byte(`CONNECT {"jwt":"` + token + "\"}\r\n"))
	failIf(t, !ok || !strings.HasPrefix(string(on), "CONNECT {}  "), "%t, %q", ok, on)
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
