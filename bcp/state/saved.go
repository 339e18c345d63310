package state

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
)

//lint:file-ignore U1000 the fields _msgpack tell the library to write arrays

// The saved forms are MessagePack arrays. Their order is part of the format:
// whoever changes it changes checkpointVersion.
type (
	savedState struct {
		_msgpack struct{} `msgpack:",as_array"`

		Version     int
		Context     bcp.Digest // of the definitions that it was made under
		Last        []byte     // the newest decision, as EncodeDecision wrote that much of it
		Head        bcp.Digest
		Origin      int64
		Keys        []savedKey // channels, by which the rest names them
		Agents      []savedAgent
		Channels    []savedChannel
		Open        []savedQuery // by acceptance
		Ended       []savedQuery // as they ended
		Items       []savedItem
		Firsts      []savedFirst // oldest first
		Decided     []savedDecided
		Deadlines   []savedTimer
		Alerts      []savedAlert
		Begun, Idle int64
		Prompted    []savedPrompted
		Runs        []bcp.SavedRun
		Roles       []savedRole
		Revocations []savedNumber
		Watch       []byte // as it saves itself
		Suspended   []bcp.AgentName
		Envelopes   []savedEnvelope
		Calls       []savedCalls // by kernel
		Share       []savedShare
	}
	savedEnvelope struct {
		_msgpack struct{} `msgpack:",as_array"`

		Delivery           bcp.DeliveryID
		Controller, Reader bcp.AgentName
		Session            bcp.SessionID
		Seq                uint64
		Time, Release      int64
		Values             int
		Handed             uint64
		Sealed             []byte
	}
	savedKey struct {
		_msgpack struct{} `msgpack:",as_array"`

		Controller, Reader bcp.AgentName
	}
	savedAgent struct {
		_msgpack struct{} `msgpack:",as_array"`

		Name               bcp.AgentName
		Reported, Exposure bcp.Taint
		Told               bcp.Bits
		Forgot             int64
		Renewed            int64
		RefusedIn          int64
		Refused            int
		GatheredIn         int64
		Gathered           int
		ReportsIn          int64
		Reports            int
		Unavailable        bool
		Sources            []string
		Egress             []byte // a pool
		EgressAlerted      int64
		EgressRefusedIn    int64
		EgressRefused      int
		Tokens, Money      []byte // pools
		Warned, Alerted    int64  // of Tokens and Money
		Fault              bcp.Fault
		FaultStatus        int
		FaultSince         int64
		Notices            []savedNotice
		Session            savedSession
		Arrivals           []savedArrival // the next first
	}
	savedSession struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                        bcp.SessionID
		Begun, ByDelivery, Closed bool
		Since, Touched            int64
		Provoked                  bool
		ProvokedEnd               int64
		Exposure                  bcp.Taint
		Quotes                    []byte // 16 bytes each, sorted
		Releases                  []savedRelease
	}
	savedRelease struct {
		_msgpack struct{} `msgpack:",as_array"`

		Reader       bcp.AgentName
		Query        bcp.QueryID
		Subscription bcp.SubscriptionID
		Category     bcp.Category
		Outcome      bcp.Code
		Content      []byte
		Nominal      bcp.Bits
		Time         int64
	}
	savedNotice struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID       bcp.DeliveryID
		Role     bcp.Role
		Peer     bcp.AgentName
		Schedule string
		Prompt   bool
		Message  []byte // JSON, without
		PushID   []byte
		Time     int64 // of a prompt, or of the item that a result is about
	}
	savedChannel struct {
		_msgpack struct{} `msgpack:",as_array"`

		Key                       int
		Epoch                     savedEpoch
		OpeningBegan, OpeningSlot int64
		OpeningNumber             uint64
		KeptSlot                  int64
		Kept                      savedEpoch
		Pools                     []savedPool
		Flow                      savedFlow
		Span                      int64 // of the window
		SpanRecorded              bool
		Window                    []int64 // begin and sum in turn
		Alerted, Exhausted        uint64
		Spender                   bcp.SessionID
		Spent                     bcp.Bits
		SpentAlerted              bool
		Past                      []bcp.Bits
		Pushes                    []savedPushes
		Session                   bcp.SessionID
		Escalations               int
		Armed, Arming             int
		ArmingAt                  int64
		Failed                    bool
		Pending                   int
		Outbox                    []savedOutgoing
		Endorsements              []savedEndorsement
	}
	savedCalls struct {
		_msgpack struct{} `msgpack:",as_array"`

		Kernel       bcp.AgentName
		Endorsements []savedEndorsement
	}
	savedEndorsement struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID           bcp.EndorsementID
		By           bcp.AgentName
		Subscription bcp.SubscriptionID
		Tool         string
		Spec         bcp.Digest
		Codes        []string
		Given, Until int64
		Uses         int
		Bits         bcp.Bits
		UsesLeft     int
		BitsLeft     bcp.Bits
	}
	savedPushes struct {
		_msgpack struct{} `msgpack:",as_array"`

		Subscription     bcp.SubscriptionID
		Times            []int64
		Released, Before int64
		Batches          []savedBatch
	}
	savedBatch struct {
		_msgpack struct{} `msgpack:",as_array"`

		Release, Since    int64
		Category          bcp.Category
		Count, Bytes      int
		Nominal, Capacity bcp.Bits
		Timing            bool
		Taint             bcp.Taint
		Pushes            []savedPushed
	}
	savedPushed struct {
		_msgpack struct{} `msgpack:",as_array"`

		Response  []byte
		Anomalies []string
	}
	savedPool struct {
		_msgpack struct{} `msgpack:",as_array"`

		Epoch      uint64
		Balance    bcp.Balance
		Open, Held int
		Flow       savedFlow
	}
	savedFlow struct {
		_msgpack struct{} `msgpack:",as_array"`

		Slot                       int64
		Asked, AskedCapacity       bcp.Bits
		Unfunded, UnfundedCapacity bcp.Bits
		Pushed, PushedCapacity     bcp.Bits
		Returned, ReturnedCapacity bcp.Bits
	}
	savedEpoch struct {
		_msgpack struct{} `msgpack:",as_array"`

		Number       uint64
		Started, Due int64
	}
	savedArrival struct {
		_msgpack struct{} `msgpack:",as_array"`

		At       int64
		Delivery bcp.DeliveryID
		Session  bcp.SessionID
		Late     bool
		Exposure bcp.Taint
		Told     bcp.Bits
		Full     bcp.Bits
		Release  savedRelease
		Runs     []byte // 8 bytes each
	}
	savedOutgoing struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                bcp.DeliveryID
		Query             bcp.QueryID
		Subscription      bcp.SubscriptionID
		Run               string
		Category          bcp.Category
		Response          []byte
		Batch             []savedPushed
		Outcome           bcp.Code
		Anomalies         []string
		Nominal, Capacity bcp.Bits
		Taint             bcp.Taint
		Seq               uint64
		Since, Release    int64
		Order             uint64
	}
	savedQuery struct { // see fields
		ID                bcp.QueryID
		Key               int
		Session           bcp.SessionID
		Epoch             uint64
		Category          bcp.Category
		Spec              []byte
		Asked             bool // its spec compiles
		Nominal, Capacity bcp.Bits
		Accepted          uint64
		Since, Deadline   int64
		Attempt           int
		Phase             uint8
		Sent              bool
		Item              bcp.ItemID
		Cancelled         bool
		Unfunded          bool
		EndedAt           int64
		Heard             bcp.Code
		Others            int
	}
	savedItem struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                bcp.ItemID
		Kind              bcp.ItemKind
		Key               int
		Query             bcp.QueryID
		Subscription      bcp.SubscriptionID
		Category          bcp.Category
		Anomalies         []string
		Taint             bcp.Taint
		Nominal, Capacity bcp.Bits
		Since, Deadline   int64
		Counted           bool
		Content           []byte
		Justification     string
		JustificationBits bcp.Bits
		Client            []byte
	}
	savedFirst struct { // see fields
		Key               []byte
		Digest            []byte // 16 bytes
		Time              int64
		Verdict           bcp.Outcome
		Code              bcp.Code
		Reason            bcp.Reason
		Field             string
		Query             bcp.QueryID
		Category          bcp.Category
		Nominal, Capacity bcp.Bits
		Epoch             uint64
		Remaining         bcp.Bits
		Repeats           int
	}
	savedDecided struct {
		_msgpack struct{} `msgpack:",as_array"`

		ID                 bcp.ItemID
		At                 int64
		Code               bcp.Code
		Content            []byte
		Controller, Reader bcp.AgentName
	}
	savedTimer struct {
		_msgpack struct{} `msgpack:",as_array"`

		At    int64
		Query bcp.QueryID
		Item  bcp.ItemID
	}
	savedAlert struct {
		_msgpack struct{} `msgpack:",as_array"`

		Key   int
		Kind  bcp.AlertKind
		Epoch uint64
		// Of one that is about an agent; then Key is -1.
		Agent bcp.AgentName
		Rule  bcp.SuspectRule
		Count int
	}
	savedPrompted struct {
		_msgpack struct{} `msgpack:",as_array"`

		Agent             bcp.AgentName
		Schedule, Message string
		Run               int64
	}
)

type (
	savedRole struct {
		_msgpack struct{} `msgpack:",as_array"`

		Agent                      bcp.AgentName
		Requirement                string
		Until                      int64
		Organisation               string
		Signer, Required, SerialOf bcp.Digest
		Key                        string
	}
	savedShare struct {
		_msgpack struct{} `msgpack:",as_array"`

		Agent bcp.AgentName
		Bytes int64
	}
	savedNumber struct {
		_msgpack struct{} `msgpack:",as_array"`

		Organisation string
		Number       int64
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
	number(c, &q.Nominal)
	number(c, &q.Capacity)
	number(c, &q.Accepted)
	number(c, &q.Since)
	number(c, &q.Deadline)
	number(c, &q.Attempt)
	number(c, &q.Phase)
	c.flag(&q.Sent)
	letters(c, &q.Item)
	c.flag(&q.Cancelled)
	c.flag(&q.Unfunded)
	number(c, &q.EndedAt)
	letters(c, &q.Heard)
	number(c, &q.Others)
}

func (f *savedFirst) fields(c *coder) {
	c.bytes(&f.Key)
	c.bytes(&f.Digest)
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
	number(c, &f.Remaining)
	number(c, &f.Repeats)
}

const (
	queryFields = 21
	firstFields = 14
)

// EncodeMsgpack writes the fields as a list.
func (q *savedQuery) EncodeMsgpack(e *msgpack.Encoder) error { return encodeFields(e, q, queryFields) }

// DecodeMsgpack reads them.
func (q *savedQuery) DecodeMsgpack(d *msgpack.Decoder) error { return decodeFields(d, q, queryFields) }

// EncodeMsgpack writes the fields as a list.
func (f *savedFirst) EncodeMsgpack(e *msgpack.Encoder) error { return encodeFields(e, f, firstFields) }

// DecodeMsgpack reads them.
func (f *savedFirst) DecodeMsgpack(d *msgpack.Decoder) error { return decodeFields(d, f, firstFields) }
