package proof_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
)

// Subjects of the random worlds: few enough to be tried one by one.
var (
	literals = subjectsOf([]string{"a", "b"}, 3)
	wanted   = append(subjectsOf([]string{"a", "b", "*"}, 3), ">", "a.>", "b.>", "*.>", "a.a.>", "a.b.>", "b.*.>", "*.*.>")
)

func subjectsOf(tokens []string, longest int) []string {
	var all []string
	last := []string{""}
	for range longest {
		var next []string
		for _, begin := range last {
			for _, token := range tokens {
				next = append(next, strings.TrimPrefix(begin+"."+token, "."))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

func drawPattern(t *rapid.T, label string) string {
	tokens := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "a", "b"}), 1, 3).Draw(t, label)
	if len(tokens) < 3 && rapid.IntRange(0, 3).Draw(t, label+" tail") == 0 {
		tokens = append(tokens, ">")
	}
	return strings.Join(tokens, ".")
}

func drawPermission(t *rapid.T, p *jwt.Permission, queues bool) {
	for range rapid.IntRange(0, 2).Draw(t, "allow") {
		s := drawPattern(t, "allowed")
		if queues && rapid.IntRange(0, 4).Draw(t, "queue") == 0 {
			s += " q"
		}
		p.Allow.Add(s)
	}
	for range rapid.IntRange(0, 2).Draw(t, "deny") {
		s := drawPattern(t, "denied")
		if queues && rapid.IntRange(0, 4).Draw(t, "queue") == 0 {
			s += " q"
		}
		p.Deny.Add(s)
	}
}

// renamed draws what an import may call a subject.
func renamed(t *rapid.T, subject string) string {
	tokens := strings.Split(subject, ".")
	n := strings.Count(subject, "*")
	turn := n == 2 && rapid.Bool().Draw(t, "turned")
	seen := 0
	for i, token := range tokens {
		switch {
		case token == "*":
			seen++
			if rapid.Bool().Draw(t, "reference") || turn {
				at := seen
				if turn {
					at = 3 - seen
				}
				tokens[i] = fmt.Sprintf("$%d", at)
			}
		case token != ">" && rapid.Bool().Draw(t, "other"):
			tokens[i] = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "token")
		}
	}
	return strings.Join(tokens, ".")
}

// drawIssuer makes accounts that export to, and import from, each other at
// random, with two principals each.
func drawIssuer(t *rapid.T, tb testing.TB) *issuer {
	i := newIssuer(tb)
	names := []string{"A", "B", "C"}
	for _, name := range names {
		a := i.account(tb, name)
		if rapid.IntRange(0, 2).Draw(t, "default") == 0 {
			drawPermission(t, &a.DefaultPermissions.Pub, false)
			drawPermission(t, &a.DefaultPermissions.Sub, true)
		}
		for n := range 2 {
			scope := i.scope(tb, name, fmt.Sprintf("%s%d", name, n))
			drawPermission(t, &scope.Template.Pub, false)
			drawPermission(t, &scope.Template.Sub, true)
		}
	}
	mapped := map[*jwt.AccountClaims][]string{} // what is worth mapping
	for range rapid.IntRange(0, 5).Draw(t, "imports") {
		from := i.accounts[rapid.SampledFrom(names).Draw(t, "exporter")]
		to := i.accounts[rapid.SampledFrom(names).Draw(t, "importer")]
		if from == to {
			continue
		}
		kind := rapid.SampledFrom([]jwt.ExportType{jwt.Service, jwt.Stream}).Draw(t, "kind")
		subject := drawPattern(t, "subject")
		exported := subject
		if rapid.Bool().Draw(t, "wider") {
			exported = drawPattern(t, "exported")
		}
		from.Exports.Add(&jwt.Export{Subject: jwt.Subject(exported), Type: kind})
		im := &jwt.Import{Account: from.Subject, Subject: jwt.Subject(subject), Type: kind}
		switch rapid.IntRange(0, 3).Draw(t, "renamed") {
		case 0:
			im.LocalSubject = jwt.RenamingSubject(renamed(t, subject))
		case 1:
			if kind == jwt.Stream {
				//lint:ignore SA1019 servers take the old form, too
				im.To = "a"
			}
		}
		to.Imports.Add(im)
		if kind == jwt.Service {
			mapped[from] = append(mapped[from], subject)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "mappings") {
		a := i.accounts[rapid.SampledFrom(names).Draw(t, "mapper")]
		from := drawPattern(t, "mapped")
		if len(mapped[a]) > 0 {
			from = rapid.SampledFrom(mapped[a]).Draw(t, "mapped import")
		}
		to := renamed(t, from)
		for n := 1; strings.Contains(to, "*"); n++ {
			to = strings.Replace(to, "*", fmt.Sprintf("$%d", n), 1)
		}
		a.AddMapping(jwt.Subject(from), jwt.WeightedMapping{Subject: jwt.Subject(to), Weight: rapid.SampledFrom([]uint8{50, 100}).Draw(t, "weight")})
	}
	for _, name := range names {
		results := jwt.CreateValidationResults()
		a := i.accounts[name]
		if a.Validate(results); results.IsBlocking(true) { // no server takes it
			a.Exports, a.Imports, a.Mappings = nil, nil, nil
		}
	}
	return i
}

// passes sends everything that can be sent, and returns who heard whom.
func (w *world) passes(t testing.TB) map[string]string {
	const times = 4 // mapped by chance, if the weight is less than all
	sent := append(slices.Clone(literals), "a.*", "a.>", "*", ">", "b.*.a")
	type client struct {
		*nats.Conn
		name  string
		heard chan *nats.Msg // filled when a flush returns
	}
	var all []client
	for _, account := range []string{"A", "B", "C"} {
		for n := range 2 {
			name := fmt.Sprintf("%s%d", account, n)
			all = append(all, client{w.as(t, account, name), name, make(chan *nats.Msg, 6*times*len(sent)*2*len(wanted))})
			c := all[len(all)-1]
			for _, s := range wanted {
				_, err := c.ChanSubscribe(s, c.heard)
				if err == nil {
					_, err = c.ChanQueueSubscribe(s, "q", c.heard)
				}
				noError(t, err)
			}
		}
	}
	for _, c := range all {
		_ = c.Flush()
	}
	for _, c := range all {
		for _, s := range sent {
			for range times {
				_ = c.PublishMsg(&nats.Msg{Subject: s, Header: nats.Header{"from": {s}}, Data: []byte(c.name)})
			}
		}
		_ = c.Flush()
	}
	heard := map[string]string{}
	for _, c := range all {
		// What was sent to a client came before the answer to its ping.
		_ = c.Flush()
		c.Close()
		for len(c.heard) > 0 {
			if m := <-c.heard; string(m.Data) != c.name {
				heard[string(m.Data)+" "+c.name] = m.Header.Get("from") + " as " + m.Subject
			}
		}
	}
	return heard
}

// Whatever passes on a real server, between principals with random permissions
// in accounts with random imports, exports and mappings, the proof has found.
//
// covers A-WILD, BCP-7
func TestNothingPassesUnseen(t *testing.T) {
	t.Parallel()
	var found, passed int
	rapid.Check(t, func(rt *rapid.T) {
		i := drawIssuer(rt, t)
		report := must(proof.Prove(i.claims(t), proof.Policy{}))(rt)
		shown := map[string]bool{}
		for _, h := range report.Of(proof.Agents) {
			shown[h.From+" "+h.To] = true
		}
		w := i.serve(t)
		heard := w.passes(t)
		w.server.Shutdown()
		for pair, what := range heard {
			failIf(rt, !shown[pair], "%s: %s passed, and was not found", pair, what)
		}
		found, passed = found+len(shown), passed+len(heard)
	})
	t.Logf("%d ways found, %d seen to pass", found, passed)
	failIf(t, passed == 0 || found > 2*passed, "%d ways found, %d seen to pass: the proof says too much", found, passed)
}
