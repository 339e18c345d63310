package meshtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// ReadStream returns the messages of a stream, oldest first.
func ReadStream(t testing.TB, js natsjs.JetStream, name string) []natsjs.RawStreamMsg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := js.Stream(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute+time.Duration(state.Msgs)*time.Millisecond)
	defer cancel()
	var messages []natsjs.RawStreamMsg
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; seq++ {
		msg, err := getMessage(ctx, stream, seq)
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
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

// CheckJournal reads the messages of a whole journal, with the keys that they are sealed
// under, and without the state that made it. It verifies that decisions are numbered without
// a gap and chained, that time never goes back, that every balance is the sum of what came
// before it ([state.Recount]), that no query settles twice, that nothing is acknowledged that
// was not delivered, and that no pool exceeds its budget in nano-bits (by channel; a missing
// one is not checked).
func CheckJournal(messages [][]byte, keys map[string][]byte, budgets map[string]int64) (Journal, error) {
	c := checker{
		Journal: Journal{
			Kinds: map[bcp.DecisionKind]int{}, Asks: map[string]int{}, Pushes: map[string]int{}, Order: map[string][]string{}, Query: map[string]string{},
			Delivered: map[string]int{}, Released: map[string][]string{}, Acknowledged: map[string]int{}, Answered: map[string]int{},
			Decided: map[string]int{}, Balances: map[string]bcp.Balance{},
		},
		budgets: budgets, open: map[bcp.QueryID]bool{}, clients: map[string]bool{}, windows: map[string]window{}, notices: map[bcp.DeliveryID]bool{},
	}
	var stored []jetstream.StoredKey
	for subject, key := range keys {
		stored = append(stored, jetstream.StoredKey{Subject: subject, Key: key})
	}
	opens, err := jetstream.SealingKeysOf(stored)
	if err != nil {
		return c.Journal, err
	}
	var chain jetstream.Chain
	for i, message := range messages {
		decisions, err := jetstream.DecodeRecord(message)
		if err == nil {
			err = chain.Add(decisions)
		}
		if err == nil && chain.Begin.Truncated() {
			err = errors.New("the journal is truncated")
		}
		for _, b := range decisions {
			var d bcp.Decision
			if err == nil {
				d, err = opens.Decode(context.Background(), b)
			}
			if err == nil {
				err = c.decision(&d)
			}
		}
		if err != nil {
			return c.Journal, fmt.Errorf("record %d: %w", i+1, err)
		}
		c.Records++
	}
	for pool, balance := range c.counted.Pools {
		c.Balances[fmt.Sprintf("%s %d", channelOf(pool.ChannelKey), pool.Epoch)] = balance
	}
	return c.Journal, nil
}

type checker struct {
	Journal
	budgets map[string]int64
	counted state.Recount
	open    map[bcp.QueryID]bool
	clients map[string]bool
	windows map[string]window       // open ones, by channel, subscription and end
	notices map[bcp.DeliveryID]bool // waiting ones
}

func channelOf(key bcp.ChannelKey) string { return string(key.Controller) + " " + string(key.Reader) }

func (c *checker) decision(d *bcp.Decision) error {
	c.Decisions++
	c.Kinds[d.Kind]++
	if d.Notice != "" && d.Kind != bcp.KindAcknowledge {
		c.notices[d.Notice] = true
	}
	if d.Repeat {
		return nil
	}
	if err := c.counted.Add(d); err != nil {
		return err
	}
	key, _ := d.Channel()
	channel := channelOf(key)
	client := channel + " " + string(d.Client)
	if by := fmt.Sprint(d.Role, client); d.Client != "" {
		if d.Verdict != bcp.Reject && c.clients[by] {
			return errors.New("a client id has two outcomes")
		}
		c.clients[by] = true
	}
	of := fmt.Sprint(channel, d.Subscription, d.Release)
	if (d.Kind == bcp.KindPush || d.Kind == bcp.KindApproval) && d.Verdict == bcp.Accept && d.Delivery == "" && d.Release > 0 {
		w := c.windows[of]
		c.windows[of] = window{w.count + 1, w.nominal + d.Nominal, w.capacity + d.Capacity}
	}
	ends := d.Delivery != "" || d.Item != ""
	switch {
	case d.Kind == bcp.KindAsk && d.Accepted():
		if c.open[d.Query] || d.Query == "" {
			return errors.New("a query id is used twice")
		}
		c.open[d.Query], c.Query[client], ends = true, string(d.Query), false
		c.count(c.Asks, channel, d)
	case d.Kind == bcp.KindPush && d.Accepted():
		c.count(c.Pushes, channel, d)
	case d.Kind == bcp.KindApproval && d.Accepted():
		if c.Decided[string(d.Item)]++; c.Decided[string(d.Item)] > 1 {
			return errors.New("an item is decided twice")
		}
		// A denied escalation ends its query; a held answer is already paid for.
		ends = d.Delivery != ""
	case (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindExpire) && ends:
		if d.Kind == bcp.KindAnswer && !c.open[d.Query] {
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
	if ends && c.open[d.Query] {
		delete(c.open, d.Query)
		c.Answered[string(d.Query)]++
	}
	return c.release(key, channel, d)
}

// count notes what a client asked or pushed.
func (c *checker) count(of map[string]int, channel string, d *bcp.Decision) {
	if d.Client != "" {
		of[channel+" "+string(d.Client)]++
		c.Order[channel] = append(c.Order[channel], string(d.Client))
	}
}

// acknowledge is of a delivery or of a notice.
func (c *checker) acknowledge(d *bcp.Decision) error {
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

// release notes what the decision releases to agents, and looks at its balance.
func (c *checker) release(key bcp.ChannelKey, channel string, d *bcp.Decision) error {
	if d.Delivery != "" {
		if c.Delivered[string(d.Delivery)]++; c.Delivered[string(d.Delivery)] > 1 {
			return errors.New("a delivery id is used twice")
		}
		c.Released[channel] = append(c.Released[channel], string(d.Delivery))
	}
	after := c.counted.Pools[bcp.PoolKey{ChannelKey: key, Epoch: d.Epoch}]
	if budget, ok := c.budgets[channel]; ok && after.Spent() > bcp.Bits(budget) {
		return fmt.Errorf("the pool of %s, epoch %d, is overdrawn", channel, d.Epoch)
	}
	if d.Balance != after {
		return fmt.Errorf("decision %d records balance %+v, the sum is %+v", d.Seq, d.Balance, after)
	}
	return nil
}
