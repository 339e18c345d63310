package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

const (
	// atOnce is how many agents connect at a time.
	atOnce = 16
	// connectTimeout is how long one agent tries.
	connectTimeout = time.Minute
	// connectPause is how long it waits on average between two tries.
	connectPause = 20 * time.Millisecond
)

// connect connects parties as agents. A connection that is refused because too
// many come from one host is retried, as by every client. Latency is the time
// for each, including retries.
func (p *agentsPart) connect(ctx context.Context, o order) (r reply, err error) {
	if p.readers == nil {
		p.readers, p.controllers = make(map[bcp.AgentName]*agent), make(map[bcp.AgentName]*agent)
	}
	waiting := make(chan party, len(o.Parties))
	for _, one := range o.Parties {
		waiting <- one
	}
	close(waiting)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var workers sync.WaitGroup
	begin := time.Now()
	for range max(1, o.AtOnce) {
		workers.Go(func() {
			for one := range waiting {
				started := time.Now()
				a, turnedAway, err := join(ctx, o.URL, one)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				r.Latency.add(time.Since(started))
				r.TurnedAway += turnedAway
				if one.Role == bcp.RoleReader {
					p.readers[one.Name] = a
				} else {
					p.controllers[one.Name] = a
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	r.Took, r.Count = time.Since(begin), r.Latency.Count()
	return r, context.Cause(ctx)
}

// join connects one agent, and says how often it was turned away before.
func join(ctx context.Context, url string, one party) (a *agent, turnedAway int, err error) {
	var conn *agents.Connection
	for begin := time.Now(); ; turnedAway++ {
		conn, err = agents.Connect(ctx, url, agents.CredsText([]byte(one.Creds)), agents.Options{Name: one.Name, Logger: hclog.NewNullLogger()})
		if err == nil {
			break
		}
		if ctx.Err() != nil || isPermanent(err) || time.Since(begin) > connectTimeout {
			return nil, turnedAway, err
		}
		time.Sleep(connectPause/2 + rand.N(connectPause))
	}
	a = &agent{Connection: conn, name: one.Name, arrived: make(map[string]chan time.Time), delivery: make(chan time.Time, 1)}
	switch one.Role {
	case bcp.RoleReader:
		err = a.read()
	case bcp.RolePlanner:
		err = a.plan()
	case bcp.RoleTool:
		err = a.serve()
	default:
		err = a.control()
	}
	if err != nil {
		a.Close()
		return nil, turnedAway, err
	}
	return a, turnedAway, nil
}

// isPermanent says that a retry does not help.
func isPermanent(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrMaxConnectionsExceeded) || errors.Is(err, syscall.EMFILE)
}

// agents connects a thousand agents to a mesh, then five thousand to another: it
// measures the time for that and for their credentials, and, compared with a
// mesh of one pair, their memory at server and gateway together.
func (r *runner) agents() error {
	sizes := []int{1000, 5000}
	if r.options.Quick {
		sizes = []int{20, 80}
	}
	const few = 2 // agents, of the mesh that is subtracted
	one, err := r.connected(few)
	if err != nil {
		return err
	}
	for _, n := range sizes {
		if most := server.MaxConnections(); n > most {
			r.report.add(Figure{Name: "agents", What: fmt.Sprintf("%d", n), NotMeasured: fmt.Sprintf(
				"%d connections come in here; %d need %d open files (ulimit -Hn)", most, n, server.FilesFor(n))}, nil)
			continue
		}
		all, err := r.connected(n)
		if err != nil {
			return err
		}
		r.report.Loads = append(r.report.Loads, Load{Name: "agents", Path: fmt.Sprintf("%d connect, %d times turned away", n, all.TurnedAway), InFlight: atOnce,
			P50: Span(all.Latency.Percentile(50)), P99: Span(all.Latency.Percentile(99)), Max: Span(all.Latency.Max),
			Rate: math.Round(float64(n) / all.Took.Seconds()), Processor: float64(all.CPU.Microseconds()) / float64(n)})
		figure := func(value float64, unit, what string, inFlight int, b *bound) {
			r.report.add(Figure{Name: "agents", What: fmt.Sprintf("%d, %s", n, what), InFlight: inFlight, Value: value, Unit: unit}, b)
		}
		figure(all.Compiled.Seconds(), "s", "keys and accounts", 0, nil)
		figure(all.Issued.Seconds(), "s", "creds", 0, nil)
		r.report.add(Figure{Name: "agents", What: fmt.Sprintf("%d, all connect from one host", n), InFlight: atOnce, Value: all.Took.Seconds(), Unit: "s"}, nil)
		figure(float64(all.Took)/float64(n)/float64(time.Millisecond), "ms", "connect, each", atOnce, nil)
		each := func(large, small int64) float64 { return float64(large-small) / float64(n-few) / 1000 }
		limit := atMost(64, " kB")
		figure(each(all.Usage.RSS, one.Usage.RSS), "kB", "memory of each, resident", 0, &limit)
		figure(each(all.Usage.Heap, one.Usage.Heap), "kB", "memory of each, heap and stacks", 0, nil)
	}
	return nil
}

// gathered is the cost of connecting all agents of a mesh: CPU is the mesh's
// time meanwhile, and Usage its use afterwards.
type gathered struct {
	reply
	CPU time.Duration
}

// connected starts a mesh of so many agents, and has all of them connect.
func (r *runner) connected(n int) (g gathered, err error) {
	s, err := r.start(pathMesh, order{Kind: kindMesh, Shape: shape{Readers: n / 2, Controllers: n / 2}}, nobody)
	if err != nil {
		return g, err
	}
	defer s.stop()
	before, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return g, err
	}
	if g.reply, err = s.agents.do(order{Do: doConnect, URL: s.started.URL, Parties: s.started.Parties, AtOnce: atOnce}); err != nil {
		return g, err
	}
	after, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return g, err
	}
	g.Compiled, g.Issued, g.CPU = s.started.Compiled, s.started.Issued, after.Usage.CPU-before.Usage.CPU
	time.Sleep(r.options.Duration) // greetings
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		there, err := s.host.do(order{Do: doProject})
		if err != nil {
			return g, err
		}
		if there.Count == n {
			break
		}
		if time.Since(begin) > connectTimeout {
			return g, fmt.Errorf("%d of %d agents are connected", there.Count, n)
		}
	}
	settled, err := s.host.do(order{Do: doSettle})
	g.Usage = settled.Usage
	return g, err
}
