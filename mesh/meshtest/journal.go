package meshtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// ReadStream returns the messages of a stream, oldest first.
func ReadStream(t testing.TB, js natsjs.JetStream, name string) []natsjs.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	noError(t, err)
	state := stream.CachedInfo().State
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute+time.Duration(state.Msgs)*time.Millisecond)
	defer cancel()
	var messages []natsjs.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; seq++ {
		msg, err := getMessage(ctx, stream, seq)
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			continue
		}
		noError(t, err)
		messages = append(messages, *msg)
	}
	return messages
}

// getMessage retries if a loaded server has dropped a request.
func getMessage(ctx context.Context, stream natsjs.Stream, seq uint64) (*natsjs.RawStreamMsg, error) {
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		msg, err := stream.GetMsg(once, seq)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return msg, err
		}
	}
}

// Journal is the result of [CheckJournal]. A channel is "controller reader".
type Journal struct {
	Decisions, Records int
	Kinds              map[bcp.DecisionKind]int
	// Asks and Pushes count, by channel and the client's id, the first accepting
	// decisions for a request_id or push_id.
	Asks, Pushes map[string]int
	// Order has the ids of Asks and Pushes by channel, in their order.
	Order map[string][]string
	// Query is the query of an ask, by the same key.
	Query map[string]string
	// Delivered and Acknowledged count decisions by delivery id.
	Delivered, Acknowledged map[string]int
	// Released are the deliveries of a channel, in order.
	Released map[string][]string
	// Answered counts by query id the decisions that ended it.
	Answered map[string]int
	// Decided counts by item id the decisions of people that counted.
	Decided map[string]int
	// Balances are those of the pools, by channel and epoch.
	Balances map[string]bcp.Balance
}

// window is what waits for the end of a subscription's window.
type window struct {
	count             int
	nominal, capacity bcp.Bits
}

// ReadKeys returns the sealing keys of a mesh, by subject.
func ReadKeys(t testing.TB, js natsjs.JetStream) map[string][]byte {
	t.Helper()
	keys := map[string][]byte{}
	for _, m := range ReadStream(t, js, jetstream.KeyStream) {
		keys[m.Subject] = m.Data
	}
	return keys
}

// ReadJournal returns the messages of a journal.
func ReadJournal(t testing.TB, js natsjs.JetStream) (messages [][]byte) {
	t.Helper()
	for _, m := range ReadStream(t, js, jetstream.CommitStream) {
		messages = append(messages, m.Data)
	}
	return messages
}

// CheckStream is [CheckJournal] of streams.
func CheckStream(t testing.TB, js natsjs.JetStream, budgets map[string]int64) (Journal, error) {
	t.Helper()
	return CheckJournal(ReadJournal(t, js), ReadKeys(t, js), budgets)
}

// decision is one of the checked journal, opened.
type decision struct{ bcp.Decision }

func (d *decision) accepted() bool { return d.Verdict == bcp.Accept || d.Verdict == bcp.Hold }

func (d *decision) channel() string { return string(d.Controller) + " " + string(d.Reader) }

func (d *decision) pool() string { return fmt.Sprintf("%s %d", d.channel(), d.Epoch) }

// CheckJournal reads the messages of a journal, with the keys that they are sealed
// under. It verifies that decisions are numbered without a gap and chained by
// SHA-256, that time never goes back, that
// every balance is the sum of what came before it, that no query settles twice,
// that nothing is acknowledged that was not delivered, and that no pool exceeds
// its budget in nano-bits (by channel; a missing one is not checked).
func CheckJournal(messages [][]byte, keys map[string][]byte, budgets map[string]int64) (Journal, error) {
	c := checker{
		Journal: Journal{
			Kinds: map[bcp.DecisionKind]int{}, Asks: map[string]int{}, Pushes: map[string]int{}, Order: map[string][]string{}, Query: map[string]string{},
			Delivered: map[string]int{}, Released: map[string][]string{}, Acknowledged: map[string]int{}, Answered: map[string]int{},
			Decided: map[string]int{}, Balances: map[string]bcp.Balance{},
		},
		budgets: budgets, keys: jetstream.GivenSealingKeys(func(_ context.Context, subject string) (bcp.GivenKey, error) {
			return bcp.GivenKey{Key: keys[subject], Destroyed: string(keys[subject]) == "destroyed"}, nil
		}), open: map[bcp.QueryID]decision{}, clients: map[string]bool{}, windows: map[string]window{}, notices: map[bcp.DeliveryID]bool{},
	}
	for i, message := range messages {
		if err := c.record(message); err != nil {
			return c.Journal, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	reserved := map[string]bcp.Bits{}
	for _, q := range c.open {
		reserved[q.pool()] += q.Nominal
	}
	for pool, b := range c.Balances {
		if reserved[pool] != b.Reserved {
			return c.Journal, fmt.Errorf("pool %s holds %d in reserve, its open queries %d", pool, b.Reserved, reserved[pool])
		}
	}
	return c.Journal, nil
}

type checker struct {
	Journal
	budgets map[string]int64
	keys    *jetstream.SealingKeys
	open    map[bcp.QueryID]decision // the asks of open queries
	clients map[string]bool
	windows map[string]window       // open ones, by channel, subscription and end
	notices map[bcp.DeliveryID]bool // waiting ones
	head    bcp.Digest
	time    int64
}

func (c *checker) record(message []byte) error {
	decisions, err := jetstream.DecodeRecord(message)
	if err != nil {
		return err
	}
	c.Records++
	for _, b := range decisions {
		c.Decisions++
		d, err := c.keys.Decode(context.Background(), b)
		if err == nil {
			err = c.decision(&decision{d})
		}
		if err != nil {
			return fmt.Errorf("decision %d: %w", c.Decisions, err)
		}
		c.head = sha256.Sum256(append([]byte{0}, b...))
	}
	return nil
}

func (c *checker) decision(d *decision) error {
	switch {
	case d.Seq != uint64(c.Decisions):
		return fmt.Errorf("is numbered %d", d.Seq)
	case d.Prev != c.head:
		return errors.New("is not chained to the one before")
	case d.Time < c.time:
		return errors.New("is earlier than the one before")
	}
	c.time = d.Time
	c.Kinds[d.Kind]++
	if d.Notice != "" && d.Kind != bcp.KindAcknowledge {
		c.notices[d.Notice] = true
	}
	if d.Repeat {
		return nil
	}
	return c.effect(d)
}

// effect sums up the changes of the decision and compares them with its balance.
func (c *checker) effect(d *decision) error {
	channel, after := d.channel(), c.Balances[d.pool()]
	if by := fmt.Sprint(d.Role, channel, " ", d.Client); d.Client != "" {
		if d.Verdict != bcp.Reject && c.clients[by] {
			return errors.New("a client id has two outcomes")
		}
		c.clients[by] = true
	}
	of := fmt.Sprint(channel, " ", d.Subscription, " ", d.Release)
	if (d.Kind == bcp.KindPush || d.Kind == bcp.KindApproval) && d.Verdict == bcp.Accept && d.Delivery == "" && d.Release > 0 {
		w := c.windows[of]
		c.windows[of] = window{w.count + 1, w.nominal + d.Nominal, w.capacity + d.Capacity}
	}
	ends := d.Delivery != "" || d.Item != ""
	switch {
	case d.Kind == bcp.KindAsk && d.accepted():
		if _, twice := c.open[d.Query]; twice || d.Query == "" {
			return errors.New("a query id is used twice")
		}
		if ends = false; d.Unfunded {
			d.Nominal, d.Capacity = 0, 0
		}
		c.open[d.Query], c.Query[channel+" "+string(d.Client)] = *d, string(d.Query)
		after.Reserved += d.Nominal
		after.ReservedCapacity += d.Capacity
		if d.Category == 2 {
			after.Cat2Queries++
		}
		c.count(c.Asks, d)
	case d.Kind == bcp.KindPush && d.accepted():
		after.Settled += d.Nominal
		after.Pushed += d.Nominal
		after.SettledCapacity += d.Capacity
		c.count(c.Pushes, d)
	case d.Kind == bcp.KindApproval && d.accepted():
		if c.Decided[string(d.Item)]++; c.Decided[string(d.Item)] > 1 {
			return errors.New("an item is decided twice")
		}
		// A denied escalation ends its query; a held answer is already paid for.
		ends = d.Delivery != ""
	case (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindExpire) && ends:
		if _, open := c.open[d.Query]; d.Kind == bcp.KindAnswer && !open {
			return errors.New("a query is answered that is not open")
		}
	case d.Kind == bcp.KindBatch:
		w, waits := c.windows[of]
		if delete(c.windows, of); !waits || w != (window{d.Count, d.Nominal, d.Capacity}) {
			return errors.New("a window ends with other pushes than waited for it")
		}
	case d.Kind == bcp.KindAcknowledge:
		return c.acknowledge(d)
	default:
		return nil
	}
	if q, open := c.open[d.Query]; ends && open {
		if q.pool() != d.pool() {
			return errors.New("a query settles in another pool")
		}
		delete(c.open, d.Query)
		c.Answered[string(d.Query)]++
		after.Reserved -= q.Nominal
		after.ReservedCapacity -= q.Capacity
		after.Settled += d.Nominal
		after.SettledCapacity += d.Capacity
	}
	return c.release(d, after)
}

// count notes what a client asked or pushed.
func (c *checker) count(of map[string]int, d *decision) {
	if d.Client != "" {
		of[d.channel()+" "+string(d.Client)]++
		c.Order[d.channel()] = append(c.Order[d.channel()], string(d.Client))
	}
}

// acknowledge is of a delivery or of a notice.
func (c *checker) acknowledge(d *decision) error {
	if d.Notice != "" {
		if !c.notices[d.Notice] {
			return errors.New("a notice is acknowledged that does not wait")
		}
		delete(c.notices, d.Notice)
		return nil
	}
	if c.Delivered[string(d.Delivery)] != 1 {
		return errors.New("a delivery is acknowledged that was not made")
	}
	if c.Acknowledged[string(d.Delivery)]++; c.Acknowledged[string(d.Delivery)] > 1 {
		return errors.New("a delivery is acknowledged twice")
	}
	return nil
}

// release notes what the decision releases to agents, and its balance.
func (c *checker) release(d *decision, after bcp.Balance) error {
	channel := d.channel()
	if d.Delivery != "" {
		if c.Delivered[string(d.Delivery)]++; c.Delivered[string(d.Delivery)] > 1 {
			return errors.New("a delivery id is used twice")
		}
		c.Released[channel] = append(c.Released[channel], string(d.Delivery))
	}
	if d.Balance != after {
		return fmt.Errorf("records balance %+v, the sum is %+v", d.Balance, after)
	}
	if budget, ok := c.budgets[channel]; ok && after.Settled+after.Reserved > bcp.Bits(budget) {
		return fmt.Errorf("pool %s is overdrawn", d.pool())
	}
	c.Balances[d.pool()] = after
	return nil
}
