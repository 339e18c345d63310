package redteam

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// judge looks at the five invariants of docs/ATTACKS.md. It ends the mesh.
func (r *Rig) judge() {
	r.checkAlive()
	r.Settle()
	r.quiet("the metrics have", r.Metrics())
	r.stop()
	r.controllersView()
	r.quiet("the log has", r.log.String())
	r.paid()
	r.recorded()
}

// checkAlive: another channel asks and is answered as ever (invariant 5).
func (r *Rig) checkAlive() {
	select {
	case <-r.Mesh().Done():
		r.Broken("the gateway ended")
		return
	default:
	}
	if r.files == nil { // of somebody's own definitions, who answers may have no budget left
		return
	}
	err := r.guarded(func() {
		asks, answers := r.Client(boss, bcp.RoleController), r.Client(clerk, bcp.RoleReader)
		id := asks.Ask(clerk, askUrgent)
		answers.Answer(answers.Query(id), `"response":{"urgent":true}`)
		if d := asks.Delivery(id); !strings.Contains(string(d.Response), "true") {
			r.Broken("another channel is served wrong: %s", d.Data)
		}
	})
	if err != nil {
		r.Broken("another channel is not served: %v", err)
		panic(abandoned{err}) // what follows would not finish
	}
}

// members that the gateway's messages to a Controller may have, by docs/wire.md.
var members = []string{
	"type", "delivery_id", "query_id", "subscription_id", "category", "from_agent", "response", "batch", "outcome", "anomalies",
	"bandwidth_bits", "capacity_bits", "taint", "channel_mode", "nominal_bits", "remaining_bits", "error", "detail", "retry_after_seconds",
	"session_id", "channels", "epoch", "item_id", "prompt_id", "message", "time", "request_id", "sessions", "proposal_id", "run_id",
}

// runMembers are additional members for a requester of a run.
var runMembers = []string{"status", "code"}

// controllersView: messages to Controllers are the gateway's, in one spelling, and
// contain a Reader's words only as validated values (invariants 1 and 2).
func (r *Rig) controllersView() {
	for _, m := range r.controllers {
		if len(m.Header) > 0 {
			r.Broken("a Controller's message has headers: %v", m.Header)
		}
		if len(m.Data) == 0 {
			continue
		}
		if !utf8.Valid(m.Data) {
			r.Broken("a Controller's message is no UTF-8: %q", m.Data)
			continue
		}
		for _, c := range string(m.Data) {
			if unicode.IsControl(c) || unicode.Is(unicode.Cf, c) {
				r.Broken("a Controller's message has %U: %q", c, m.Data)
				break
			}
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(m.Data, &fields); err != nil {
			r.Broken("a Controller's message is no object: %v in %q", err, m.Data)
			continue
		}
		var compact bytes.Buffer
		if json.Compact(&compact, m.Data) == nil && compact.Len() != len(m.Data) {
			r.Broken("a Controller's message has white space: %q", m.Data)
		}
		for key := range fields {
			if !slices.Contains(members, key) && !(string(fields["type"]) == `"bcp_run"` && slices.Contains(runMembers, key)) {
				r.Broken("a Controller's message has the member %q: %q", key, m.Data)
			}
		}
		delete(fields, "response")
		delete(fields, "batch")
		r.quiet("outside of values a Controller got", fmt.Sprint(m.Subject, m.Header, spell(fields)))
	}
}

func spell(fields map[string]json.RawMessage) string {
	b, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// quiet reports a canary in a text that must have nobody's words.
func (r *Rig) quiet(where, text string) {
	lower := strings.ToLower(text)
	for _, word := range r.canaries {
		if i := strings.Index(lower, word); i >= 0 {
			r.Broken("%s a Reader's word: …%s…", where, lower[max(0, i-60):min(len(lower), i+len(word)+60)])
		}
	}
}

// paid: everything told to Controllers is charged, and charges stay within
// budgets (invariant 3).
func (r *Rig) paid() {
	told, charged, seen := map[bcp.ChannelKey]float64{}, map[bcp.ChannelKey]float64{}, map[string]bool{}
	for _, m := range r.controllers {
		var d struct {
			DeliveryID string  `json:"delivery_id"`
			From       string  `json:"from_agent"`
			Bits       float64 `json:"bandwidth_bits"`
		}
		to, err := subjects.Parse(m.Subject)
		if err != nil || to.Kind != subjects.KindDeliver || json.Unmarshal(m.Data, &d) != nil || seen[d.DeliveryID] {
			continue
		}
		seen[d.DeliveryID] = true
		told[bcp.ChannelKey{Controller: to.Agent, Reader: bcp.AgentName(d.From)}] += d.Bits
	}
	for _, d := range r.Decisions(func(*bcp.Decision) bool { return true }) {
		key, ok := d.Channel()
		c, known := r.definition.Channel(key)
		if !ok || !known {
			continue
		}
		if d.Kind != bcp.KindAsk && !d.Prepaid {
			charged[key] += inBits(d.Nominal)
		}
		if spent := d.Balance.Settled + d.Balance.Reserved; spent > c.Budget {
			r.Broken("%v: %v of a budget of %v is spent in decision %d", key, spent, c.Budget, d.Seq)
		}
	}
	for key, bits := range told {
		if bits > charged[key]+1e-6 {
			r.Broken("%v: %.9f bits were told and %.9f charged", key, bits, charged[key])
		}
	}
}

func inBits(b bcp.Bits) float64 { return float64(b) / float64(bcp.Bit) }

// recorded: the journal exports, and its chain verifies (invariant 4).
func (r *Rig) recorded() {
	key, err := mesh.CheckpointKey(r.state)
	if err != nil {
		r.Broken("no key signs the journal: %v", err)
		return
	}
	var file bytes.Buffer
	ctx := context.WithoutCancel(r.ctx)
	err = mesh.Use(ctx, r.state, r.definition, func(s *mesh.Source) error {
		_, err := s.Export(ctx, &file, jetstream.ExportOptions{Key: key})
		return err
	})
	if err != nil {
		r.Broken("the journal cannot be exported: %v", err)
		return
	}
	r.quiet("an export has", file.String())
	if _, err := verify.File(&file, verify.Options{Keys: []string{key.Public}}); err != nil {
		r.Broken("the journal's chain does not verify: %v", err)
	}
	r.streamFiles()
}

// streamFiles looks for canaries in files on disk, which can be copied without
// permissions of the mesh.
func (r *Rig) streamFiles() {
	err := filepath.WalkDir(server.StreamsOf(r.state), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		r.quiet("on disk, "+entry.Name()+" has", string(b))
		return nil
	})
	if err != nil {
		r.abandon("the streams' files: %v", err)
	}
}
