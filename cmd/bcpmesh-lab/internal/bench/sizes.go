package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh"
)

// What sizes measures, by the names of its figures: bytes, and microseconds of
// processor time.
const (
	sizeText        = "definition of a channel, text"
	sizeDefinition  = "definition of a channel, memory"
	sizeLoad        = "definition of a channel, loading"
	sizeState       = "state of a channel, memory"
	sizeNewState    = "state of a channel, making"
	sizeSnapshot    = "snapshot of a channel"
	sizeRestore     = "snapshot of a channel, restoring"
	sizePermissions = "permissions of a channel, compiling"
	sizeClaim       = "account claims of a channel"
	sizeAgentClaim  = "account claims of an agent"
	sizeKeys        = "sealing keys of a channel and day, waiting"
	sizeDecide      = "push, deciding alone"
	sizeID          = "remembered id, memory"
	sizeIDSnapshot  = "remembered id, snapshot"
	sizeIDRestore   = "remembered id, restoring"
	sizeQuery       = "open question, memory"
)

// size is one of them.
type size struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// sizes measures the cost of a channel, an agent and the memory of messages, in a
// mesh without connections; and the delay of the first push of a day on a
// channel, for its keys.
func (r *runner) sizes() error {
	measure := func(o order) ([]size, error) {
		part, err := startProcess(r.options.Command(r))
		if err != nil {
			return nil, err
		}
		defer part.stop()
		r.folders++
		o.State = fmt.Sprintf("%s/%d", r.options.State, r.folders)
		got, err := part.do(o)
		return got.Sizes, err
	}
	few, many := shape{Readers: 500, Controllers: 500, Group: 20}, shape{Readers: 2250, Controllers: 2250, Group: 45}
	if r.options.Quick {
		few, many = shape{Readers: 8, Controllers: 8, Group: 4}, shape{Readers: 16, Controllers: 16, Group: 16}
	}
	load := Curve{Name: "processor time of a channel's definition", Over: "channels", Unit: "µs"}
	for _, s := range []shape{few, many} {
		got, err := measure(order{Do: doDefinitions, Shape: s})
		if err != nil {
			return err
		}
		for _, one := range got {
			if one.What == sizeLoad {
				load.Steps = append(load.Steps, Point{s.channels(), one.Value})
			}
			if s == many {
				r.report.add(Figure{Name: "sizes", What: one.What, Value: one.Value, Unit: one.Unit}, nil)
			}
		}
	}
	r.report.Curves = append(r.report.Curves, load)
	got, err := measure(order{Do: doMemory, Shape: straight, History: r.quick(400_000, 2_000)})
	if err != nil {
		return err
	}
	for _, one := range got {
		r.report.add(Figure{Name: "sizes", What: one.What, Value: one.Value, Unit: one.Unit}, nil)
	}
	return r.sealingKeys()
}

// sealingKeys compares the first push on a channel with a later one.
func (r *runner) sealingKeys() error {
	many := shape{Readers: r.quick(60, 10), Controllers: r.quick(60, 10), Crossed: true}
	s, _, err := r.start(pathMesh, order{Kind: kindMesh, Shape: many}, readersOnly)
	if err != nil {
		return err
	}
	defer s.stop()
	one := load{Mode: modePush, InFlight: 1, Shape: many, Duration: r.options.Duration}
	first, err := s.load(one)
	if err != nil {
		return err
	}
	if made := many.channels(); first.Count > made {
		return fmt.Errorf("%d channels are too few for %d pushes", made, first.Count)
	}
	one.Shape = shape{Readers: 1, Controllers: 1}
	again, err := s.load(one)
	if err != nil {
		return err
	}
	r.report.add(Figure{Name: "sizes", What: sizeKeys, Value: max(0, float64(first.Latency.Percentile(50)-again.Latency.Percentile(50))/float64(time.Microsecond)), Unit: "µs"}, nil)
	return nil
}

// held is the live memory of this process.
func held() float64 {
	runtime.GC()
	runtime.GC() // memory released by finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// meter measures the use since the last call.
type meter struct {
	cpu  time.Duration
	held float64
	each float64
}

func newMeter(each int) (*meter, error) {
	m := &meter{each: float64(each), held: held()}
	var err error
	m.cpu, err = ProcessorTime()
	return m, err
}

// next returns processor time in microseconds, and additional live bytes since the last
// call.
func (m *meter) next() (used, more float64, err error) {
	now, err := ProcessorTime()
	if err != nil {
		return 0, 0, err
	}
	h := held()
	used, more = float64((now-m.cpu).Microseconds())/m.each, (h-m.held)/m.each
	m.held = h
	m.cpu, err = ProcessorTime()
	return used, more, err
}

// measureDefinitions makes everything of a mesh without running it.
func measureDefinitions(folder string, s shape) (all []size, err error) {
	files := s.files(false)
	text := 0
	for _, content := range files {
		text += len(content)
	}
	n := s.channels()
	all = append(all, size{sizeText, float64(text) / float64(n), "B"})
	m, err := newMeter(n)
	if err != nil {
		return nil, err
	}
	def, report := definition.Parse(files)
	if def == nil {
		return nil, fmt.Errorf("the definitions of a measurement are wrong: %v", report.Errors)
	}
	both := func(used, more string) error {
		u, h, err := m.next()
		all = append(all, size{used, u, "µs"})
		if more != "" {
			all = append(all, size{more, h, "B"})
		}
		return err
	}
	if err := both(sizeLoad, sizeDefinition); err != nil {
		return nil, err
	}
	config := stateConfig(def)
	made, err := state.New(config)
	if err == nil {
		err = both(sizeNewState, sizeState)
	}
	if err != nil {
		return nil, err
	}
	snapshot, err := made.Checkpoint()
	if err != nil {
		return nil, err
	}
	all = append(all, size{sizeSnapshot, float64(len(snapshot)) / float64(n), "B"})
	if m, err = newMeter(n); err != nil {
		return nil, err
	}
	again, err := state.Restore(config, snapshot)
	if err == nil {
		err = both(sizeRestore, "")
	}
	if err != nil {
		return nil, err
	}
	runtime.KeepAlive(again)
	runtime.KeepAlive(made)
	if _, _, err := mesh.Keys(folder, def); err != nil { // makes the agents' keys
		return nil, err
	}
	if m, err = newMeter(n); err != nil {
		return nil, err
	}
	_, bundle, err := mesh.Keys(folder, def)
	if err == nil {
		err = both(sizePermissions, "")
	}
	if err != nil {
		return nil, err
	}
	perChannel, perAgent := claims(bundle, s)
	return append(all, size{sizeClaim, perChannel, "B"}, size{sizeAgentClaim, perAgent, "B"}), os.RemoveAll(folder)
}

// claims measures the parts of a channel and a Reader in the Readers' accounts. A
// channel needs the subject of its pushes, in base64.
func claims(bundle accounts.Bundle, s shape) (perChannel, perAgent float64) {
	all := 0
	for _, a := range bundle.Accounts {
		if strings.HasPrefix(a.Name, accounts.Readers) {
			all += len(a.JWT)
		}
	}
	perChannel = float64(len(pushSubject(s.Readers-1, s.Controllers-1))+len(`"",`)) * 4 / 3
	return perChannel, (float64(all) - perChannel*float64(s.channels())) / float64(s.Readers)
}

func stateConfig(def *bcp.Mesh) state.Config {
	return state.Config{Mesh: def, Constraints: constraint.Compile, Verify: accounts.Verify, VerifyPasskey: accounts.VerifiesPasskey, Schedules: definition.ParseSchedule,
		Definitions: definition.Digest(def), Version: "bench"}
}

var errRefused = errors.New("a message of a measurement was refused")

// measureMemory makes a state decide acknowledged pushes, and unanswered questions.
func measureMemory(s shape, pushes int) (all []size, err error) {
	def, err := s.definition(false)
	if err != nil {
		return nil, err
	}
	config := stateConfig(def)
	made, err := state.New(config)
	if err != nil {
		return nil, err
	}
	key, err := bcp.NewSealingKey([32]byte{1})
	if err != nil {
		return nil, err
	}
	apply := func(d bcp.Decision, message []byte) error {
		if d.Says() {
			if err := d.Seal(key); err != nil {
				return err
			}
			if err := d.SealRaw(key, message); err != nil {
				return err
			}
		}
		record, err := bcp.EncodeDecision(&d)
		if err != nil {
			return err
		}
		return made.Apply(&d, bcp.RecordDigest(record))
	}
	h := history{state: made, now: time.Now().Add(-historyLasts), tick: historyLasts / time.Duration(3*pushes)}
	if err := apply(made.DecideStart(h.moment(), "bench"), nil); err != nil {
		return nil, err
	}
	before, err := made.Checkpoint()
	if err != nil {
		return nil, err
	}
	m, err := newMeter(pushes)
	if err != nil {
		return nil, err
	}
	for i := range pushes {
		at := h.moment()
		who := i % s.Readers
		body := pushBody(controllerName(who), at.Fresh)
		d := made.DecidePush(at, readerName(who), controllerName(who), subscription, body)
		if d.Verdict != bcp.Accept {
			return nil, fmt.Errorf("%w: %s", errRefused, d.Code)
		}
		if err := apply(d, body); err != nil {
			return nil, err
		}
		if d, ok := made.DecideAcknowledge(h.moment(), controllerName(who), bcp.RoleController, d.Delivery); ok {
			if err := apply(d, nil); err != nil {
				return nil, err
			}
		}
	}
	used, more, err := m.next()
	if err != nil {
		return nil, err
	}
	all = append(all, size{sizeDecide, used, "µs"}, size{sizeID, more, "B"})
	snapshot, err := made.Checkpoint()
	if err != nil {
		return nil, err
	}
	all = append(all, size{sizeIDSnapshot, float64(len(snapshot)-len(before)) / float64(pushes), "B"})
	if m, err = newMeter(pushes); err != nil {
		return nil, err
	}
	again, err := state.Restore(config, snapshot)
	if err != nil {
		return nil, err
	}
	if used, _, err = m.next(); err != nil {
		return nil, err
	}
	runtime.KeepAlive(again)
	all = append(all, size{sizeIDRestore, used, "µs"})

	questions := pushes / 20
	if m, err = newMeter(questions); err != nil {
		return nil, err
	}
	for i := range questions {
		who := i % s.Controllers
		d := made.DecideAsk(h.moment(), controllerName(who), readerName(who), []byte(question))
		if d.Verdict != bcp.Accept {
			return nil, fmt.Errorf("%w: %s", errRefused, d.Code)
		}
		if err := apply(d, []byte(question)); err != nil {
			return nil, err
		}
	}
	if _, more, err = m.next(); err != nil {
		return nil, err
	}
	runtime.KeepAlive(made)
	return append(all, size{sizeQuery, more, "B"}), nil
}
