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

// What a part may be told to do.
const (
	doStart     = "start"      // run a mesh or a floor
	doUsage     = "usage"      // say what it uses
	doSettle    = "settle"     // give memory back, then say what it uses
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
	Profile  string `json:"profile,omitempty"`  // file for a profile of the processor time

	// Of connect.
	URL     string  `json:"url,omitempty"`
	Parties []party `json:"parties,omitempty"`

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

// part is a process that does what it is told.
type part struct {
	host   *host
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
		p.host, r, err = startHost(ctx, o)
		return r, err
	case doUsage:
		r.Usage, err = measureUsage(false)
		return r, err
	case doSettle:
		r.Usage, err = measureUsage(true)
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
		return r, p.agents.connect(ctx, o.URL, o.Parties)
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
