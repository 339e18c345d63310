package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/tell"
)

// reserving is a keeper's request, in the form of the world's acts.
func reserving(id, url string, by bcp.EgressBy, bits, bytes int64) string {
	nano := ""
	if by == bcp.ByLink {
		nano = fmt.Sprintf(`,"nano_bits":%d`, bits)
	}
	return fmt.Sprintf(`egress web {"act":"reserve","egress_id":%q,"url":%q,"by":%q,"bytes":%d%s}`, id, url, by, bytes, nano)
}

// What a keeper is allowed: each limit lets through exactly as much, and nothing beyond.
//
// covers P13.1, P13.2, P13.3, P13.4, P13.5, ALF-29, ALF-30, ALF-89
func TestEgress(t *testing.T) {
	t.Parallel()
	const url = "https://docs.example.org/"
	newWorld(t, testMesh()).play(`
		egress mail {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"redirect","bytes":1}  => reject not_permitted
		egress web {"act":"refuse","code":"private_address","url":"http://docs.example.org/"}  => reject not_permitted
		egress web {"act":"refuse","code":"my own words"}  => reject malformed
		egress web {"act":"refuse","code":""}  => reject malformed
		egress web {"act":"reserve","egress_id":"a b","url":"https://docs.example.org/","by":"redirect","bytes":1}  => reject malformed
		egress web {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"redirect","bytes":0}  => reject malformed
		egress web {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"redirect","bytes":1,"nano_bits":1}  => reject malformed
		egress web {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"link","bytes":1,"nano_bits":999999999}  => reject malformed
		egress web {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"me","bytes":1}  => reject malformed
		egress web {"act":"reserve","egress_id":"a","url":"https://docs.example.org/","by":"redirect","bytes":1,"x":1}  => reject malformed
		egress web {"act":"settle","egress_id":"a","bytes":-1}  => reject malformed
		egress web {"act":"settle","egress_id":"a","bytes":1}  => nothing
		` + reserving("a", "https://evil.example/", bcp.ByRedirect, 0, 1) + `  => reject not_permitted
		` + reserving("a", "https://docs.example.org:444/", bcp.ByRedirect, 0, 1) + `  => reject not_permitted
		` + reserving("a", "https://docs.example.org./", bcp.ByRedirect, 0, 1) + `  => reject not_permitted
		` + reserving("a", url, bcp.ByLink, 1000*int64(bcp.Bit)+1, 1) + `  => reject budget_exhausted
		` + reserving("a", url, bcp.ByLink, 1000*int64(bcp.Bit), 1) + `  => accept
		` + reserving("a", url, bcp.ByLink, 1000*int64(bcp.Bit), 1) + `  => nothing
		` + reserving("a", url, bcp.ByLink, 1000*int64(bcp.Bit), 2) + `  => reject malformed
		` + reserving("b", url, bcp.ByLink, int64(bcp.Bit), 1) + `  => reject budget_exhausted
		` + reserving("b", url, bcp.ByRedirect, 0, 4<<20) + `  => reject budget_exhausted
		` + reserving("b", url, bcp.ByRedirect, 0, 4<<20-1) + `  => accept
		` + reserving("c", "https://a.example.net/", bcp.ByRedirect, 0, 4<<20) + `  => accept
		` + reserving("d", "https://b.example.net/", bcp.ByRedirect, 0, 1) + `  => reject budget_exhausted
		egress web {"act":"settle","egress_id":"c","bytes":0}  => accept
		egress web {"act":"settle","egress_id":"c","bytes":0}  => nothing
		` + reserving("d", "https://b.example.net/", bcp.ByRedirect, 0, 4<<20) + `  => accept
		wait 62m
		` + reserving("e", url, bcp.ByLink, 1000*int64(bcp.Bit), 1) + `  => accept`)
}

// The first exhaustion of a window is an alert, and no other one.
//
// covers P13.3
func TestEgressAlertsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	alerts := 0
	for range 3 {
		for range 3 {
			d := w.play(reserving("a", "https://docs.example.org/", bcp.ByLink, 1001*int64(bcp.Bit), 1)).last
			if alert, ok := d.Alert(); ok {
				alerts++
				failIf(t, alert.Alert != bcp.AlertEgress || alert.Agent != "web", "%+v", alert)
			}
		}
		w.now = w.now.Add(2 * time.Hour)
	}
	expect(t, alerts, 3, "alerts in three windows")
}

// A keeper's refusals are counted apart: they silence the keeper and not its agent.
//
// covers P13.6, P4.7
func TestEgressRefusalsAreTheKeepers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	for range w.config.Mesh.MaxRefusals {
		w.play(`egress web {"act":"refuse","code":"host"}  => reject not_permitted`)
	}
	w.play(`egress web {"act":"refuse","code":"host"}  => nothing
		` + reserving("a", "https://docs.example.org/", bcp.ByRedirect, 0, 1) + `  => nothing
		answer web qnone {"ok":true}  => reject query_unknown
		wait 61s
		` + reserving("a", "https://docs.example.org/", bcp.ByRedirect, 0, 1) + `  => accept`)
}

// What a record, an alert and an explanation show has no word that the agent chose.
//
// covers P13.6, P2.5
func TestEgressShowsNoWordOfTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh())
	for _, line := range []string{
		reserving("qcanary", "https://qcanary.example.net/qcanary?q=qcanary", bcp.ByComposed, 0, 1),
		`egress web {"act":"settle","egress_id":"qcanary","bytes":7}`,
		reserving("b", "https://qcanary.example/", bcp.ByComposed, 0, 1),
		reserving("b", "https://qcanary.example.net/"+strings.Repeat("qcanary", 20), bcp.ByComposed, 0, 1),
		`egress web {"act":"refuse","code":"scheme","url":"qcanary://x"}`,
		`egress web {"act":"refuse","code":"qcanary"}`,
	} {
		d := w.play(line).last
		record := must(bcp.EncodeDecision(&d))
		alert, _ := d.Alert()
		shown := fmt.Sprintf("%s %+v %+v", record, alert, tell.Explain(&d, w.config.Mesh))
		failIf(t, strings.Contains(shown, "qcanary"), "%s shows %s", line, shown)
		failIf(t, d.Egress == nil || !d.Says(), "%s: nothing is sealed", line)
	}
}

// Whatever is erased, a journal replays, and what was sent to a host that nobody knows any
// more counts for every host.
//
// covers P13.6, P11.5
func TestErasedEgressCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, testMesh()).play(reserving("a", "https://docs.example.org/", bcp.ByRedirect, 0, 3<<20) + `  => accept
		` + reserving("b", "https://docs.example.org/", bcp.ByRedirect, 0, 1<<20) + `  => accept
		egress web {"act":"settle","egress_id":"b","bytes":1000}  => accept`)
	s := w.fresh()
	for _, record := range w.journal {
		d := must(decodeOpen(record))
		if len(d.Sealed) > 0 {
			d.Private = bcp.Private{Erased: true}
		}
		noError(t, s.Apply(&d, bcp.RecordDigest(record)))
	}
	for bytes, want := range map[int64]bcp.Outcome{1<<20 - 999: bcp.Reject, 1<<20 - 1000: bcp.Accept} {
		body := strings.TrimPrefix(reserving("c", "https://a.example.net/", bcp.ByRedirect, 0, bytes), "egress web ")
		d, recorded := s.DecideEgress(w.moment(), "web", []byte(body))
		failIf(t, d.Verdict != want || !recorded, "%d bytes: %+v", bytes, d)
	}
}

// A journal that says another sum than its records make is refused.
//
// covers P13.3, P4.5
func TestEgressSumsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*bcp.EgressChange){
		"bits":      func(c *bcp.EgressChange) { c.UsedBits-- },
		"bytes":     func(c *bcp.EgressChange) { c.UsedBytes-- },
		"the price": func(c *bcp.EgressChange) { c.Bits -= bcp.Bit },
		"the act":   func(c *bcp.EgressChange) { c.Act = bcp.EgressRefuse },
		"no open":   func(c *bcp.EgressChange) { c.Act = bcp.EgressSettle },
	} {
		w := newWorld(t, testMesh())
		d, recorded := w.state.DecideEgress(w.moment(), "web", []byte(`{"act":"reserve","egress_id":"a","url":"http://docs.example.org/","by":"composed","bytes":5}`))
		stopIf(t, !recorded || d.Verdict != bcp.Accept, "%+v", d)
		change(d.Egress)
		fails(t, w.state.Apply(&d, bcp.Digest{1}), nil, "%s: applied", name)
	}
}

// Whatever keepers say, in whatever order, no window has more than the limits; and a
// state that is replayed or restored decides the same.
//
// covers P13.3, P13.4, P4.5
func TestEgressNeverExceeds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, testMesh())
		e := w.config.Mesh.Agents[4].Egress
		type hop struct {
			at          int64
			host        string
			bits        bcp.Bits
			bytes, most int64
		}
		var hops []*hop
		open := map[string]*hop{}
		for i := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "wait")) * time.Minute)
			id := fmt.Sprint("e", rapid.IntRange(0, 3).Draw(rt, "id"))
			line := ""
			switch rapid.IntRange(0, 2).Draw(rt, "act") {
			case 0:
				line = fmt.Sprintf(`egress web {"act":"settle","egress_id":%q,"bytes":%d}`, id, rapid.Int64Range(0, 5<<20).Draw(rt, "settled"))
			default:
				host := rapid.SampledFrom([]string{"docs.example.org", "a.example.net", "evil.example"}).Draw(rt, "host")
				line = reserving(id, "https://"+host+"/", rapid.SampledFrom([]bcp.EgressBy{bcp.ByComposed, bcp.ByLink, bcp.ByRedirect}).Draw(rt, "by"), rapid.Int64Range(1, 700).Draw(rt, "bits")*int64(bcp.Bit), rapid.Int64Range(1, 5<<20).Draw(rt, "bytes"))
			}
			before := len(w.journal)
			w.act(line)
			if d := w.last; len(w.journal) > before && d.Verdict == bcp.Accept {
				switch d.Egress.Act {
				case bcp.EgressReserve:
					_, host, err := openEgress(&d)
					noError(rt, err)
					open[id] = &hop{at: d.Time, host: host, bits: d.Egress.Bits, bytes: d.Egress.Bytes, most: d.Egress.Bytes}
					hops = append(hops, open[id])
				case bcp.EgressSettle:
					open[id].bytes = d.Egress.Bytes
				}
			}
			var bits bcp.Bits
			var reserved int64
			for _, h := range hops {
				if h.at > w.now.Add(-e.Window).UnixNano() {
					bits += h.bits
					reserved += min(h.bytes, h.most)
				}
			}
			stopIf(rt, bits > e.Budget || reserved > e.MaxBytes, "step %d: %v bits, %d bytes", i, bits, reserved)
		}
		uses, pool := NewEgressUses(w.config.Mesh, w.now), w.state.agents["web"].egress.pool.Use(w.now)
		for _, record := range w.journal {
			d := must(bcp.DecodeDecision(record))
			uses.Add(&d)
		}
		for _, use := range uses.List() {
			stopIf(rt, use.Agent == "web" && (use.Bits != bcp.Bits(pool.Bits) || use.Bytes != pool.Bytes || use.ReservedBytes != pool.ReservedBytes),
				"the audit shows %+v of %+v", use, pool)
		}
		w.play("")
	})
}

// Whatever a keeper says: no panic, and what is allowed is within the list and the limits.
//
// covers P13.1, P13.2, P13.3
func FuzzEgress(f *testing.F) {
	for _, s := range []string{reserving("a", "https://docs.example.org/x?y#z", bcp.ByComposed, 0, 1000), reserving("b", "https://a.example.net:443/", bcp.ByLink, int64(bcp.Bit), 1),
		reserving("c", "http://docs.example.org/", bcp.ByRedirect, 0, 1<<40), `{"act":"settle","egress_id":"open","bytes":-1}`, `{"act":"settle","egress_id":"open","bytes":9223372036854775807}`,
		`{"act":"refuse","code":"host","url":"x"}`, `{"act":"reserve","egress_id":"open","url":"https://docs.example.org/","by":"composed","bytes":1000}`, `{}`, ``} {
		_, body, _ := strings.Cut(s, " web ")
		f.Add([]byte(cmp.Or(body, s)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newWorld(t, testMesh())
		w.play(reserving("open", "https://docs.example.org/", bcp.ByComposed, 0, 1000))
		before := w.state.agents["web"].egress.pool.Use(w.now)
		d, recorded := w.state.DecideEgress(w.moment(), "web", body)
		if !recorded {
			return
		}
		w.follows(d)
		after, limits := w.state.agents["web"].egress.pool.Use(w.now), w.config.Mesh.Agents[4].Egress
		switch {
		case after.Bits < before.Bits || bcp.Bits(after.Bits) > limits.Budget:
			t.Fatalf("%q: %v bits after %v", body, after.Bits, before.Bits)
		case d.Verdict != bcp.Accept && (d.Egress.Why == "" || after.Bits != before.Bits):
			t.Fatalf("%q: %+v", body, d)
		case d.Verdict == bcp.Accept && d.Egress.Act == bcp.EgressReserve && (!slices.Contains(limits.Hosts, d.Egress.Entry) || after.Bytes+after.ReservedBytes > limits.MaxBytes):
			t.Fatalf("%q: %+v", body, d.Egress)
		}
	})
}
