package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

const (
	// floorRecord is the size of floor B's record of a message, in bytes.
	floorRecord = 300
	// floorBatch is how many messages share a record at most, as in the
	// gateway.
	floorBatch = 256
	// floorQueue is how many messages wait: more than a load has in flight.
	floorQueue = 4096
)

// A floor's messages have the sizes of the gateway's.
var (
	floorReceipt  = []byte(`{"type":"bcp_validation_result","subscription_id":"alerts","success":true,"status":"delivered","detail":""}`)
	floorDelivery = `","category":1,"from_agent":"reader-0",` + answer + `,"bandwidth_bits":2.584962501,"capacity_bits":2.584962501,"taint":"medium","channel_mode":"bcp"}`
	floorResult   = `","success":true,"status":"delivered","detail":""}`
	floorQuery    = `","controller":"main-0","category":1,"fields":[{"name":"urgent","type":"boolean"},{"name":"kind","type":"enum","values":["mail","chat","call"]}]}`
)

// floor replaces the gateway: it has the same server, accounts and connections,
// and no protocol.
type floor struct {
	server  *server.Server
	js      natsjs.JetStream
	journal *nats.Conn
	pairs   []*floorPair
	record  bool // floor B
	deliver bool // pushes are delivered
	waiting chan floorInput
	quit    chan struct{}
	done    chan struct{}
	err     error // once done is closed

	last  uint64
	chain [32]byte
}

type floorPair struct {
	reader, controller *nats.Conn
	query, deliver     string // subjects
	result             string
	readerName         bcp.AgentName
	controllerName     bcp.AgentName
	sent               int
}

// floorInput is one message; then is called once it is recorded.
type floorInput struct {
	msg  *nats.Msg
	then func(*nats.Msg) error
}

func startFloor(ctx context.Context, o order, def *bcp.Mesh) (_ *floor, err error) {
	_, bundle, err := mesh.Keys(o.State, def)
	if err != nil {
		return nil, err
	}
	f := &floor{
		record: o.Kind == kindRecord, deliver: o.Deliver, waiting: make(chan floorInput, floorQueue),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	f.server, err = server.Start(context.WithoutCancel(ctx), server.Config{
		StateDir: o.State, Bundle: bundle, SyncAlways: def.SyncInterval == 0, SyncInterval: def.SyncInterval,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.server.Stop(context.Background()) // the error before says more
		}
	}()
	if f.journal, err = f.server.Gateway(); err != nil {
		return nil, err
	}
	if f.js, err = natsjs.New(f.journal); err != nil {
		return nil, err
	}
	if err := jetstream.Create(ctx, f.js, jetstream.Topology{Replicas: def.Replicas}); err != nil {
		return nil, err
	}
	for i := range max(o.Shape.Readers, o.Shape.Controllers) {
		if err := f.listen(i); err != nil {
			return nil, err
		}
	}
	go f.run()
	return f, nil
}

// listen subscribes to the gateway's subjects, over a connection for each
// agent.
func (f *floor) listen(i int) (err error) {
	p := &floorPair{readerName: readerName(i), controllerName: controllerName(i)}
	p.query = subjects.Query(p.readerName, p.controllerName)
	p.deliver = subjects.Deliver(bcp.RoleController, p.controllerName, p.readerName)
	p.result = subjects.Deliver(bcp.RoleReader, p.readerName, p.controllerName)
	if p.reader, err = f.server.Gateway(); err != nil {
		return err
	}
	if p.controller, err = f.server.Gateway(); err != nil {
		return err
	}
	f.pairs = append(f.pairs, p)
	pushed := func(m *nats.Msg) error {
		if err := p.reader.Publish(subjects.Answer(bcp.RoleReader, p.readerName, m.Reply), floorReceipt); err != nil || !f.deliver {
			return err
		}
		return p.sendDelivery("")
	}
	asked := func(m *nats.Msg) error {
		p.sent++
		id := fmt.Sprintf("q%025d", p.sent)
		if err := p.controller.Publish(subjects.Answer(bcp.RoleController, p.controllerName, m.Reply), []byte(`{"query_id":"`+id+`","nominal_bits":2.58,"capacity_bits":2.58,"remaining_bits":100000}`)); err != nil {
			return err
		}
		return p.reader.PublishRequest(p.query, subjects.Reply(bcp.RoleReader, p.readerName, bcp.QueryID(id), 0),
			[]byte(`{"type":"bcp_query","query_id":"`+id+floorQuery))
	}
	answered := func(m *nats.Msg) error {
		id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		if err := p.reader.PublishRequest(p.result, subjects.Reply(bcp.RoleReader, p.readerName, bcp.DeliveryID("r"+id), 0),
			[]byte(`{"type":"bcp_validation_result","query_id":"`+id+floorResult)); err != nil {
			return err
		}
		return p.sendDelivery(id)
	}
	acknowledged := func(*nats.Msg) error { return nil }
	for _, s := range []struct {
		conn    *nats.Conn
		subject string
		then    func(*nats.Msg) error
	}{
		{p.reader, subjects.PushesOf(p.readerName), pushed},
		{p.reader, subjects.RepliesOf(bcp.RoleReader, p.readerName), answered},
		{p.controller, subjects.AsksOf(p.controllerName), asked},
		{p.controller, subjects.RepliesOf(bcp.RoleController, p.controllerName), acknowledged},
	} {
		_, err := s.conn.Subscribe(s.subject, func(m *nats.Msg) { f.waiting <- floorInput{m, s.then} })
		if err == nil {
			err = s.conn.Flush()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *floorPair) sendDelivery(query string) error {
	p.sent++
	id := fmt.Sprintf("d%025d", p.sent)
	return p.controller.PublishRequest(p.deliver, subjects.Reply(bcp.RoleController, p.controllerName, bcp.DeliveryID(id), 0),
		[]byte(`{"type":"bcp_response_delivery","delivery_id":"`+id+`","query_id":"`+query+floorDelivery))
}

// run takes all waiting messages, records them together in floor B, and
// replies.
func (f *floor) run() {
	defer close(f.done)
	var batch []floorInput
	for {
		select {
		case first := <-f.waiting:
			batch = append(batch[:0], first)
		case <-f.quit:
			return
		}
		for len(batch) < floorBatch && len(f.waiting) > 0 { // no other goroutine takes
			batch = append(batch, <-f.waiting)
		}
		if f.err = f.serve(batch); f.err != nil {
			return
		}
	}
}

func (f *floor) serve(batch []floorInput) error {
	if f.record {
		data := make([]byte, 0, len(batch)*floorRecord)
		for _, in := range batch {
			var record [floorRecord]byte
			copy(record[copy(record[:], f.chain[:]):], in.msg.Data)
			f.chain = sha256.Sum256(record[:])
			data = append(data, record[:]...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ack, err := f.js.PublishMsg(ctx, &nats.Msg{Subject: subjects.Commit(), Data: data}, natsjs.WithExpectLastSequence(f.last), natsjs.WithRetryAttempts(0))
		if err != nil {
			return err
		}
		f.last = ack.Sequence
	}
	for _, in := range batch {
		if err := in.then(in.msg); err != nil {
			return err
		}
	}
	return nil
}

// roundTrip measures deliveries to a Controller and their acknowledgements, one
// at a time.
func (f *floor) roundTrip(ctx context.Context, duration, pause time.Duration) (took Latencies, err error) {
	p := f.pairs[0]
	arrived := make(chan struct{}, 1)
	sub, err := p.controller.Subscribe(subjects.RepliesOf(bcp.RoleController, p.controllerName), func(*nats.Msg) { arrived <- struct{}{} })
	if err != nil {
		return took, err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	if err := p.controller.Flush(); err != nil {
		return took, err
	}
	for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(pause) {
		begin := time.Now()
		if err := p.sendDelivery(""); err != nil {
			return took, err
		}
		select {
		case <-arrived:
			took.add(time.Since(begin))
		case <-ctx.Done():
			return took, ctx.Err()
		case <-time.After(answerTimeout):
			return took, errSilent
		}
	}
	return took, nil
}

func (f *floor) stop() error {
	close(f.quit)
	<-f.done
	for _, p := range f.pairs {
		p.reader.Close()
		p.controller.Close()
	}
	f.journal.Close()
	if err := f.server.Stop(context.Background()); err != nil {
		return err
	}
	return f.err
}
