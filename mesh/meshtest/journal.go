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

// CheckJournal reads the messages of a journal, with the keys that they are sealed
// under. It verifies that decisions are chained ([jetstream.Chain]), that their balances
// are the sum of what came before ([state.Recount]), that nothing is decided, delivered or
// acknowledged twice, that nothing is acknowledged that was not delivered, and that no pool
// exceeds its budget in nano-bits (by channel; a missing one is not checked).
func CheckJournal(messages [][]byte, keys map[string][]byte, budgets map[string]int64) (Journal, error) {
	j := Journal{
		Kinds: map[bcp.DecisionKind]int{}, Asks: map[string]int{}, Pushes: map[string]int{}, Order: map[string][]string{}, Query: map[string]string{},
		Delivered: map[string]int{}, Released: map[string][]string{}, Acknowledged: map[string]int{}, Answered: map[string]int{},
		Decided: map[string]int{}, Balances: map[string]bcp.Balance{},
	}
	opened := jetstream.GivenSealingKeys(func(_ context.Context, subject string) (bcp.GivenKey, error) {
		return bcp.GivenKey{Key: keys[subject], Destroyed: string(keys[subject]) == "destroyed"}, nil
	})
	var chain jetstream.Chain
	var sums state.Recount
	used := map[string]int{} // ids of clients and of queries
	for _, message := range messages {
		decisions, err := jetstream.DecodeRecord(message)
		if err == nil {
			err = chain.Add(decisions)
		}
		if err != nil {
			return j, fmt.Errorf("record %d: %w", j.Records+1, err)
		}
		j.Records++
		for _, b := range decisions {
			d, err := opened.Decode(context.Background(), b)
			if err == nil {
				err = sums.Add(&d)
			}
			if err == nil {
				err = j.count(&d, used)
			}
			if err != nil {
				return j, fmt.Errorf("decision %d: %w", j.Decisions+1, err)
			}
			j.Decisions++
			key, _ := d.Channel()
			spent := sums.Pools[bcp.PoolKey{ChannelKey: key, Epoch: d.Epoch}].Spent()
			if budget, ok := budgets[channelOf(&d)]; ok && spent > bcp.Bits(budget) {
				return j, fmt.Errorf("decision %d: epoch %d of %s is overdrawn", j.Decisions, d.Epoch, channelOf(&d))
			}
		}
	}
	for pool, balance := range sums.Pools {
		j.Balances[fmt.Sprintf("%s %s %d", pool.Controller, pool.Reader, pool.Epoch)] = balance
	}
	return j, nil
}

func channelOf(d *bcp.Decision) string { return string(d.Controller) + " " + string(d.Reader) }

// count notes what a decision did; what may be once is an error the second time.
func (j *Journal) count(d *bcp.Decision, used map[string]int) error {
	j.Kinds[d.Kind]++
	if d.Repeat {
		return nil
	}
	channel := channelOf(d)
	once := func(counts map[string]int, id, what string) (err error) {
		if counts[id]++; counts[id] > 1 {
			err = fmt.Errorf("%s %s twice", id, what)
		}
		return err
	}
	var errs []error
	if by := fmt.Sprint(d.Role, channel, " ", d.Client); d.Client != "" {
		if err := once(used, by, "has an outcome"); d.Verdict != bcp.Reject {
			errs = append(errs, err)
		}
	}
	switch {
	case d.Kind == bcp.KindAcknowledge && d.Notice == "":
		if j.Delivered[string(d.Delivery)] == 0 {
			errs = append(errs, errors.New("a delivery is acknowledged that was not made"))
		}
		return errors.Join(append(errs, once(j.Acknowledged, string(d.Delivery), "is acknowledged"))...)
	case d.Kind == bcp.KindAsk && d.Accepted():
		errs = append(errs, once(used, string(d.Query), "is asked"))
		j.Query[channel+" "+string(d.Client)] = string(d.Query)
		j.sent(j.Asks, channel, d)
	case d.Kind == bcp.KindPush && d.Accepted():
		j.sent(j.Pushes, channel, d)
	case d.Kind == bcp.KindApproval && d.Accepted():
		errs = append(errs, once(j.Decided, string(d.Item), "is decided"))
	}
	if (d.Kind == bcp.KindAnswer || d.Kind == bcp.KindExpire || d.Kind == bcp.KindApproval) && (d.Delivery != "" || d.Verdict == bcp.Hold) && !d.Prepaid && d.Query != "" {
		errs = append(errs, once(j.Answered, string(d.Query), "is answered"))
	}
	if d.Delivery != "" {
		errs = append(errs, once(j.Delivered, string(d.Delivery), "is delivered"))
		j.Released[channel] = append(j.Released[channel], string(d.Delivery))
	}
	return errors.Join(errs...)
}

// sent notes what a client asked or pushed.
func (j *Journal) sent(counts map[string]int, channel string, d *bcp.Decision) {
	if d.Client != "" {
		counts[channel+" "+string(d.Client)]++
		j.Order[channel] = append(j.Order[channel], string(d.Client))
	}
}
