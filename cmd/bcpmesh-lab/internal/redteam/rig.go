package redteam

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// patience is how long a rig waits for something that must come. A working mesh
// never takes that long.
const patience = 30 * time.Second

// Names of the sample: main asks mailer in JSON and packer in MessagePack; boss and
// clerk have nothing to do with them. ann approves, kim audits.
const (
	main   bcp.AgentName = "main"
	mailer bcp.AgentName = "mailer"
	packer bcp.AgentName = "packer"
	boss   bcp.AgentName = "boss"
	clerk  bcp.AgentName = "clerk"
	ann    bcp.AgentName = "ann"
	kim    bcp.AgentName = "kim"
)

// Rig is a mesh under attack, with all participants. Its methods end the attack
// as not run if the mesh or the machine fails.
type Rig struct {
	ctx   context.Context
	state string
	files map[string]string

	definition *bcp.Mesh
	mesh       *mesh.Mesh
	metrics    *telemetry.Metrics
	log        syncBuffer
	rand       *rand.Rand
	canaries   []string // words of Readers that nobody else may see
	round      int      // of pushes, for ids of their own
	long       bool     // too many decisions to keep

	mu          sync.Mutex
	clients     []*Client
	evidence    []string
	controllers []Message // everything that connections of Controllers got
	decisions   []bcp.Decision
}

// abandoned is the panic that ends an attack as not run.
type abandoned struct{ error }

// skipped is the panic that ends an attack that does not apply.
type skipped struct{ reason string }

func (s skipped) Error() string { return s.reason }

// skip ends the attack: it does not apply to these definitions.
func (r *Rig) skip(reason string) { panic(skipped{reason}) }

// abandon ends the attack: nothing follows from it.
func (r *Rig) abandon(format string, args ...any) {
	panic(abandoned{fmt.Errorf(format, args...)})
}

// Broken reports that the property did not hold, and the evidence.
func (r *Rig) Broken(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence = append(r.evidence, strings.ToValidUTF8(fmt.Sprintf(format, args...), "\ufffd")) // it may quote a file
}

// channel is an entry of a Controller's definition; more are further keys, a line
// each.
func channel(peer bcp.AgentName, more ...string) string {
	return "\n  - peer: " + string(peer) + "\n    role: controller\n    " + strings.Join(more, "\n    ")
}

// agentFile is a definition file.
func agentFile(name bcp.AgentName, head string, channels ...string) string {
	return "---\nname: " + string(name) + "\n" + head + "bcp_channels:" + strings.Join(channels, "") + "\n---\n"
}

func reads(controller bcp.AgentName) string {
	return "\n  - {peer: " + string(controller) + ", role: reader}"
}

const subscriptions = `subscriptions:
      - {id: alerts, category: 1, fields: [{name: urgent, type: boolean}]}
      - {id: notes, category: 2, questions: [{id: note, question: "What is new?", max_words: 4, expected_format: short_text}]}
      - {id: digest, category: 3, directive: "Sum it up.", max_words: 10}`

// sample returns the mesh for attacks. budget is that of each channel, in bits.
func sample(budget int, more ...string) map[string]string {
	rights := append([]string{"max_category: 3", fmt.Sprintf("budget_bits: %d", budget), "max_escalations: 100", "max_retries: 20", subscriptions}, more...)
	return map[string]string{
		"mesh.yaml": "approvers: [ann]\nauditors: [kim]\nmax_refusals: 6000/m\nsync: 1h\n",
		"main.md":   agentFile(main, "", channel(mailer, rights...), channel(packer, rights...)),
		"mailer.md": agentFile(mailer, "", reads(main)),
		"packer.md": agentFile(packer, "encoding: msgpack\n", reads(main)),
		"boss.md":   agentFile(boss, "", channel(clerk, "max_category: 3", "budget_bits: 1000000", subscriptions)),
		"clerk.md":  agentFile(clerk, "", reads(boss)),
	}
}

// Mesh starts the mesh, unless it runs, and returns it.
func (r *Rig) Mesh() *mesh.Mesh {
	if r.mesh != nil {
		return r.mesh
	}
	if r.definition == nil {
		texts := map[string][]byte{}
		for name, text := range r.files {
			texts[name] = []byte(text)
		}
		parsed, report := definition.Parse(texts)
		if parsed == nil {
			r.abandon("the definitions of the attack: %v", report.Errors)
		}
		r.definition = parsed
	}
	if r.metrics == nil {
		r.metrics = telemetry.New(r.definition)
	}
	m, err := mesh.Start(r.ctx, mesh.Config{
		Definition: r.definition, State: r.state, Version: "redteam",
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &r.log}),
		OnDecision: func(d *bcp.Decision) {
			r.metrics.Observe(d)
			r.mu.Lock()
			defer r.mu.Unlock()
			if !r.long {
				r.decisions = append(r.decisions, *d)
			}
		},
	})
	if err != nil {
		r.abandon("the mesh does not start: %v", err)
	}
	r.mesh = m
	return m
}

// Restart stops the mesh and starts it again on its state. All connections are
// lost.
func (r *Rig) Restart() {
	r.stop()
	r.Mesh()
}

func (r *Rig) stop() {
	r.mu.Lock()
	clients := r.clients
	r.clients = nil
	r.mu.Unlock()
	for _, s := range clients {
		s.conn.Close()
	}
	if r.mesh == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), patience)
	defer cancel()
	if err := r.mesh.Stop(ctx); err != nil {
		r.Broken("the mesh does not stop: %v", err)
	}
	r.mesh = nil
}

// Creds issues creds of an hour.
func (r *Rig) Creds(name bcp.AgentName, role bcp.Role) []byte {
	creds, err := r.Mesh().Issue(name, role, time.Hour)
	if err != nil {
		r.abandon("creds of %s: %v", name, err)
	}
	return creds.Text()
}

// Canary returns a new word that a Reader may say and nobody else may see.
func (r *Rig) Canary() string {
	const letters = "bcdfghjklmnpqrstvwxz"
	word := []byte("q")
	for range 11 {
		word = append(word, letters[r.rand.IntN(len(letters))])
	}
	r.canaries = append(r.canaries, string(word))
	return string(word)
}

// Settle returns when everything decided before has been sent.
func (r *Rig) Settle() {
	operator := r.Client(bcp.Operator, bcp.RoleOperator)
	// The first reply may come during a step, the second only after that step
	// has ended.
	for range 2 {
		operator.Request(subjects.Control(bcp.ControlSessions), "{}")
	}
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	if err := r.mesh.Flush(ctx); err != nil {
		r.abandon("the mesh does not settle: %v", err)
	}
	r.mu.Lock()
	clients := r.clients
	r.mu.Unlock()
	for _, s := range clients {
		if s.conn.IsConnected() {
			s.flush()
		}
	}
}

// Decisions returns the gateway's decisions so far.
func (r *Rig) Decisions(match func(*bcp.Decision) bool) []bcp.Decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []bcp.Decision
	for i := range r.decisions {
		if match(&r.decisions[i]) {
			found = append(found, r.decisions[i])
		}
	}
	return found
}

// Metrics returns the result of a scrape.
func (r *Rig) Metrics() string {
	w := &scrape{header: http.Header{}}
	request, err := http.NewRequestWithContext(r.ctx, http.MethodGet, "http://127.0.0.1"+telemetry.MetricsPath, nil)
	if err != nil {
		r.abandon("a scrape: %v", err)
	}
	telemetry.Handler("", r.metrics, r.Mesh()).ServeHTTP(w, request)
	if !strings.Contains(w.String(), "bcpmesh_decisions_total") {
		r.abandon("the metrics cannot be read: %.200s", w.String())
	}
	return w.String()
}

// scrape keeps what a handler writes.
type scrape struct {
	bytes.Buffer
	header http.Header
}

func (s *scrape) Header() http.Header { return s.header }
func (s *scrape) WriteHeader(int)     {}

// Message is a message to a connection.
type Message struct {
	Subject, Reply string
	Header         nats.Header
	Data           []byte
	taken          bool
}

// Text returns the text under a key of a JSON message, or the empty string.
func (m Message) Text(key string) string {
	var fields map[string]any
	if json.Unmarshal(m.Data, &fields) != nil {
		return ""
	}
	text, _ := fields[key].(string)
	return text
}

// syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(line)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newRig prepares a rig in its own folder below dir.
func newRig(ctx context.Context, dir string, a Attack, seed uint64) (*Rig, error) {
	state := filepath.Join(dir, a.ID)
	if a.files == nil && a.definition == nil {
		a.files = sample(100_000)
	}
	if err := os.Mkdir(state, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	var name uint64
	for _, c := range a.ID {
		name = name*131 + uint64(c)
	}
	return &Rig{ctx: ctx, state: filepath.Join(state, "state"), files: a.files, definition: a.definition, rand: rand.New(rand.NewPCG(seed, name))}, nil
}
