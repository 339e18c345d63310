package bench

import (
	"cmp"
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
	s, err := r.start(pathMesh, order{Kind: kindMesh, Shape: many}, readersOnly)
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

// meter notes what each of so many things uses, since the last call. Its first error stays.
type meter struct {
	cpu  time.Duration
	held float64
	each float64
	all  []size
	err  error
}

// restart measures from now on, and divides by so many.
func (m *meter) restart(each int) {
	m.each, m.held = float64(each), held()
	m.mark()
}

func (m *meter) mark() {
	cpu, err := ProcessorTime()
	m.cpu, m.err = cpu, cmp.Or(m.err, err)
}

// next notes processor time in microseconds, and additional live bytes; either may have no name.
func (m *meter) next(used, more string) {
	before := m.cpu
	m.mark()
	h := held()
	m.note(used, float64((m.cpu - before).Microseconds()), "µs")
	m.note(more, h-m.held, "B")
	m.held = h
	m.mark()
}

// note notes what all of them have.
func (m *meter) note(what string, value float64, unit string) {
	if what != "" {
		m.all = append(m.all, size{what, value / m.each, unit})
	}
}

// restored measures how long a checkpoint takes to restore.
func (m *meter) restored(config state.Config, checkpoint []byte, each int, what string) error {
	m.restart(each)
	again, err := state.Restore(config, checkpoint)
	m.next(what, "")
	runtime.KeepAlive(again)
	return err
}

// measureDefinitions makes everything of a mesh without running it.
func measureDefinitions(folder string, s shape) ([]size, error) {
	files := s.files(false)
	text := 0
	for _, content := range files {
		text += len(content)
	}
	n := s.channels()
	m := &meter{}
	m.restart(n)
	m.note(sizeText, float64(text), "B")
	def, report := definition.Parse(files)
	if def == nil {
		return nil, fmt.Errorf("the definitions of a measurement are wrong: %v", report.Errors)
	}
	m.next(sizeLoad, sizeDefinition)
	config := stateConfig(def)
	made, err := state.New(config)
	if err != nil {
		return nil, err
	}
	m.next(sizeNewState, sizeState)
	snapshot, err := made.Checkpoint()
	if err != nil {
		return nil, err
	}
	m.note(sizeSnapshot, float64(len(snapshot)), "B")
	if err := m.restored(config, snapshot, n, sizeRestore); err != nil {
		return nil, err
	}
	runtime.KeepAlive(made)
	if _, _, err := mesh.Keys(folder, def); err != nil { // makes the agents' keys
		return nil, err
	}
	m.restart(n)
	_, bundle, err := mesh.Keys(folder, def)
	if err != nil {
		return nil, err
	}
	m.next(sizePermissions, "")
	perChannel, perAgent := claims(bundle, s)
	return append(m.all, size{sizeClaim, perChannel, "B"}, size{sizeAgentClaim, perAgent, "B"}), errors.Join(m.err, os.RemoveAll(folder))
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
func measureMemory(s shape, pushes int) ([]size, error) {
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
	m := &meter{}
	m.restart(pushes)
	for i := range pushes {
		if err := h.push(i%s.Readers, i%s.Readers, apply); err != nil {
			return nil, err
		}
	}
	m.next(sizeDecide, sizeID)
	snapshot, err := made.Checkpoint()
	if err != nil {
		return nil, err
	}
	m.note(sizeIDSnapshot, float64(len(snapshot)-len(before)), "B")
	if err := m.restored(config, snapshot, pushes, sizeIDRestore); err != nil {
		return nil, err
	}

	questions := pushes / 20
	m.restart(questions)
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
	m.next("", sizeQuery)
	runtime.KeepAlive(made)
	return m.all, m.err
}
