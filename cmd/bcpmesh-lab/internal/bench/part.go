package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What a part may be.
const (
	kindMesh   = "mesh"
	kindEcho   = "echo"   // floor A
	kindRecord = "record" // floor B
)

// Orders to a part.
const (
	doStart     = "start"      // run a mesh or a floor
	doRestart   = "restart"    // stop a mesh in order, and start it again
	doUsage     = "usage"      // report its use
	doSettle    = "settle"     // give memory back, then report its use
	doProject   = "project"    // wait for the projections, then report its use, and the number of connected agents
	doRoundTrip = "round-trip" // measure deliveries and their acknowledgements, from the gateway's end
	doConnect   = "connect"    // be agents
	doLoad      = "load"       // send
)

// order is one line to a part.
type order struct {
	Do string `json:"do"`

	// Of start.
	Kind     string `json:"kind,omitempty"`
	State    string `json:"state,omitempty"`
	Shape    shape  `json:"shape,omitzero"`
	Interval bool   `json:"interval,omitempty"` // sync at an interval, not always
	Deliver  bool   `json:"deliver,omitempty"`  // a floor delivers pushes
	History  int    `json:"history,omitempty"`  // decisions to write before the start

	// Of connect.
	URL     string  `json:"url,omitempty"`
	Parties []party `json:"parties,omitempty"`
	AtOnce  int     `json:"at_once,omitempty"` // of them; 0 is one after the other

	// Of load and round-trip.
	Load load `json:"load,omitzero"`
}

// party is one agent with its creds.
type party struct {
	Name  bcp.AgentName `json:"name"`
	Role  bcp.Role      `json:"role"`
	Creds string        `json:"creds"`
}

// reply is one line from a part.
type reply struct {
	Error   string        `json:"error,omitempty"`
	URL     string        `json:"url,omitempty"`
	Parties []party       `json:"parties,omitempty"`
	Took    time.Duration `json:"took"`
	Latency Latencies     `json:"latency"`
	Count   int           `json:"count,omitempty"`
	Usage   usage         `json:"usage,omitzero"`

	// Of start: how long keys and accounts took, and the creds.
	Compiled time.Duration `json:"compiled,omitempty"`
	Issued   time.Duration `json:"issued,omitempty"`
	// For connect: how often a connection was refused and retried.
	TurnedAway int `json:"turned_away,omitempty"`
	// For usage and project, if there is a mesh.
	Stored stored `json:"stored,omitzero"`
}

// usage is what a process uses.
type usage struct {
	CPU  time.Duration `json:"cpu"`            // so far
	RSS  int64         `json:"rss,omitempty"`  // bytes
	Heap int64         `json:"heap,omitempty"` // bytes in use, of runtime.MemStats
}

var (
	errSilent = errors.New("no answer came")
	errOrder  = errors.New("no such order")
)

// part is a process that carries out orders.
type part struct {
	host   *host
	begun  order // of the host
	agents *agentsPart
}

// Serve runs a part: it reads orders from in and writes replies to out until
// there are no more. It is the whole of a process that [Run] started.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	p := &part{}
	defer p.stop()
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var o order
		if err := json.Unmarshal(line, &o, durations); err != nil {
			return fmt.Errorf("an order: %w", err)
		}
		r, err := p.do(ctx, o)
		if err != nil {
			r = reply{Error: err.Error()}
		}
		b, err := json.Marshal(r, durations)
		if err != nil {
			return err
		}
		if _, err := out.Write(append(b, '\n')); err != nil {
			return err
		}
	}
}

func (p *part) do(ctx context.Context, o order) (r reply, err error) {
	switch o.Do {
	case doStart:
		p.begun = o
		p.host, r, err = startHost(ctx, o)
		return r, err
	case doRestart:
		if p.host == nil {
			return r, errOrder
		}
		p.host.stop()
		o = p.begun
		o.History = 0
		p.host, r, err = startHost(ctx, o)
		return r, err
	case doUsage:
		if p.host != nil {
			if r.Stored, err = p.host.stored(ctx); err != nil {
				return r, err
			}
		}
		r.Usage, err = measureUsage(false)
		return r, err
	case doSettle:
		r.Usage, err = measureUsage(true)
		return r, err
	case doProject:
		if p.host == nil {
			return r, errOrder
		}
		if err := p.host.projected(ctx); err != nil {
			return r, err
		}
		r.Count = p.host.connected()
		if r.Usage, err = measureUsage(false); err != nil {
			return r, err
		}
		r.Stored, err = p.host.stored(ctx)
		return r, err
	case doRoundTrip:
		if p.host == nil || p.host.floor == nil {
			return r, errOrder
		}
		r.Latency, err = p.host.floor.roundTrip(ctx, o.Load.Duration, o.Load.Pause)
		return r, err
	case doConnect:
		if p.agents == nil {
			p.agents = &agentsPart{}
		}
		return p.agents.connect(ctx, o)
	case doLoad:
		if p.agents == nil {
			return r, errOrder
		}
		return p.agents.load(ctx, o.Load)
	}
	return r, errOrder
}

func (p *part) stop() {
	if p.agents != nil {
		p.agents.close()
	}
	if p.host != nil {
		p.host.stop()
	}
}

// Between processes durations are numbers of nanoseconds.
var durations = json.JoinOptions(
	json.WithMarshalers(json.MarshalFunc(func(d time.Duration) ([]byte, error) { return strconv.AppendInt(nil, int64(d), 10), nil })),
	json.WithUnmarshalers(json.UnmarshalFunc(func(b []byte, d *time.Duration) error {
		n, err := strconv.ParseInt(string(b), 10, 64)
		*d = time.Duration(n)
		return err
	})),
)
