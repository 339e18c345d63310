package meshtest

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/subjects"
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

// Journal is the result of [CheckJournal].
type Journal struct {
	Decisions int
	Records   int
	Kinds     map[uint64]int
	// Asks and Pushes count, by "controller reader id", the first accepting
	// decisions for a request_id or push_id.
	Asks, Pushes map[string]int
	// Order has the ids of Asks and Pushes by "controller reader", in their order.
	Order map[string][]string
	// Query is the query of an ask, by the same key.
	Query map[string]string
	// Delivered and Acknowledged count decisions by delivery id.
	Delivered, Acknowledged map[string]int
	// Released are the deliveries of a channel, by "controller reader", in order.
	Released map[string][]string
	// Answered counts by query id the decisions that ended it.
	Answered map[string]int
	// Decided counts by item id the decisions of people that counted.
	Decided map[string]int
	// Balances are in nano-bits, by "controller reader epoch".
	Balances map[string]Balance
}

// Balance is the content of one pool, in nano-bits.
type Balance struct {
	Settled, Reserved, Pushed, SettledCapacity, ReservedCapacity int64
	Cat2                                                         int64
}

// Numbers of the record format that the check knows, from the documentation and
// not from the writer.
const (
	kindAsk, kindAnswer, kindPush, kindAcknowledge, kindExpire, kindApproval, kindBatch = 3, 4, 5, 6, 7, 13, 21
	verdictAccept, verdictHold                                                          = 1, 2
)

// openQuery is a query with a reservation.
type openQuery struct {
	pool              string
	nominal, capacity int64
}

// window is what waits for the end of a subscription's window.
type window struct{ count, nominal, capacity int64 }

// ReadKeys returns the sealing keys of a mesh, by subject.
func ReadKeys(t testing.TB, js natsjs.JetStream) map[string][]byte {
	t.Helper()
	keys := map[string][]byte{}
	for _, m := range ReadStream(t, js, jetstream.KeyStream) {
		keys[m.Subject] = m.Data
	}
	return keys
}

// CheckJournal reads the messages of a journal, with the keys that they are sealed
// under. It shares only the MessagePack library and the names of the keys with the
// writer. It verifies that every record has the known version, that decisions are
// numbered without a gap and chained by SHA-256, that time never goes back, that
// every balance is the sum of what came before it, that no query settles twice,
// that nothing is acknowledged that was not delivered, and that no pool exceeds
// its budget in nano-bits (by "controller reader"; a missing one is not checked).
func CheckJournal(messages [][]byte, keys map[string][]byte, budgets map[string]int64) (Journal, error) {
	c := checker{
		Journal: Journal{
			Kinds: map[uint64]int{}, Asks: map[string]int{}, Pushes: map[string]int{}, Order: map[string][]string{}, Query: map[string]string{},
			Delivered: map[string]int{}, Released: map[string][]string{}, Acknowledged: map[string]int{}, Answered: map[string]int{},
			Decided: map[string]int{}, Balances: map[string]Balance{},
		},
		budgets: budgets, keys: keys, open: map[string]openQuery{}, clients: map[string]bool{}, windows: map[string]window{}, notices: map[string]bool{}, head: make([]byte, sha256.Size),
	}
	for i, message := range messages {
		if err := c.record(message); err != nil {
			return c.Journal, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	for pool, balance := range c.Balances {
		var reserved int64
		for _, q := range c.open {
			if q.pool == pool {
				reserved += q.nominal
			}
		}
		if reserved != balance.Reserved {
			return c.Journal, fmt.Errorf("pool %s holds %d in reserve, its open queries %d", pool, balance.Reserved, reserved)
		}
	}
	return c.Journal, nil
}

type checker struct {
	Journal
	budgets map[string]int64
	keys    map[string][]byte
	open    map[string]openQuery
	clients map[string]bool
	windows map[string]window // open ones, by channel, subscription and end
	notices map[string]bool   // waiting ones
	head    []byte
	time    int64
}

func (c *checker) record(message []byte) error {
	r, err := decodeMap(message)
	if err != nil {
		return err
	}
	if number(r, "v") != 2 || len(r) != 2 {
		return fmt.Errorf("version %d with %d members", number(r, "v"), len(r))
	}
	list, ok := r["d"].([]any)
	if !ok || len(list) == 0 {
		return errors.New("no decisions")
	}
	c.Records++
	for _, item := range list {
		b, ok := item.([]byte)
		if !ok {
			return fmt.Errorf("a decision is %T, not bytes", item)
		}
		if err := c.decision(b); err != nil {
			return fmt.Errorf("decision %d: %w", c.Decisions+1, err)
		}
		sum := sha256.Sum256(append([]byte{0}, b...))
		c.head = sum[:]
	}
	return nil
}

func (c *checker) decision(b []byte) error {
	d, err := decodeMap(b)
	if err != nil {
		return err
	}
	if err := c.unseal(d); err != nil {
		return err
	}
	c.Decisions++
	prev, _ := d["h"].([]byte)
	if prev == nil {
		prev = make([]byte, sha256.Size)
	}
	switch {
	case number(d, "n") != int64(c.Decisions):
		return fmt.Errorf("is numbered %d", number(d, "n"))
	case !bytes.Equal(prev, c.head):
		return errors.New("is not chained to the one before")
	case number(d, "t") < c.time:
		return errors.New("is earlier than the one before")
	}
	c.time = number(d, "t")
	c.Kinds[uint64(number(d, "k"))]++
	if notice := text(d, "nt"); notice != "" && number(d, "k") != kindAcknowledge {
		c.notices[notice] = true
	}
	if d["rp"] == true {
		return nil
	}
	return c.effect(d)
}

// unseal adds the sealed content to a decision. With a destroyed key it stays
// absent.
func (c *checker) unseal(d map[string]any) error {
	sealed, ok := d["sl"].([]byte)
	if !ok {
		return nil
	}
	controller, reader := text(d, "co"), text(d, "re")
	if controller == "" || reader == "" {
		controller, reader = "", ""
	}
	key := c.keys[subjects.Key(bcp.AgentName(controller), bcp.AgentName(reader), subjects.SealedPayload, time.Unix(0, number(d, "t")).UTC().Format(time.DateOnly))]
	if string(key) == "destroyed" {
		return nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return fmt.Errorf("has no key: %w", err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	place := binary.BigEndian.AppendUint64([]byte("bcpmesh private 1"), uint64(number(d, "n")))
	place = append(place, text(d, "co")+"\x00"+text(d, "re")+"\x00"+text(d, "a")+"\x00"...)
	b, err := gcm.Open(nil, sealed[:12], sealed[12:], place)
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	said, err := msgpack.NewDecoder(bytes.NewReader(b)).DecodeMap()
	if err != nil {
		return err
	}
	for member, value := range said {
		if _, twice := d[member]; twice {
			return fmt.Errorf("has %s sealed and in clear", member)
		}
		d[member] = value
	}
	return nil
}

// effect sums up the changes of the decision and compares them with its balance.
func (c *checker) effect(d map[string]any) error {
	channel := text(d, "co") + " " + text(d, "re")
	pool := fmt.Sprintf("%s %d", channel, number(d, "e"))
	after := c.Balances[pool]
	accepted := number(d, "v") == verdictAccept || number(d, "v") == verdictHold
	nominal, capacity := number(d, "bn"), number(d, "bc")
	if unfunded, _ := d["uf"].(bool); unfunded { // nothing was reserved
		nominal, capacity = 0, 0
	}
	query, delivery := text(d, "q"), text(d, "d")
	client := channel + " " + text(d, "cl")
	if role := number(d, "ro"); text(d, "cl") != "" {
		key := fmt.Sprintf("%d %s", role, client)
		if number(d, "v") != 3 && c.clients[key] {
			return errors.New("a client id has two outcomes")
		}
		c.clients[key] = true
	}
	kind := number(d, "k")
	if (kind == kindPush || kind == kindApproval) && number(d, "v") == verdictAccept && delivery == "" && number(d, "rl") > 0 {
		w := c.windows[windowKey(d)]
		c.windows[windowKey(d)] = window{w.count + 1, w.nominal + nominal, w.capacity + capacity}
	}
	switch {
	case kind == kindAsk && accepted:
		if _, twice := c.open[query]; twice || query == "" {
			return errors.New("a query id is used twice")
		}
		c.open[query] = openQuery{pool, nominal, capacity}
		after.Reserved += nominal
		after.ReservedCapacity += capacity
		if number(d, "ca") == 2 {
			after.Cat2++
		}
		if text(d, "cl") != "" {
			c.Asks[client]++
			c.Order[channel] = append(c.Order[channel], text(d, "cl"))
			c.Query[client] = query
		}
	case kind == kindPush && accepted:
		after.Settled += nominal
		after.Pushed += nominal
		after.SettledCapacity += capacity
		if text(d, "cl") != "" {
			c.Pushes[client]++
			c.Order[channel] = append(c.Order[channel], text(d, "cl"))
		}
	case kind == kindApproval && accepted:
		if c.Decided[text(d, "i")]++; c.Decided[text(d, "i")] > 1 {
			return errors.New("an item is decided twice")
		}
		// A denied escalation ends its query; a held answer is already paid for.
		if _, open := c.open[query]; open && delivery != "" {
			return c.settleQuery(query, pool, delivery, d)
		}
	case (kind == kindAnswer || kind == kindExpire) && (delivery != "" || text(d, "i") != ""):
		if _, open := c.open[query]; open {
			return c.settleQuery(query, pool, delivery, d)
		} else if kind == kindAnswer {
			return errors.New("a query is answered that is not open")
		}
	case kind == kindBatch:
		w, waits := c.windows[windowKey(d)]
		if delete(c.windows, windowKey(d)); !waits || w != (window{number(d, "ct"), nominal, capacity}) {
			return errors.New("a window ends with other pushes than waited for it")
		}
	case kind == kindAcknowledge:
		return c.acknowledge(delivery, text(d, "nt"))
	default:
		return nil
	}
	return c.release(pool, channel, delivery, after, d)
}

func windowKey(d map[string]any) string {
	return fmt.Sprintf("%s %s %s %d", text(d, "co"), text(d, "re"), text(d, "su"), number(d, "rl"))
}

// settleQuery ends a query.
func (c *checker) settleQuery(query, pool, delivery string, d map[string]any) error {
	q, after := c.open[query], c.Balances[pool]
	if q.pool != pool {
		return errors.New("a query settles in another pool")
	}
	delete(c.open, query)
	c.Answered[query]++
	after.Reserved -= q.nominal
	after.ReservedCapacity -= q.capacity
	after.Settled += number(d, "bn")
	after.SettledCapacity += number(d, "bc")
	return c.release(pool, text(d, "co")+" "+text(d, "re"), delivery, after, d)
}

// acknowledge is of a delivery or of a notice.
func (c *checker) acknowledge(delivery, notice string) error {
	if notice != "" {
		if !c.notices[notice] {
			return errors.New("a notice is acknowledged that does not wait")
		}
		delete(c.notices, notice)
		return nil
	}
	if c.Delivered[delivery] != 1 {
		return errors.New("a delivery is acknowledged that was not made")
	}
	if c.Acknowledged[delivery]++; c.Acknowledged[delivery] > 1 {
		return errors.New("a delivery is acknowledged twice")
	}
	return nil
}

// release notes what the decision releases to agents, and its balance.
func (c *checker) release(pool, channel, delivery string, after Balance, d map[string]any) error {
	if delivery != "" {
		if c.Delivered[delivery]++; c.Delivered[delivery] > 1 {
			return errors.New("a delivery id is used twice")
		}
		c.Released[channel] = append(c.Released[channel], delivery)
	}
	if recorded := readBalance(d); recorded != after {
		return fmt.Errorf("records balance %+v, the sum is %+v", recorded, after)
	}
	if budget, ok := c.budgets[channel]; ok && after.Settled+after.Reserved > budget {
		return fmt.Errorf("pool %s is overdrawn", pool)
	}
	c.Balances[pool] = after
	return nil
}

func readBalance(d map[string]any) Balance {
	b, _ := d["b"].(map[string]any)
	return Balance{
		Settled: number(b, "s"), Reserved: number(b, "r"), Pushed: number(b, "p"),
		SettledCapacity: number(b, "c"), ReservedCapacity: number(b, "d"), Cat2: number(b, "q"),
	}
}

func decodeMap(b []byte) (map[string]any, error) {
	decoder := msgpack.NewDecoder(bytes.NewReader(b))
	m, err := decoder.DecodeMap()
	if err != nil {
		return nil, err
	}
	if _, err := decoder.PeekCode(); err == nil {
		return nil, errors.New("bytes behind the map")
	}
	return m, nil
}

func number(m map[string]any, key string) int64 {
	switch n := reflect.ValueOf(m[key]); {
	case n.CanInt():
		return n.Int()
	case n.CanUint():
		return int64(n.Uint())
	}
	return 0
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}
