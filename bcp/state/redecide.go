package state

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Redecider judges recorded messages again, under its own definitions and
// version (PROTOCOL P11.3). History stays what it was: each message is judged on
// the state that the recorded decisions before it left, so what was charged is
// charged and what was asked is asked, whatever the definitions would have made
// of it. Decisions of time and of people are not made again; what a person wrote
// in place of an answer is.
//
// A Redecider is owned by one goroutine.
type Redecider struct {
	state *State
	asks  map[bcp.QueryID]redecidedAsk // those that are not simply the state's
	// What was erased and others may depend on: the time of a channel's newest
	// decision, the session of a Controller's newest delivery.
	channels map[bcp.ChannelKey]int64
	sessions map[bcp.AgentName]bcp.SessionID
}

// redecidedAsk is an accepted ask that the definitions refuse, or price
// otherwise, or whose spec was erased.
type redecidedAsk struct {
	seq       uint64
	refused   bool
	erased    bool
	validator *bcp.Validator // of today, where only the price is another
	cancelled bool           // by its session's end
}

// NewRedecider returns one that begins with the first decision of a journal. It
// fails as [New] does.
func NewRedecider(c Config) (*Redecider, error) {
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	return newRedecider(s), nil
}

func newRedecider(s *State) *Redecider {
	return &Redecider{state: s, asks: make(map[bcp.QueryID]redecidedAsk), channels: make(map[bcp.ChannelKey]int64), sessions: make(map[bcp.AgentName]bcp.SessionID)}
}

// Context is the digest of what the Redecider decides by; a decision that bears
// it was made by the same.
func (r *Redecider) Context() bcp.Digest { return r.state.context }

// Recorded is a decision of the journal and what is known of its message.
type Recorded struct {
	Record   []byte // as EncodeDecision wrote it
	Decision bcp.Decision
	Message  []byte // the first [bcp.MaxRawBytes] of it
	Gone     bool   // the message was erased, or kept for as long as it had to be
}

// Comparison says how a decision compares with the one of today, in the word that tools use.
type Comparison string

// The comparisons. The zero value is of decisions that are not made again.
const (
	ComparedSame    Comparison = "same"
	ComparedDiffers Comparison = "differs"
	ComparedFollows Comparison = "follows" // it is about something that would not be there
	ComparedErased  Comparison = "erased"  // the message, or what it depends on, was erased or has expired
	ComparedCut     Comparison = "cut"     // the message is longer than what is kept of it
)

// Aspect is what differs.
type Aspect string

// The aspects, in the order in which they are looked at: the first that differs
// is the one that is told.
const (
	AspectVerdict Aspect = "verdict" // also its code, reason, field, anomalies, and whether the query ends
	AspectValue   Aspect = "value"   // the normalised answer
	AspectCharge  Aspect = "charge"
	AspectRecord  Aspect = "record" // anything else, where definitions and version are the same
)

// Redecision compares a decision with the one of today.
type Redecision struct {
	Comparison Comparison
	// Aspect, Rule (its number in bcp/PROTOCOL.md), Was and Would are set where
	// it differs.
	Aspect     Aspect
	Rule       string
	Was, Would *bcp.Decision
	// Incident says that the same definitions and version decided something else:
	// the record was changed, or the gateway did not decide by it.
	Incident bool
	// Ask is the decision that a follower follows from, 0 where it is not known.
	Ask uint64
}

// Next takes the next decision of the journal. Where judge is false it is only
// history, and the result is the zero one. The error is [ErrReplay], and the
// Redecider must be thrown away.
func (r *Redecider) Next(rec *Recorded, judge bool) (Redecision, error) {
	d := &rec.Decision
	var result Redecision
	// What follows from an ask needs to know of it.
	if (judge || d.Kind == bcp.KindAsk) && isRedecided(d) {
		result = r.judge(rec)
	}
	if err := r.state.Apply(d, bcp.RecordDigest(rec.Record)); err != nil {
		return Redecision{}, err
	}
	if d.Kind == bcp.KindAsk && d.Accepted() && !d.Repeat {
		r.asked(d, result.Comparison == ComparedDiffers && result.Would.Verdict == bcp.Reject)
	}
	if d.SessionEnds {
		r.cancelled(d)
	}
	if d.Erased {
		if key, ok := d.Channel(); ok {
			r.channels[key] = d.Time
		}
		if d.Delivery != "" && d.Outcome == "" {
			r.sessions[d.Controller] = d.Session
		}
	}
	if !judge {
		return Redecision{}, nil
	}
	return result, nil
}

// isRedecided reports whether the decision is made again.
func isRedecided(d *bcp.Decision) bool {
	switch d.Kind {
	case bcp.KindAsk, bcp.KindAnswer, bcp.KindPush:
		return true
	case bcp.KindEgress:
		return d.Egress != nil && d.Egress.Act == bcp.EgressReserve
	case bcp.KindUsage:
		return d.Usage != nil && d.Usage.Act == bcp.UsageReserve
	case bcp.KindSession, bcp.KindTaint: // not the operator's
		return d.Role == bcp.RoleController
	case bcp.KindApproval:
		return d.Event == string(bcp.EditItem) && d.Verdict == bcp.Accept
	}
	return false
}

// asked keeps what a gateway that reads the journal does not: it cancels a query
// that it would not ask, or not at this price.
func (r *Redecider) asked(d *bcp.Decision, refused bool) {
	q := r.state.queries[d.Query]
	ask := redecidedAsk{seq: d.Seq, refused: refused || q == nil || r.state.channels[q.channel] == nil, erased: d.Erased}
	if !ask.refused && q.validator == nil && !d.Erased && !d.Unfunded {
		r.compile(&ask, q)
	}
	if !ask.refused && !ask.erased && ask.validator == nil {
		return
	}
	if len(r.asks) > 2*len(r.state.queries)+maxCompiled {
		maps.DeleteFunc(r.asks, func(id bcp.QueryID, _ redecidedAsk) bool { return r.state.queries[id] == nil })
	}
	r.asks[d.Query] = ask
}

// compile finds out what a query that is void is asked by, whatever it costs.
func (r *Redecider) compile(ask *redecidedAsk, q *queryState) {
	var spec bcp.Spec
	err, ch := json.Unmarshal(q.spec, &spec, json.RejectUnknownMembers(true)), r.state.channels[q.channel]
	if err == nil && ch != nil {
		ask.validator, _, err = r.state.validator(ch, spec)
	}
	ask.refused = err != nil || ask.validator == nil
}

// cancelled marks the queries of a session that its Controller closed.
func (r *Redecider) cancelled(d *bcp.Decision) {
	for id, ask := range r.asks {
		if q := r.state.queries[id]; q != nil && q.channel.Controller == d.Controller && q.session == d.Session && q.reserves() {
			ask.cancelled = true
			r.asks[id] = ask
		}
	}
}

func (r *Redecider) judge(rec *Recorded) Redecision {
	d := &rec.Decision
	ask, known := r.asks[d.Query]
	if known && (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindApproval) {
		// What was decided under these definitions was decided about what they made
		// of the ask.
		same := d.Context == r.state.context
		switch q := r.state.queries[d.Query]; {
		case ask.refused && !same:
			return Redecision{Comparison: ComparedFollows, Ask: ask.seq}
		case ask.erased && q != nil:
			return Redecision{Comparison: ComparedErased}
		case ask.validator != nil && q != nil && !same:
			before := *q
			defer func() { *q = before }()
			q.validator, q.prices, q.cancelled = ask.validator, ask.validator.Prices(), ask.cancelled
		}
	}
	if rec.Gone || d.Erased {
		return Redecision{Comparison: ComparedErased}
	}
	would, not := r.decide(rec)
	if not != "" {
		return Redecision{Comparison: not}
	}
	return r.compare(rec, &would)
}

// decide makes the decision of today, or says why there can be none.
func (r *Redecider) decide(rec *Recorded) (would bcp.Decision, not Comparison) {
	s, d, body := r.state, &rec.Decision, rec.Message
	cut := d.RawBytes > len(body)
	if cut { // of its end only the size is known, and more is too large for anything
		size := min(d.RawBytes, max(bcp.MaxControllerMessage, s.mesh.MaxAnswerBytes())+1)
		body = append(bytes.Clone(body), make([]byte, size-len(body))...)
	}
	m := recordedMoment(d)
	switch {
	case d.Kind == bcp.KindApproval:
		return r.edit(d, body)
	case s.agents[d.Agent] == nil:
		would, _ = s.fromAgent(m, d.Kind, d.Agent, d.Role, nil)
		would.Controller, would.Reader, cut = d.Controller, d.Reader, false
		would = refuse(would, bcp.CheckChannel, bcp.NoChannel)
	case d.Kind == bcp.KindAsk:
		would = s.DecideAsk(m, d.Controller, d.Reader, body)
	case d.Kind == bcp.KindPush:
		would = s.DecidePush(m, d.Reader, d.Controller, d.Subscription, body)
	case d.Kind == bcp.KindEgress:
		would, _ = s.DecideEgress(m, d.Agent, body)
	case d.Kind == bcp.KindUsage:
		would, _ = s.DecideUsage(m, d.Agent, body)
	case d.Kind == bcp.KindAnswer:
		would = s.DecideAnswer(m, d.Agent, d.Query, s.recordedAttempt(d), body)
	default:
		would = s.DecideSession(m, d.Agent, body)
	}
	if cut && would.Code != bcp.MessageTooLarge && would.Code != bcp.RateLimited {
		return bcp.Decision{}, ComparedCut
	}
	would.RawBytes = d.RawBytes
	if cut || d.Salt == [16]byte{} { // an empty message is not sealed, nor is its salt
		would.RawCommitment = d.RawCommitment
	}
	if r.explained(d, &would) {
		return bcp.Decision{}, ComparedErased
	}
	return would, ""
}

// recordedMoment is what the decision took from the world.
func recordedMoment(d *bcp.Decision) bcp.Moment {
	m := bcp.Moment{Now: time.Unix(0, d.Time), Salt: d.Salt}
	for _, id := range [...]struct {
		id    string
		fresh bool
	}{
		{string(d.Delivery), true}, {string(d.Item), true}, {string(d.Query), d.Kind == bcp.KindAsk && !d.Repeat}, {string(d.Session), d.SessionBegins || d.Code == bcp.EscalationLimitReached},
	} {
		if id.fresh && id.id != "" {
			m.Fresh = id.id[1:]
			break
		}
	}
	return m
}

// recordedAttempt is the sending of a query that an answer was to, as far as the record
// tells: a refusal says whether it used up a retry.
func (s *State) recordedAttempt(d *bcp.Decision) int {
	q := s.queries[d.Query]
	if q == nil {
		return 0
	}
	if d.Verdict == bcp.Reject && d.Delivery == "" && d.Attempt == q.attempt {
		return q.attempt - 1
	}
	return q.attempt
}

// edit judges what a person wrote in place of an answer. What was charged for the
// item, and who may decide it, is not looked at.
func (r *Redecider) edit(d *bcp.Decision, body []byte) (would bcp.Decision, not Comparison) {
	it := r.state.findItem(d.Item)
	if it == nil || r.state.itemValidator(it) == nil {
		return bcp.Decision{}, ComparedFollows
	}
	would = *d
	a, code := bcp.ParseApproval(body)
	verdict := r.state.judgeEdit(it, a)
	if code != "" || verdict.Answer.IsZero() {
		would.Reason, would.Field, would.Delivery, would.Payload = verdict.Reason, verdict.Field, "", nil
		would.Nominal, would.Capacity, would.Timing = 0, 0, false
		return refuse(would, bcp.CheckAnswer, bcp.Malformed), ""
	}
	would.Payload = verdict.Answer.JSON()
	return would, ""
}

// explained reports whether a difference may come from what was erased since: the
// first use of an id, words that a justification quoted, deliveries that waited.
func (r *Redecider) explained(d, would *bcp.Decision) bool {
	key, _ := d.Channel()
	erased, any := r.channels[key]
	switch {
	case d.Repeat && !would.Repeat, d.Client != "" && d.Code == bcp.Malformed && would.Code != bcp.Malformed:
		return any && d.Time-erased < clientMemory
	case d.Endorsed != nil && would.Endorsed == nil:
		return r.state.endorsed[key].find(d.Endorsed.ID) != nil && !r.state.KnowsEndorsement(key, d.Endorsed.ID)
	case d.Code == bcp.EscalationRequired && would.Code != bcp.EscalationRequired:
		session := r.sessions[d.Controller]
		return session != "" && r.state.agents[d.Controller].session.id == session
	case d.Code != would.Code && would.Code == bcp.UnknownHandle: // what was sealed is gone with its channel's day
		return len(r.channels) > 0
	case d.Code != would.Code && (d.Code == bcp.Unavailable || d.Code == bcp.ControllerUnavailable):
		return any
	}
	return false
}

func (r *Redecider) compare(rec *Recorded, would *bcp.Decision) Redecision {
	d := &rec.Decision
	result := Redecision{Comparison: ComparedSame, Incident: d.Context == r.state.context}
	switch {
	case d.Verdict != would.Verdict || d.Code != would.Code || d.Reason != would.Reason || d.FieldName() != would.FieldName() || d.Outcome != would.Outcome ||
		d.Flagged != would.Flagged || !slices.Equal(d.Anomalies, would.Anomalies):
		result.Aspect = AspectVerdict
	case !bytes.Equal(d.Payload, would.Payload) || !slices.Equal(d.Enclosed, would.Enclosed):
		result.Aspect = AspectValue
	case d.Nominal != would.Nominal || d.Capacity != would.Capacity || d.Timing != would.Timing:
		result.Aspect = AspectCharge
	case result.Incident && !recordedAs(would, rec):
		result.Aspect = AspectRecord
	default:
		return Redecision{Comparison: ComparedSame}
	}
	result.Comparison, result.Was, result.Would = ComparedDiffers, d, would
	result.Rule = refusingRule(result.Aspect, d, would)
	return result
}

// recordedAs reports whether the decision would be the same record.
func recordedAs(d *bcp.Decision, rec *Recorded) bool {
	was := &rec.Decision
	if d.Client != was.Client || d.ClientDigest != was.ClientDigest || !bytes.Equal(d.Spec, was.Spec) {
		return false
	}
	if len(d.Payload) > 0 {
		d.PayloadCommitment = d.Commit(d.Payload)
	}
	d.Sealed, d.SealedRaw = was.Sealed, was.SealedRaw
	if was.BudgetWindow == 0 { // of a program that did not say it
		d.BudgetWindow = 0
	}
	b, err := bcp.EncodeDecision(d)
	return err == nil && bytes.Equal(b, rec.Record)
}

// refusingRule is the number of the rule that makes the difference: the one that
// refuses, today or then.
func refusingRule(aspect Aspect, was, would *bcp.Decision) string {
	switch {
	case aspect == AspectValue:
		return "P3.4"
	case aspect == AspectCharge:
		return "P4.1"
	case aspect == AspectRecord:
		return "P11.3"
	case would.Verdict == bcp.Reject && (was.Verdict != bcp.Reject || was.Code != would.Code || was.Reason != would.Reason || was.FieldName() != would.FieldName()):
		return would.DecidedBy()
	case was.Verdict == bcp.Reject && would.Verdict != bcp.Reject:
		return was.DecidedBy()
	case was.Endorsed != nil || would.Endorsed != nil:
		return "P7.8"
	case was.Outcome == bcp.NotEnoughInformation || would.Outcome == bcp.NotEnoughInformation:
		return "P3.9"
	case was.Outcome != would.Outcome:
		return "P3.10"
	}
	rule := "P3.6"
	for _, code := range [][2]string{{"inconsistent", "P3.7"}, {"divergent", "P3.8"}} {
		if slices.Contains(was.Anomalies, code[0]) != slices.Contains(would.Anomalies, code[0]) {
			rule = code[1]
		}
	}
	return rule
}

// NewRedeciderBehind returns one that begins with the first decision of a
// truncated journal, after the checkpoint of its base. What is in front is
// history that the base stands for, as it does for a gateway.
func NewRedeciderBehind(c Config, base []byte) (*Redecider, error) {
	s, err := Restore(c, base)
	if err != nil {
		return nil, err
	}
	r := newRedecider(s)
	// A gateway cancels the queries that it would not ask, or not at this price;
	// here their answers are judged all the same, unless their session had ended.
	for id, q := range s.open {
		if q.validator != nil || q.unfunded {
			continue
		}
		ask := redecidedAsk{seq: q.accepted, cancelled: q.cancelled}
		r.compile(&ask, q)
		r.asks[id] = ask
	}
	return r, nil
}
