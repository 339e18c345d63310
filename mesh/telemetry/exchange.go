package telemetry

import (
	"container/list"
	"time"

	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// exchange is a query or a push with its results so far, or a message without
// an exchange.
type exchange struct {
	root  oteltrace.Span
	query bcp.QueryID
	items []bcp.ItemID

	begun, last int64
	ended       bool // only acknowledgements can follow

	reading    wait // the query is with its Reader
	approving  wait // something waits for a person
	delivering map[bcp.DeliveryID]wait
	place      *list.Element // among the open ones
}

// wait is a span that has begun; the zero value is none.
type wait struct {
	span    oteltrace.Span
	since   int64
	attempt int
}

// end ends a wait, with a mark.
func (e *exchange) end(w *wait, at int64, mark string) {
	if w.span == nil {
		return
	}
	at = max(at, w.since)
	e.last = max(e.last, at)
	if mark != "" {
		w.span.SetAttributes(attribute.Bool(mark, true))
	}
	w.span.End(oteltrace.WithTimestamp(time.Unix(0, at)))
	*w = wait{}
}

// The outcomes of exchanges for which bcp has no code.
const (
	refused  = "refused"
	repeated = "repeated"
	gathered = "gathered" // a push waits for the end of its window, which has its own trace
)

// known reports whether the gateway knew the subject of the message. Otherwise
// its ids are the sender's choice.
func known(d *bcp.Decision) bool { return d.Controller != "" }

// moves reports whether the decision continues an exchange: a late answer, or a
// refused act of a person, does not.
func moves(d *bcp.Decision) bool {
	return !d.Repeat && (d.Kind == bcp.KindExpire || d.Verdict == bcp.Accept || d.Verdict == bcp.Hold || d.Delivery != "" || d.Attempt > 0)
}

// ends returns how the exchange ends with the decision, and nothing if it
// continues.
func ends(d *bcp.Decision) string {
	switch {
	case d.Repeat:
		return repeated
	case d.Delivery != "" && d.Outcome != bcp.Held:
		return deliveredOr(d.Outcome)
	case d.Delivery != "":
		return ""
	case d.Verdict == bcp.Reject && (d.Kind == bcp.KindAsk || d.Kind == bcp.KindPush || !known(d)):
		return refused
	case d.Query != "":
		return ""
	case d.Kind == bcp.KindPush && d.Verdict == bcp.Accept:
		return gathered
	case d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept && d.Event != string(bcp.RejectItem):
		return gathered
	case d.Kind == bcp.KindApproval && d.Verdict == bcp.Accept: // a held push, which has no receipt
		return string(bcp.ApprovalRejected)
	case d.Kind == bcp.KindExpire:
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
