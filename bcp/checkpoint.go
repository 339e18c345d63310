package bcp

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/vmihailenco/msgpack/v5"
)

//lint:file-ignore U1000 the fields _msgpack tell the library to write arrays

// A checkpoint is everything that a State remembers, as bytes: with it a start
// reads the end of the journal instead of all of it. It is a memo of the journal
// and never the truth. [Restore] makes of it exactly the state that the whole
// journal would make, or refuses it: then the journal is read.

// checkpointVersion stands in front. Another version is refused: the journal is
// read once, and a new checkpoint made.
const checkpointVersion = 1

// maxCheckpointDepth is that of an anomaly of a delivery of a channel.
const maxCheckpointDepth = 8

var (
	// ErrCheckpoint says that the bytes are no checkpoint of this version, or
	// contradict themselves.
	ErrCheckpoint = errors.New("the checkpoint cannot be used")
	// ErrDefinitions says that a checkpoint was made under definitions that read
	// the journal otherwise than those of today.
	ErrDefinitions = errors.New("the checkpoint was made under definitions that read the journal otherwise")
)

// The saved forms are MessagePack arrays. Their order is part of the format:
// whoever changes it changes checkpointVersion.
type (
	savedState struct {
		_msgpack struct{} `msgpack:",as_array"`

		Version         int
		Mesh            Digest
		Last            []byte // as EncodeDecision wrote it
		Head            Digest
		Origin          int64
		Keys            []savedKey // channels, by which the rest names them
		Agents          []savedAgent
		Channels        []savedChannel
		Open            []savedQuery // by acceptance
		Ended           []savedQuery // as they ended
		Items           []savedItem
		Firsts          []savedFirst // oldest first
		Decided         []savedDecided
		Deadlines       []savedTimer
		Alerts          []savedAlert
		Crons           []savedCron
		ForeignAgents   []AgentName
		ForeignChannels []int
	}
	savedKey struct {
		_msgpack struct{} `msgpack:",as_array"`

		Controller, Reader AgentName
	}
	savedAgent struct {
		_msgpack struct{} `msgpack:",as_array"`

		Name               AgentName
		Mark               Digest
		Reported, Exposure Taint
		Renewals           uint64
		RefusedIn          int64
		Refused            int
		Unavailable        bool
		Sources            []string
		Notices            []savedNotice
		Session            savedSession
	}
	savedSession struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                        SessionID
		Begun, ByDelivery, Closed bool
		Since, Touched            int64
		Provoked                  bool
		ProvokedEnd               int64
		Exposure                  Taint
		Quotes                    []byte // 16 bytes each, sorted
		Releases                  []savedRelease
	}
	savedRelease struct {
		_msgpack struct{} `msgpack:",as_array"`

		Reader       AgentName
		Query        QueryID
		Subscription SubscriptionID
		Category     Category
		Outcome      Code
		Content      []byte
		Nominal      Bits
		Time         int64
	}
	savedNotice struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID       DeliveryID
		Role     Role
		Peer     AgentName
		Schedule string
		Prompt   bool
		Message  []byte // JSON
		Time     int64  // of a prompt
	}
	savedChannel struct {
		_msgpack struct{} `msgpack:",as_array"`

		Key                int
		Mark               Digest
		Epoch              uint64
		Started            int64
		Renewal            uint64
		Pools              []savedPool
		Window             []int64 // begin and sum in turn
		Alerted, Exhausted uint64
		Spender            SessionID
		Spent              Bits
		SpentAlerted       bool
		Past               []Bits
		Released, Before   int64
		Session            SessionID
		Escalations        int
		Armed, Arming      int
		ArmingAt           int64
		Failed             bool
		Pending            int
		Outbox             []savedOutgoing
	}
	savedPool struct {
		_msgpack struct{} `msgpack:",as_array"`

		Epoch      uint64
		Balance    Balance
		Open, Held int
		Shown      Bits
		ShownAt    int64
	}
	savedOutgoing struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                DeliveryID
		Query             QueryID
		Subscription      SubscriptionID
		Category          Category
		Response          []byte
		Outcome           Code
		Anomalies         []string
		Nominal, Capacity Bits
		Taint             Taint
		Seq               uint64
		Release           int64
		Order             uint64
	}
	savedQuery struct { // see fields
		ID                QueryID
		Key               int
		Session           SessionID
		Epoch             uint64
		Category          Category
		Spec              []byte
		Asked             bool // its spec compiles
		MaxBytes          int
		Nominal, Capacity Bits
		Accepted          uint64
		Deadline          int64
		Attempt           int
		Phase             uint8
		Sent              bool
		Item              ItemID
		Cancelled         bool
		EndedAt           int64
		Heard             Code
		Others            int
	}
	savedItem struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                ItemID
		Kind              ItemKind
		Key               int
		Query             QueryID
		Subscription      SubscriptionID
		Category          Category
		Anomalies         []string
		Taint             Taint
		Nominal, Capacity Bits
		Since, Deadline   int64
		Counted           bool
		Content           []byte
		Justification     string
		Client            ClientID
	}
	savedFirst struct { // see fields
		Role              Role
		Key               int
		ID                ClientID
		Digest            Digest
		Time              int64
		Verdict           Outcome
		Code              Code
		Reason            Reason
		Field             string
		Query             QueryID
		Category          Category
		Nominal, Capacity Bits
		Epoch             uint64
		Balance           []byte // six numbers, empty for none: there are many of these
		Repeats           int
	}
	savedDecided struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID   ItemID
		At   int64
		Code Code
	}
	savedTimer struct {
		_msgpack struct{} `msgpack:",as_array"`

		At    int64
		Query QueryID
		Item  ItemID
		Cron  int
	}
	savedAlert struct {
		_msgpack struct{} `msgpack:",as_array"`

		Key   int
		Kind  AlertKind
		Epoch uint64
	}
	savedCron struct {
		_msgpack struct{} `msgpack:",as_array"`

		Last, Due int64
	}
)

// A checkpoint of a busy day has a million of the two below. For them reflection
// would be most of a start.

func (q *savedQuery) fields(c *coder) {
	letters(c, &q.ID)
	number(c, &q.Key)
	letters(c, &q.Session)
	number(c, &q.Epoch)
	number(c, &q.Category)
	c.bytes(&q.Spec)
	c.flag(&q.Asked)
	number(c, &q.MaxBytes)
	number(c, &q.Nominal)
	number(c, &q.Capacity)
	number(c, &q.Accepted)
	number(c, &q.Deadline)
	number(c, &q.Attempt)
	number(c, &q.Phase)
	c.flag(&q.Sent)
	letters(c, &q.Item)
	c.flag(&q.Cancelled)
	number(c, &q.EndedAt)
	letters(c, &q.Heard)
	number(c, &q.Others)
}

func (f *savedFirst) fields(c *coder) {
	number(c, &f.Role)
	number(c, &f.Key)
	letters(c, &f.ID)
	c.digest(&f.Digest)
	number(c, &f.Time)
	number(c, &f.Verdict)
	letters(c, &f.Code)
	number(c, &f.Reason)
	letters(c, &f.Field)
	letters(c, &f.Query)
	number(c, &f.Category)
	number(c, &f.Nominal)
	number(c, &f.Capacity)
	number(c, &f.Epoch)
	c.bytes(&f.Balance)
	number(c, &f.Repeats)
}

const (
	queryFields = 20
	firstFields = 16
)

// EncodeMsgpack writes the fields as a list.
func (q *savedQuery) EncodeMsgpack(e *msgpack.Encoder) error { return encodeFields(e, q, queryFields) }

// DecodeMsgpack reads them.
func (q *savedQuery) DecodeMsgpack(d *msgpack.Decoder) error { return decodeFields(d, q, queryFields) }

// EncodeMsgpack writes the fields as a list.
func (f *savedFirst) EncodeMsgpack(e *msgpack.Encoder) error { return encodeFields(e, f, firstFields) }

// DecodeMsgpack reads them.
func (f *savedFirst) DecodeMsgpack(d *msgpack.Decoder) error { return decodeFields(d, f, firstFields) }

// Checkpoint writes the state down: the same bytes for the same state.
func (s *State) Checkpoint() ([]byte, error) {
	last, err := EncodeDecision(&s.last)
	if err != nil {
		return nil, err
	}
	saved := savedState{Version: checkpointVersion, Mesh: s.marks.mesh, Last: last, Head: s.head, Origin: s.origin}
	keys := s.keys(&saved)
	for _, name := range slices.Sorted(maps.Keys(s.agents)) {
		a, err := saveAgent(name, s.agents[name])
		if err != nil {
			return nil, err
		}
		a.Mark = s.marks.agents[name]
		saved.Agents = append(saved.Agents, a)
	}
	for i, k := range saved.Keys {
		key := ChannelKey{Controller: k.Controller, Reader: k.Reader}
		if ch := s.channels[key]; ch != nil {
			c := saveChannel(ch)
			c.Key, c.Mark = i, s.marks.channels[key]
			saved.Channels = append(saved.Channels, c)
		}
		if s.foreign.channels[key] {
			saved.ForeignChannels = append(saved.ForeignChannels, i)
		}
	}
	saved.ForeignAgents = slices.Sorted(maps.Keys(s.foreign.agents))
	for id, q := range s.queries {
		if q.phase != phaseEnded {
			saved.Open = append(saved.Open, saveQuery(id, q, keys))
		}
	}
	slices.SortFunc(saved.Open, func(a, b savedQuery) int { return cmp.Compare(a.Accepted, b.Accepted) })
	saved.Ended = make([]savedQuery, 0, len(s.endings))
	for _, id := range s.endings {
		saved.Ended = append(saved.Ended, saveQuery(id, s.queries[id], keys))
	}
	for _, id := range slices.Sorted(maps.Keys(s.items)) {
		saved.Items = append(saved.Items, saveItem(s.items[id], keys))
	}
	saved.Firsts = make([]savedFirst, 0, len(s.aging))
	for _, key := range s.aging {
		saved.Firsts = append(saved.Firsts, saveFirst(key, s.firsts[key], keys))
	}
	for _, d := range s.decided {
		saved.Decided = append(saved.Decided, savedDecided{ID: d.id, At: d.at, Code: d.code})
	}
	for _, t := range s.deadline {
		saved.Deadlines = append(saved.Deadlines, savedTimer{At: t.at, Query: t.query, Item: t.item, Cron: t.cron})
	}
	slices.SortFunc(saved.Deadlines, func(a, b savedTimer) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Query, b.Query), cmp.Compare(a.Item, b.Item), cmp.Compare(a.Cron, b.Cron))
	})
	for _, a := range s.alerts {
		saved.Alerts = append(saved.Alerts, savedAlert{Key: keys[a.channel], Kind: a.kind, Epoch: a.epoch})
	}
	for i := range s.crons {
		saved.Crons = append(saved.Crons, savedCron{Last: s.crons[i].last, Due: s.crons[i].due})
	}
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(&saved); err != nil {
		return nil, fmt.Errorf("encoding a checkpoint: %w", err)
	}
	return buf.Bytes(), nil
}

// keys lists every channel that the state knows of, and returns their places.
func (s *State) keys(saved *savedState) map[ChannelKey]int {
	keys := make(map[ChannelKey]int)
	for key := range s.channels {
		keys[key] = 0
	}
	for key := range s.foreign.channels {
		keys[key] = 0
	}
	for _, key := range s.aging { // also of agents that the mesh does not have
		keys[key.channel] = 0
	}
	for i, key := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		keys[key] = i
		saved.Keys = append(saved.Keys, savedKey{Controller: key.Controller, Reader: key.Reader})
	}
	return keys
}

func compareKeys(a, b ChannelKey) int {
	return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
}

func saveAgent(name AgentName, a *agentState) (savedAgent, error) {
	session := &a.session
	saved := savedAgent{
		Name: name, Reported: a.reported, Exposure: a.exposure, Renewals: a.renewals, RefusedIn: a.refusals.minute, Refused: a.refusals.count,
		Unavailable: a.unavailable, Sources: a.sources,
		Session: savedSession{
			ID: session.id, Begun: session.begun, ByDelivery: session.byDelivery, Closed: session.closed, Since: session.since, Touched: session.touched,
			Provoked: session.provoked, ProvokedEnd: session.provokedEnd, Exposure: session.exposure, Quotes: session.quotes.save(),
		},
	}
	for _, r := range session.releases {
		saved.Session.Releases = append(saved.Session.Releases, savedRelease{Reader: r.Reader, Query: r.Query, Subscription: r.Subscription,
			Category: r.Category, Outcome: r.Outcome, Content: r.Content, Nominal: r.Nominal, Time: r.Time.UnixNano()})
	}
	for _, n := range a.notices {
		notice := savedNotice{ID: n.ID, Role: n.Role, Peer: n.Peer, Schedule: n.schedule}
		message := n.Message
		if prompt, ok := message.(Prompt); ok {
			notice.Prompt, notice.Time = true, prompt.Time.UnixNano()
			prompt.Time = time.Time{}
			message = prompt
		}
		var err error
		if notice.Message, err = json.Marshal(message, json.Deterministic(true)); err != nil {
			return savedAgent{}, err
		}
		saved.Notices = append(saved.Notices, notice)
	}
	return saved, nil
}

// save writes each run and its release, sorted by run.
func (q quotations) save() []byte {
	b := make([]byte, 0, 16*len(q))
	for _, run := range slices.SortedFunc(maps.Keys(q), func(a, b [8]byte) int { return bytes.Compare(a[:], b[:]) }) {
		b = binary.BigEndian.AppendUint64(append(b, run[:]...), uint64(q[run]))
	}
	return b
}

func saveChannel(ch *channelState) savedChannel {
	c := savedChannel{
		Epoch: ch.epoch, Started: ch.started, Renewal: ch.renewal, Alerted: ch.alerted, Exhausted: ch.exhausted,
		Spender: ch.spending.session, Spent: ch.spending.spent, SpentAlerted: ch.spending.alerted, Past: ch.spending.past,
		Released: ch.released, Before: ch.before, Session: ch.session, Escalations: ch.escalations, Armed: ch.armed, Arming: ch.arming,
		ArmingAt: ch.armingAt, Failed: ch.failed, Pending: ch.pending,
	}
	for _, epoch := range slices.Sorted(maps.Keys(ch.pools)) {
		p := ch.pools[epoch]
		c.Pools = append(c.Pools, savedPool{Epoch: epoch, Balance: p.Balance, Open: p.open, Held: p.held, Shown: p.shown, ShownAt: p.shownAt})
	}
	for _, p := range ch.window.parts {
		c.Window = append(c.Window, p.begin, int64(p.sum))
	}
	for i := range ch.outbox {
		o := &ch.outbox[i]
		c.Outbox = append(c.Outbox, savedOutgoing{
			ID: o.DeliveryID, Query: o.QueryID, Subscription: o.SubscriptionID, Category: o.Category, Response: o.Response, Outcome: o.Outcome,
			Anomalies: o.Anomalies, Nominal: o.BandwidthBits, Capacity: o.CapacityBits, Taint: o.Taint, Seq: o.Seq, Release: o.Release.UnixNano(), Order: o.order,
		})
	}
	return c
}

func saveQuery(id QueryID, q *queryState, keys map[ChannelKey]int) savedQuery {
	return savedQuery{
		ID: id, Key: keys[q.channel], Session: q.session, Epoch: q.epoch, Category: q.category, Spec: q.spec, Asked: q.validator != nil,
		MaxBytes: q.maxBytes, Nominal: q.nominal, Capacity: q.capacity, Accepted: q.accepted, Deadline: q.deadline, Attempt: q.attempt,
		Phase: uint8(q.phase), Sent: q.sent, Item: q.item, Cancelled: q.cancelled, EndedAt: q.ended, Heard: q.heard, Others: q.others,
	}
}

func saveItem(it *itemState, keys map[ChannelKey]int) savedItem {
	return savedItem{
		ID: it.ID, Kind: it.Kind, Key: keys[it.channel()], Query: it.Query, Subscription: it.Subscription, Category: it.Category,
		Anomalies: it.Anomalies, Taint: it.Taint, Nominal: it.Nominal, Capacity: it.Capacity, Since: it.Since.UnixNano(), Deadline: it.deadline,
		Counted: it.counted, Content: it.content, Justification: it.justification, Client: it.client,
	}
}

func saveFirst(key clientKey, f first, keys map[ChannelKey]int) savedFirst {
	return savedFirst{
		Role: key.role, Key: keys[key.channel], ID: key.id, Digest: f.digest, Time: f.time, Verdict: f.verdict, Code: f.code, Reason: f.reason,
		Field: f.field, Query: f.query, Category: f.category, Nominal: f.nominal, Capacity: f.capacity, Epoch: f.epoch,
		Balance: f.balance.save(), Repeats: f.repeats,
	}
}

// save writes the six numbers of a balance, and nothing for an empty one.
func (b Balance) save() (saved []byte) {
	if b == (Balance{}) {
		return nil
	}
	for _, n := range [...]int64{int64(b.Settled), int64(b.Reserved), int64(b.Pushed), int64(b.SettledCapacity), int64(b.ReservedCapacity), int64(b.Cat2Queries)} {
		saved = binary.AppendVarint(saved, n)
	}
	return saved
}

func restoreBalance(saved []byte) (b Balance, ok bool) {
	if len(saved) == 0 {
		return Balance{}, true
	}
	var n [6]int64
	for i := range n {
		size := 0
		if n[i], size = binary.Varint(saved); size <= 0 {
			return Balance{}, false
		}
		saved = saved[size:]
	}
	return Balance{Settled: Bits(n[0]), Reserved: Bits(n[1]), Pushed: Bits(n[2]), SettledCapacity: Bits(n[3]), ReservedCapacity: Bits(n[4]),
		Cat2Queries: int(n[5])}, len(saved) == 0
}

// Restore makes the state that a checkpoint was made of, under the definitions
// of c: the one that the whole journal up to there makes under them. It fails
// with [ErrDefinitions] where only the journal can tell what that is, and with
// [ErrCheckpoint] where the bytes cannot be used; the journal is read then.
func Restore(c Config, checkpoint []byte) (*State, error) {
	if rest, ok := skipValue(checkpoint, maxCheckpointDepth); !ok || len(rest) > 0 {
		return nil, fmt.Errorf("%w: it is not one whole value", ErrCheckpoint)
	}
	dec := msgpack.NewDecoder(bytes.NewReader(checkpoint))
	if n, err := dec.DecodeArrayLen(); err != nil || n < 1 {
		return nil, fmt.Errorf("%w: it is no list", ErrCheckpoint)
	}
	if version, err := dec.DecodeInt(); err != nil || version != checkpointVersion {
		return nil, fmt.Errorf("%w: it has version %d", ErrCheckpoint, version)
	}
	var saved savedState
	if err := msgpack.Unmarshal(checkpoint, &saved); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s, err := NewState(c)
	if err != nil {
		return nil, err
	}
	if err := s.sameHistory(&saved); err != nil {
		return nil, err
	}
	if err := s.restore(&saved); err != nil {
		return nil, err
	}
	if err := s.consistent(); err != nil {
		return nil, err
	}
	return s, nil
}

var errSaved = fmt.Errorf("%w: it contradicts itself", ErrCheckpoint)

// sameHistory reports whether the definitions of today make of the history what
// those of the checkpoint made of it. What is new may be there as long as no
// decision ever named it: then there is no history of it.
func (s *State) sameHistory(saved *savedState) error {
	if saved.Mesh != s.marks.mesh || len(saved.Crons) != len(s.crons) {
		return fmt.Errorf("%w: what holds for the whole mesh", ErrDefinitions)
	}
	agents := make(map[AgentName]bool, len(saved.Agents))
	for i := range saved.Agents {
		a := &saved.Agents[i]
		if agents[a.Name] {
			return errSaved
		}
		agents[a.Name] = true
		if mark, ok := s.marks.agents[a.Name]; !ok || mark != a.Mark {
			return fmt.Errorf("%w: agent %s", ErrDefinitions, a.Name)
		}
	}
	channels := make(map[int]bool, len(saved.Channels))
	for i := range saved.Channels {
		c := &saved.Channels[i]
		if channels[c.Key] || c.Key < 0 || c.Key >= len(saved.Keys) {
			return errSaved
		}
		channels[c.Key] = true
		key := saved.key(c.Key)
		if mark, ok := s.marks.channels[key]; !ok || mark != c.Mark {
			return fmt.Errorf("%w: channel of %s and %s", ErrDefinitions, key.Controller, key.Reader)
		}
	}
	for _, name := range saved.ForeignAgents {
		if s.agents[name] != nil {
			return fmt.Errorf("%w: agent %s is back", ErrDefinitions, name)
		}
		s.foreign.agents[name] = true
	}
	for _, i := range saved.ForeignChannels {
		if i < 0 || i >= len(saved.Keys) {
			return errSaved
		}
		key := saved.key(i)
		if s.channels[key] != nil {
			return fmt.Errorf("%w: the channel of %s and %s is back", ErrDefinitions, key.Controller, key.Reader)
		}
		s.foreign.channels[key] = true
	}
	return nil
}

func (saved *savedState) key(i int) ChannelKey {
	return ChannelKey{Controller: saved.Keys[i].Controller, Reader: saved.Keys[i].Reader}
}

func (s *State) restore(saved *savedState) error {
	last, err := DecodeDecision(saved.Last)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s.last, s.head, s.origin = last, saved.Head, saved.Origin
	for i := range saved.Agents {
		if err := s.restoreAgent(&saved.Agents[i]); err != nil {
			return err
		}
	}
	for i := range saved.Channels {
		c := &saved.Channels[i]
		if err := s.restoreChannel(c, s.channels[saved.key(c.Key)]); err != nil {
			return err
		}
	}
	s.queries = make(map[QueryID]*queryState, len(saved.Open)+len(saved.Ended))
	s.endings = make([]QueryID, 0, len(saved.Ended))
	for i := range saved.Open {
		if err := s.restoreQuery(saved, &saved.Open[i]); err != nil {
			return err
		}
	}
	for i := range saved.Ended {
		q := &saved.Ended[i]
		if err := s.restoreQuery(saved, q); err != nil || phase(q.Phase) != phaseEnded {
			return cmp.Or(err, errSaved)
		}
		s.endings = append(s.endings, q.ID)
	}
	for i := range saved.Items {
		if err := s.restoreItem(saved, &saved.Items[i]); err != nil {
			return err
		}
	}
	s.firsts = make(map[clientKey]first, len(saved.Firsts))
	s.aging = make([]clientKey, 0, len(saved.Firsts))
	for i := range saved.Firsts {
		if err := s.restoreFirst(saved, &saved.Firsts[i]); err != nil {
			return err
		}
	}
	for _, d := range saved.Decided {
		s.decided = append(s.decided, decidedItem{id: d.ID, at: d.At, code: d.Code})
	}
	for _, t := range saved.Deadlines {
		if t.Cron < 0 || t.Cron > len(s.crons) {
			return errSaved
		}
		s.deadline = append(s.deadline, timer{at: t.At, query: t.Query, item: t.Item, cron: t.Cron})
	}
	heap.Init(&s.deadline)
	for _, a := range saved.Alerts {
		if a.Key < 0 || a.Key >= len(saved.Keys) || s.channels[saved.key(a.Key)] == nil {
			return errSaved
		}
		s.alerts = append(s.alerts, alert{channel: saved.key(a.Key), kind: a.Kind, epoch: a.Epoch})
	}
	for i, c := range saved.Crons {
		s.crons[i].last, s.crons[i].due = c.Last, c.Due
	}
	return nil
}

func (s *State) restoreAgent(saved *savedAgent) error {
	a := s.agents[saved.Name]
	a.reported, a.exposure, a.renewals = saved.Reported, saved.Exposure, saved.Renewals
	a.refusals = refusalCount{minute: saved.RefusedIn, count: saved.Refused}
	a.unavailable, a.sources = saved.Unavailable, saved.Sources
	from := &saved.Session
	a.session = sessionState{
		id: from.ID, begun: from.Begun, byDelivery: from.ByDelivery, closed: from.Closed, since: from.Since, touched: from.Touched,
		provoked: from.Provoked, provokedEnd: from.ProvokedEnd, exposure: from.Exposure,
	}
	if from.Begun {
		a.session.quotes = quotations{}
	}
	if len(from.Quotes)%16 != 0 || len(from.Quotes) > 0 && !from.Begun {
		return errSaved
	}
	for b := from.Quotes; len(b) > 0; b = b[16:] {
		a.session.quotes[[8]byte(b)] = int64(binary.BigEndian.Uint64(b[8:]))
	}
	for _, r := range from.Releases {
		a.session.releases = append(a.session.releases, Release{Reader: r.Reader, Query: r.Query, Subscription: r.Subscription, Category: r.Category,
			Outcome: r.Outcome, Content: r.Content, Nominal: r.Nominal, Time: time.Unix(0, r.Time).UTC()})
	}
	for _, n := range saved.Notices {
		notice := Notice{ID: n.ID, Agent: saved.Name, Role: n.Role, Peer: n.Peer, schedule: n.Schedule}
		var result ValidationResult
		var prompt Prompt
		var err error
		if n.Prompt {
			err = json.Unmarshal(n.Message, &prompt, json.RejectUnknownMembers(true))
			prompt.Time = time.Unix(0, n.Time).In(s.mesh.TimeZone)
			notice.Message = prompt
		} else {
			err = json.Unmarshal(n.Message, &result, json.RejectUnknownMembers(true))
			notice.Message = result
		}
		if _, twice := s.noticed[n.ID]; err != nil || twice {
			return errSaved
		}
		a.notices = append(a.notices, notice)
		s.noticed[n.ID] = agentRole{saved.Name, n.Role}
	}
	return nil
}

func (s *State) restoreChannel(c *savedChannel, ch *channelState) error {
	ch.epoch, ch.started, ch.renewal, ch.alerted, ch.exhausted = c.Epoch, c.Started, c.Renewal, c.Alerted, c.Exhausted
	ch.spending = spending{session: c.Spender, spent: c.Spent, alerted: c.SpentAlerted, past: c.Past}
	ch.released, ch.before, ch.session, ch.escalations = c.Released, c.Before, c.Session, c.Escalations
	ch.armed, ch.arming, ch.armingAt, ch.failed, ch.pending = c.Armed, c.Arming, c.ArmingAt, c.Failed, c.Pending
	ch.pools = make(map[uint64]*pool, len(c.Pools))
	for _, p := range c.Pools {
		if ch.pools[p.Epoch] != nil {
			return errSaved
		}
		ch.pools[p.Epoch] = &pool{Balance: p.Balance, open: p.Open, held: p.Held, shown: p.Shown, shownAt: p.ShownAt}
	}
	if ch.pools[ch.epoch] == nil || len(c.Window)%2 != 0 {
		return errSaved
	}
	for w := c.Window; len(w) > 0; w = w[2:] {
		ch.window.parts = append(ch.window.parts, windowPart{begin: w[0], sum: Bits(w[1])})
	}
	for i := range c.Outbox {
		o := &c.Outbox[i]
		if _, twice := s.waiting[o.ID]; twice {
			return errSaved
		}
		s.waiting[o.ID] = ch.definition.ChannelKey
		ch.outbox = append(ch.outbox, Outgoing{
			Delivery: Delivery{
				Type: TypeResponseDelivery, DeliveryID: o.ID, QueryID: o.Query, SubscriptionID: o.Subscription, Category: o.Category,
				FromAgent: ch.definition.Reader, Response: o.Response, Outcome: o.Outcome, Anomalies: o.Anomalies, BandwidthBits: o.Nominal,
				CapacityBits: o.Capacity, Taint: o.Taint, ChannelMode: "bcp",
			},
			Controller: ch.definition.Controller, Seq: o.Seq, Release: time.Unix(0, o.Release).UTC(), order: o.Order,
		})
	}
	return nil
}

func (s *State) restoreQuery(saved *savedState, from *savedQuery) error {
	if from.Key < 0 || from.Key >= len(saved.Keys) || s.queries[from.ID] != nil || phase(from.Phase) < phaseGate || phase(from.Phase) > phaseEnded {
		return errSaved
	}
	q := &queryState{
		channel: saved.key(from.Key), session: from.Session, epoch: from.Epoch, category: from.Category, maxBytes: from.MaxBytes,
		nominal: from.Nominal, capacity: from.Capacity, accepted: from.Accepted, deadline: from.Deadline, attempt: from.Attempt,
		phase: phase(from.Phase), sent: from.Sent, item: from.Item, cancelled: from.Cancelled, ended: from.EndedAt, heard: from.Heard, others: from.Others,
	}
	ch := s.channels[q.channel]
	if ch == nil {
		return errSaved
	}
	s.queries[from.ID] = q
	if q.phase == phaseEnded {
		return nil
	}
	q.spec, q.prices = from.Spec, unasked(q.nominal, q.capacity)
	if !from.Asked {
		if !q.cancelled {
			return errSaved
		}
		return nil
	}
	// The same spec under the same marks compiles to the same, or the checkpoint
	// lies.
	asked := Decision{Spec: q.spec, Nominal: q.nominal, Capacity: q.capacity, Category: q.category, Context: s.context}
	var err error
	if q.validator, q.prices, err = s.asked(&asked, ch); err != nil || q.validator.MaxBytes() != q.maxBytes {
		return errSaved
	}
	return nil
}

func (s *State) restoreItem(saved *savedState, from *savedItem) error {
	if from.Key < 0 || from.Key >= len(saved.Keys) || s.items[from.ID] != nil {
		return errSaved
	}
	key := saved.key(from.Key)
	q := s.queries[from.Query]
	if s.channels[key] == nil || from.Query != "" && (q == nil || q.channel != key || q.item != from.ID) {
		return errSaved
	}
	s.items[from.ID] = &itemState{
		Item: Item{
			ID: from.ID, Kind: from.Kind, Controller: key.Controller, Reader: key.Reader, Query: from.Query, Subscription: from.Subscription,
			Category: from.Category, Anomalies: from.Anomalies, Taint: from.Taint, Nominal: from.Nominal, Capacity: from.Capacity,
			Since: time.Unix(0, from.Since).UTC(), Deadline: time.Unix(0, from.Deadline).UTC(),
		},
		deadline: from.Deadline, counted: from.Counted, content: from.Content, justification: from.Justification, client: from.Client,
	}
	return nil
}

func (s *State) restoreFirst(saved *savedState, from *savedFirst) error {
	balance, ok := restoreBalance(from.Balance)
	if !ok || from.Key < 0 || from.Key >= len(saved.Keys) {
		return errSaved
	}
	key := clientKey{role: from.Role, channel: saved.key(from.Key), id: from.ID}
	if _, twice := s.firsts[key]; twice {
		return errSaved
	}
	s.aging = append(s.aging, key)
	s.firsts[key] = first{
		digest: from.Digest, time: from.Time, verdict: from.Verdict, code: from.Code, reason: from.Reason, field: from.Field, query: from.Query,
		category: from.Category, nominal: from.Nominal, capacity: from.Capacity, epoch: from.Epoch, balance: balance, repeats: from.Repeats,
	}
	return nil
}

// consistent holds the pools against the queries and items that they are the
// sums of. Sums that a checkpoint gets wrong would be spent.
func (s *State) consistent() error {
	type sums struct {
		reserved, capacity Bits
		open, held         int
	}
	type epoch struct {
		channel ChannelKey
		epoch   uint64
	}
	found, pending := make(map[epoch]sums), make(map[ChannelKey]int)
	for _, q := range s.queries {
		sum := found[epoch{q.channel, q.epoch}]
		switch q.phase {
		case phaseGate, phaseSent:
			if q.nominal < 0 || q.capacity < 0 || q.nominal > math.MaxInt64-sum.reserved || q.capacity > math.MaxInt64-sum.capacity {
				return errSaved
			}
			sum.reserved, sum.capacity, sum.open = sum.reserved+q.nominal, sum.capacity+q.capacity, sum.open+1
		case phaseHeld:
			sum.held++
		default:
			continue
		}
		if it := s.items[q.item]; (it == nil) == (q.phase != phaseSent) {
			return errSaved
		}
		found[epoch{q.channel, q.epoch}] = sum
	}
	for _, it := range s.items {
		if it.counted {
			pending[it.channel()]++
		}
	}
	pools := 0
	for key, ch := range s.channels {
		if ch.pending != pending[key] {
			return fmt.Errorf("%w: %d items wait on the channel of %s and %s, and %d are there", ErrCheckpoint, ch.pending, key.Controller, key.Reader, pending[key])
		}
		for e, p := range ch.pools {
			sum, ok := found[epoch{key, e}]
			if ok {
				pools++
			}
			if sum != (sums{p.Reserved, p.ReservedCapacity, p.open, p.held}) {
				return fmt.Errorf("%w: epoch %d of %s and %s is not the sum of its queries", ErrCheckpoint, e, key.Controller, key.Reader)
			}
		}
	}
	if pools != len(found) {
		return errSaved
	}
	return nil
}
