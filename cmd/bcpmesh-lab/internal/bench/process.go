package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// process is a part in its own process.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	mu  sync.Mutex // one order at a time
}

func startProcess(cmd *exec.Cmd) (*process, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a part: %w", err)
	}
	return &process{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

// do gives an order and waits for the reply. The process ends with its
// command's context, and then do returns.
func (p *process) do(o order) (r reply, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := json.Marshal(o, durations)
	if err != nil {
		return r, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return r, fmt.Errorf("%s: %w", o.Do, err)
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return r, fmt.Errorf("%s: %w", o.Do, err)
	}
	if err := json.Unmarshal(line, &r, durations); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("%s: %w", o.Do, errors.New(r.Error))
	}
	return r, nil
}

// stop ends the process. What it leaves is thrown away.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// runner makes the processes of one measurement after the other.
type runner struct {
	context.Context
	options Options
	rounds  int
	folders int
	report  *Report
	done    int
}

// side is one mesh or floor with its agents.
type side struct {
	name   string
	host   *process
	agents *process
	// started is what the host said of its start: where it is, and who its agents are.
	started reply
}

func (s *side) stop() {
	s.agents.stop()
	s.host.stop()
}

// start runs a mesh or a floor; connect selects which of its agents connect.
func (r *runner) start(name string, o order, connect func(party) bool) (*side, error) {
	r.folders++
	o.Do, o.State = doStart, fmt.Sprintf("%s/%d", r.options.State, r.folders)
	s := &side{name: name}
	var err error
	if s.host, err = startProcess(r.options.Command(r)); err != nil {
		return nil, err
	}
	if s.agents, err = startProcess(r.options.Command(r)); err != nil {
		s.host.stop()
		return nil, err
	}
	if s.started, err = s.host.do(o); err == nil {
		err = s.connect(s.agents, connect)
	}
	if err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// startAll runs several paths, and returns what stops them. After an error none runs.
func (r *runner) startAll(paths ...path) (sides []*side, stop func(), err error) {
	stop = func() {
		for _, s := range sides {
			s.stop()
		}
	}
	for _, p := range paths {
		s, err := r.start(p.name, p.order, p.connect)
		if err != nil {
			stop()
			return nil, nil, err
		}
		sides = append(sides, s)
	}
	return sides, stop, nil
}

func (s *side) connect(agents *process, who func(party) bool) error {
	var chosen []party
	for _, one := range s.started.Parties {
		if who(one) {
			chosen = append(chosen, one)
		}
	}
	_, err := agents.do(order{Do: doConnect, URL: s.started.URL, Parties: chosen})
	return err
}

// measured is a load and its host's use meanwhile, in microseconds of processor
// time a message. A mesh does its projections later: including them it took
// longer and used more.
type measured struct {
	reply
	used float64

	projected     time.Duration
	usedProjected float64
	usedByAgents  float64
	// decided are the resulting decisions, records and bytes.
	decided stored
}

// batch is how many decisions a record had, 0 on a floor.
func (m measured) batch() float64 {
	return float64(m.decided.Decisions) / float64(max(1, m.decided.Records))
}

func (m measured) rate() float64          { return float64(m.Count) / m.Took.Seconds() }
func (m measured) rateProjected() float64 { return float64(m.Count) / m.projected.Seconds() }

// load makes the agents send. It returns when the projections are complete, so
// that they affect no other measurement.
func (s *side) load(l load) (m measured, err error) {
	before, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return m, err
	}
	agentsBefore, err := s.agents.do(order{Do: doUsage})
	if err != nil {
		return m, err
	}
	begin := time.Now()
	if m.reply, err = s.agents.do(order{Do: doLoad, Load: l}); err != nil {
		return m, fmt.Errorf("%s: %w", s.name, err)
	}
	after, err := s.host.do(order{Do: doUsage})
	if err != nil {
		return m, err
	}
	last, err := s.host.do(order{Do: doProject})
	if err != nil {
		return m, err
	}
	m.projected = time.Since(begin)
	agentsAfter, err := s.agents.do(order{Do: doUsage})
	if err != nil {
		return m, err
	}
	each := func(before, later reply) float64 {
		return float64((later.Usage.CPU - before.Usage.CPU).Microseconds()) / float64(max(1, m.Count))
	}
	m.used, m.usedProjected, m.usedByAgents = each(before, after), each(before, last), each(agentsBefore, agentsAfter)
	a, b := before.Stored, last.Stored
	m.decided = stored{b.Decisions - a.Decisions, b.Records - a.Records, b.Journal - a.Journal, b.Streams - a.Streams}
	return m, nil
}
