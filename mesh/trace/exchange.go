package trace

import (
	"container/list"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// exchange is a query or a push with its results so far, or a message without
// an exchange.
type exchange struct {
	name  string
	trace TraceID
	root  SpanID

	channel      bcp.ChannelKey // zero if not in the definitions
	subscription bcp.SubscriptionID
	query        bcp.QueryID
	session      bcp.SessionID
	category     bcp.Category
	items        []bcp.ItemID

	begun, last int64
	continued   bool // it began before there was a projection
	ended       bool // only acknowledgements can follow
	outcome     string
	nominal     bcp.Bits
	capacity    bcp.Bits

	reading    wait // the query is with its Reader
	approving  wait // something waits for a person
	delivering []wait
	place      *list.Element // among the open ones
}

// wait is a span that has begun; the zero value is none.
type wait struct {
	part    part
	seq     uint64 // of the decision that begins it
	since   int64
	attempt int
	item    bcp.ItemID

	delivery bcp.DeliveryID
	outcome  string // of the delivery
	taint    string
}

var waitNames = map[part]string{partReader: "reader", partApproval: "approval", partDeliver: "deliver"}

// The outcomes of exchanges for which bcp has no code.
const (
	delivered = "delivered"
	refused   = "refused"
	repeated  = "repeated"
	gathered  = "gathered" // a push waits for the end of its window, which has its own trace
)

// advance applies a decision and returns the waits that end with it.
func (e *exchange) advance(f *Fact) (ended [2]wait) {
	if outcome := f.ends(); outcome != "" {
		e.ended, e.outcome, e.nominal, e.capacity = true, outcome, f.nominal, f.capacity
	}
	if f.repeat {
		return ended
	}
	read := func() {
		ended[0], e.reading = e.reading, wait{part: partReader, seq: f.seq, since: f.stored, attempt: f.attempt}
	}
	switch f.kind {
	case bcp.KindAsk:
		if f.verdict == bcp.Accept {
			read()
		}
	case bcp.KindAnswer:
		switch {
		case f.delivery != "" || f.verdict == bcp.Hold:
			ended[0], e.reading = e.reading, wait{}
		case f.attempt > e.reading.attempt: // an answer to an earlier sending leaves the newest with the Reader
			read()
		}
	case bcp.KindApproval:
		if f.verdict != bcp.Accept {
			break
		}
		ended[1], e.approving = e.approving, wait{}
		if f.query != "" && f.delivery == "" {
			read()
		}
	case bcp.KindExpire:
		ended[0], ended[1], e.reading, e.approving = e.reading, e.approving, wait{}, wait{}
	}
	if f.verdict == bcp.Hold {
		e.approving = wait{part: partApproval, seq: f.seq, since: f.stored, item: f.item}
	}
	if f.delivery != "" {
		w := wait{part: partDeliver, seq: f.seq, since: max(f.stored, f.release), delivery: f.delivery, outcome: deliveredOr(f.outcome)}
		if f.outcome == "" {
			w.taint = f.taint.String()
		}
		e.delivering = append(e.delivering, w)
	}
	return ended
}

// acknowledged removes a delivery, and returns its wait.
func (e *exchange) acknowledged(id bcp.DeliveryID) wait {
	i := slices.IndexFunc(e.delivering, func(w wait) bool { return w.delivery == id })
	w := e.delivering[i]
	e.delivering = slices.Delete(e.delivering, i, i+1)
	return w
}

// ends returns how the exchange ends with the decision, and nothing if it
// continues.
func (f *Fact) ends() string {
	switch {
	case f.repeat:
		return repeated
	case f.delivery != "" && f.outcome != bcp.Held:
		return deliveredOr(f.outcome)
	case f.delivery != "":
		return ""
	case f.verdict == bcp.Reject && (f.kind == bcp.KindAsk || f.kind == bcp.KindPush || !f.known()):
		return refused
	case f.query != "":
		return ""
	case f.kind == bcp.KindPush && f.verdict == bcp.Accept:
		return gathered
	case f.kind == bcp.KindApproval && f.verdict == bcp.Accept && f.event != string(bcp.RejectItem):
		return gathered
	case f.kind == bcp.KindApproval && f.verdict == bcp.Accept: // a held push, which has no receipt
		return string(bcp.ApprovalRejected)
	case f.kind == bcp.KindExpire:
		return string(bcp.ApprovalExpired)
	}
	return ""
}

func deliveredOr(outcome bcp.Code) string {
	if outcome == "" {
		return delivered
	}
	return codeWord(outcome)
}

// codeWord returns a code's word, if it is one of the protocol's.
func codeWord(code bcp.Code) string {
	if code == "" || code.Info().Code != code {
		return ""
	}
	return string(code)
}
