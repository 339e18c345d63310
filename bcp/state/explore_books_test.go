package state_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The promises that the search holds every world to. The last is about all of them
// together.
const (
	recordedFirst = "what is released is in the journal"
	withinBudget  = "what is settled and reserved is never above the budget"
	chargedOnce   = "the price is charged, and once"
	oneOutcome    = "a client id has one outcome"
	oneAnswer     = "a query has one answer and one delivery"
	replays       = "the journal replays to the state that its gateway has"
	staleIsMute   = "a gateway that another one followed writes nothing"
	decidedOnce   = "an item is decided once"
	comesToRest   = "from every state some way leads to rest"
)

var promises = []string{recordedFirst, withinBudget, chargedOnce, oneOutcome, oneAnswer, replays, staleIsMute, decidedOnce, comesToRest}

// breach is a promise that was broken, and how.
type breach struct{ promise, how string }

type delivery struct {
	id, query, outcome string
	digest             [sha256.Size]byte
}

// books are what an auditor makes of a journal, record by record. They share no
// code with the state: they add up what the decisions say.
type books struct {
	writer            string // of the newest start
	settled, reserved bcp.Bits
	queries           []booked
	outcomes          [2][2]string // of requests and of pushes: the first
	items             []bookedItem
	breaches          []breach
}

// booked is an accepted request.
type booked struct {
	id      string
	request int
	nominal bcp.Bits
	open    bool // it reserves
	ended   bool
	finals  int // deliveries that end it
}

type bookedItem struct {
	id      string
	decided int
}

func (b *books) broken(promise, format string, args ...any) {
	b.breaches = append(b.breaches, breach{promise, fmt.Sprintf(format, args...)})
}

// requestOf is the number of the request that a query is of.
func (b *books) requestOf(query string) int {
	if q := b.query(query); q != nil {
		return q.request
	}
	return 0
}

func (b *books) query(id string) *booked {
	i := slices.IndexFunc(b.queries, func(q booked) bool { return q.id == id })
	if i < 0 {
		return nil
	}
	return &b.queries[i]
}

func (b *books) item(id string) *bookedItem {
	i := slices.IndexFunc(b.items, func(it bookedItem) bool { return it.id == id })
	if i < 0 {
		return nil
	}
	return &b.items[i]
}

// after is the books with one record more.
func (b *books) after(r *record) books {
	n := *b
	n.queries, n.items, n.breaches = slices.Clone(b.queries), slices.Clone(b.items), slices.Clip(b.breaches)
	for i, bytes := range r.decisions {
		d, err := open(bytes)
		if err != nil {
			n.broken(replays, "%v", err)
			return n
		}
		n.add(&d, r.said[i], r.writer)
	}
	if n.settled+n.reserved > budget {
		n.broken(withinBudget, "%s bits are settled and %s reserved, of %s", n.settled, n.reserved, bcp.Bits(budget))
	}
	return n
}

func (b *books) add(d *bcp.Decision, said message, writer string) {
	if d.Kind == bcp.KindStart {
		b.writer = writer
	}
	if writer != b.writer {
		b.broken(staleIsMute, "a record of %s comes after %s", startOf(writer), startOf(b.writer))
	}
	switch d.Kind {
	case bcp.KindAsk, bcp.KindPush:
		b.addRequest(d, said)
	case bcp.KindAnswer, bcp.KindExpire, bcp.KindApproval:
		b.addEnd(d)
	}
	b.compare(d)
}

// compare holds what a decision says of its epoch against the sums. A repeat and a
// refusal say nothing of today.
func (b *books) compare(d *bcp.Decision) {
	_, ok := d.Channel()
	if !ok || d.Epoch != 1 || d.Repeat || d.Verdict == bcp.Reject && d.Delivery == "" {
		return
	}
	if d.Balance.Settled != b.settled || d.Balance.Reserved != b.reserved {
		b.broken(chargedOnce, "decision %d says that %s bits are settled and %s reserved: they are %s and %s",
			d.Seq, d.Balance.Settled, d.Balance.Reserved, b.settled, b.reserved)
	}
}

func (b *books) addRequest(d *bcp.Decision, said message) {
	of, outcome := &b.outcomes[said.kind-ask][said.n], outcomeOf(d)
	if *of == "" {
		*of = outcome
	}
	if d.Repeat {
		if *of != outcome {
			b.broken(oneOutcome, "%s was %s and is %s", said, *of, outcome)
		}
		return
	}
	if *of != outcome {
		b.broken(oneOutcome, "%s was decided twice: %s, and %s", said, *of, outcome)
	}
	price := prices[said.kind-ask][said.n]
	if d.Verdict == bcp.Accept && d.Nominal != price {
		b.broken(chargedOnce, "%s costs %s bits, and %s are charged", said, price, d.Nominal)
	}
	switch {
	case d.Verdict != bcp.Accept:
	case d.Kind == bcp.KindPush:
		b.settled += d.Nominal
	default:
		b.reserved += d.Nominal
		b.queries = append(b.queries, booked{id: string(d.Query), request: int(said.n), nominal: d.Nominal, open: true})
	}
}

// addEnd is an answer, or what came of it.
func (b *books) addEnd(d *bcp.Decision) {
	if d.Kind == bcp.KindApproval && d.Verdict != bcp.Accept || d.Kind == bcp.KindAnswer && d.Verdict == bcp.Reject && d.Delivery == "" {
		return
	}
	if d.Kind != bcp.KindAnswer && d.Item != "" {
		if it := b.item(string(d.Item)); it == nil {
			b.broken(decidedOnce, "item %s was never held", d.Item)
		} else if it.decided++; it.decided > 1 {
			b.broken(decidedOnce, "item %s was decided %d times", d.Item, it.decided)
		}
	}
	q := b.query(string(d.Query))
	if q == nil {
		b.broken(oneAnswer, "query %s was never accepted", d.Query)
		return
	}
	if q.ended {
		b.broken(oneAnswer, "query %s had ended, and %s is recorded of it", d.Query, d.Kind)
	}
	if q.open {
		price := q.nominal
		if d.Kind == bcp.KindExpire { // a failure costs 1 bit
			price = bcp.Bit
		}
		if d.Nominal != price {
			b.broken(chargedOnce, "the end of query %s costs %s bits, and %s are charged", q.id, price, d.Nominal)
		}
		q.open = false
		b.reserved -= q.nominal
		b.settled += d.Nominal
	} else if d.Kind == bcp.KindAnswer {
		b.broken(oneAnswer, "query %s was answered before", d.Query)
	}
	if d.Kind == bcp.KindAnswer && d.Verdict == bcp.Hold {
		b.items = append(b.items, bookedItem{id: string(d.Item)})
		return
	}
	q.ended = true
	if d.Delivery != "" {
		if q.finals++; q.finals > 1 {
			b.broken(oneAnswer, "query %s has %d deliveries", d.Query, q.finals)
		}
	}
}

// startOf names what a writer began with.
func startOf(writer string) string {
	if writer == "" {
		return "nobody"
	}
	return "the start of gateway " + strings.ToUpper(writer[:1]) + " that is decision " + strings.TrimLeft(writer[1:], "0")
}

func digest(b []byte) bcp.Digest { return sha256.Sum256(b) }
