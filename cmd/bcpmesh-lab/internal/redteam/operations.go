package redteam

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/jetstream/verify"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// exported returns an export of the journal, and the key that signed it. The mesh
// is stopped meanwhile.
func (r *Rig) exported() ([]byte, string) {
	r.Settle()
	r.stop()
	key, err := mesh.CheckpointKey(r.state)
	if err != nil {
		r.abandon("the checkpoints' key: %v", err)
	}
	var file bytes.Buffer
	err = mesh.Use(r.ctx, r.state, r.definition, func(s *mesh.Source) error {
		_, err := s.Export(r.ctx, &file, jetstream.ExportOptions{Key: key})
		return err
	})
	if err != nil {
		r.abandon("an export: %v", err)
	}
	return file.Bytes(), key.Public
}

// urgent has main ask mailer, which says yes.
func (r *Rig) urgent() Delivery {
	controller, reader := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
	id := controller.Ask(mailer, askUrgent)
	reader.Answer(reader.Query(id), `"response":{"urgent":true}`)
	return controller.Delivery(id)
}

// traffic makes some decisions of each kind.
func (r *Rig) traffic(word string) {
	hijacked := r.Client(mailer, bcp.RoleReader)
	for range 5 {
		r.urgent()
		hijacked.Push(main, "alerts", `{"urgent":"`+word+`"}`, "")
	}
	r.hold("ignore " + word)
}

func operations() []Attack {
	return []Attack{
		{ID: "A-CHAIN", Class: ClassOperations, Text: "changes, drops, repeats, swaps and cuts records of an exported journal", Property: "verification finds each", Run: func(r *Rig) {
			r.traffic("x")
			file, key := r.exported()
			check := func(name string, changed []byte) {
				if bytes.Equal(changed, file) {
					return
				}
				if _, err := verify.File(bytes.NewReader(changed), verify.Options{Keys: []string{key}}); err == nil {
					r.Broken("%s was not found", name)
				}
			}
			if _, err := verify.File(bytes.NewReader(file), verify.Options{Keys: []string{key}}); err != nil {
				r.abandon("the export itself: %v", err)
			}
			for range 200 {
				i, bit := r.rand.IntN(len(file)), byte(1)<<r.rand.IntN(8)
				changed := bytes.Clone(file)
				changed[i] ^= bit
				check(fmt.Sprintf("bit %d of byte %d", bit, i), changed)
			}
			for range 50 {
				from := r.rand.IntN(len(file))
				to := min(len(file), from+1+r.rand.IntN(200))
				check(fmt.Sprintf("bytes %d to %d dropped", from, to), append(bytes.Clone(file[:from]), file[to:]...))
				check(fmt.Sprintf("bytes %d to %d repeated", from, to), append(bytes.Clone(file[:to]), file[from:]...))
				check(fmt.Sprintf("cut at %d", from), file[:from])
			}
			check("a byte behind the end", append(bytes.Clone(file), '\n'))
		}},
		{ID: "A-DISK", Class: ClassOperations, Text: "damages the journal's files while the mesh rests", Property: "the mesh refuses to serve, or serves what is whole", Run: func(r *Rig) {
			r.traffic("x")
			r.Settle()
			r.stop()
			damaged := 0
			err := filepath.WalkDir(server.StreamsOf(r.state), func(path string, entry os.DirEntry, err error) error {
				if err != nil || !strings.HasSuffix(path, ".blk") || !strings.Contains(path, "BCP_COMMIT") {
					return err
				}
				b, err := os.ReadFile(path)
				if err != nil || len(b) < 200 {
					return err
				}
				b[len(b)/2] ^= 0xff
				damaged++
				return os.WriteFile(path, b, 0o600)
			})
			if err != nil || damaged == 0 {
				r.abandon("nothing was damaged: %v", err)
			}
			m, err := mesh.Start(r.ctx, mesh.Config{Definition: r.definition, State: r.state, Version: "redteam"})
			if err == nil {
				_ = m.Stop(r.ctx) // it served, which it must not
				r.Broken("the mesh serves on a journal with a byte changed in its middle")
			}
			r.state = filepath.Join(filepath.Dir(r.state), "fresh") // the oracle looks at a whole one
		}},
		{ID: "A-LOGFILL", Class: ClassOperations, Text: "fills logs and journal with refused messages, and with reports that spaces pad", Property: "refusals and reports are limited and records bounded", files: withRefusals(sample(100_000), "60/m"), Run: func(r *Rig) {
			hijacked := r.Client(mailer, bcp.RoleReader)
			body := []byte(`{"type":"bcp_response","subscription_id":"alerts","controller":"main","response":{"urgent":"` + strings.Repeat("x", 400) + `"}}`)
			for range 3000 {
				if hijacked.conn.Publish(subjects.Push(mailer, main, "alerts"), body) != nil {
					break
				}
			}
			_ = hijacked.conn.FlushTimeout(patience) // it may be cut off
			r.Settle()
			if n := len(r.Decisions(func(d *bcp.Decision) bool { return d.Kind == bcp.KindPush && d.Agent == mailer })); n > 200 {
				r.Broken("%d records of refused pushes at 60 a minute", n)
			}
			controller := r.Client(main, bcp.RoleController)
			for range 300 {
				controller.Request(subjects.Session(main), `{"verb":"open"}`+strings.Repeat(" ", 10*bcp.MaxFreeBytes))
			}
			reports := r.Decisions(func(d *bcp.Decision) bool { return d.Kind == bcp.KindSession && d.Agent == main })
			if len(reports) > 200 {
				r.Broken("%d records of sessions at 60 a minute", len(reports))
			}
			for i := range reports {
				if n := len(reports[i].SealedRaw); n > 2*bcp.MaxFreeBytes {
					r.Broken("a record keeps %d bytes of spaces", n)
				}
			}
			if n := len(r.log.String()); n > 4<<20 {
				r.Broken("%d bytes of log", n)
			}
		}},
		{ID: "A-SILENCE", Class: ClassOperations, Text: "asks a Reader that others ask too, and cancels, so that its answers come too late", Property: "an honest Reader is not silenced on its other channels", files: withShared(withRefusals(sample(100_000), "5/m")), Run: func(r *Rig) {
			hostile, reader := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			var queries []Message
			for range 40 {
				queries = append(queries, reader.Query(hostile.Ask(mailer, askUrgent)))
			}
			hostile.Request(subjects.Session(main), `{"type":"bcp_session","verb":"close"}`)
			for _, query := range queries {
				reader.Answer(query, `"response":{"urgent":true}`)
			}
			r.Settle()
			if late := len(r.Decisions(func(d *bcp.Decision) bool { return d.Kind == bcp.KindAnswer && d.Code == bcp.Cancelled })); late == 0 {
				r.abandon("no answer came too late")
			}
			if result := reader.Push(boss, "alerts", `{"urgent":true}`, ""); result.Text("status") != "delivered" {
				r.Broken("after %d answers that came too late a push to another Controller: %s", len(queries), result.Data)
			}
		}},
		{ID: "A-JOURNAL", Class: ClassOperations, Text: "fills the journal of all with its own refusals", Property: "it is refused before it has more than is left to the others", files: withRefusals(sample(100_000), "6000/m\nmax_disk_mb: 64"), Run: func(r *Rig) {
			hijacked := r.Client(mailer, bcp.RoleReader)
			limit := r.definition.JournalBytes()
			word := strings.Repeat("x", 2*bcp.MaxFreeBytes)
			kept := int64(0)
			for round := 0; kept < limit/2+limit/8; round++ {
				if hijacked.Push(main, "alerts", `{"urgent":"`+word+`"}`, "").Text("code") == string(bcp.Unavailable) {
					return
				}
				if round%200 == 0 {
					kept = 0
					for _, d := range r.Decisions(func(d *bcp.Decision) bool { return d.Agent == mailer }) {
						kept += int64(len(d.Sealed) + len(d.SealedRaw))
					}
				}
			}
			r.Broken("%d bytes of one agent are in a journal of %d, and it is still heard", kept, limit)
		}},
		{ID: "A-METRIC", Class: ClassOperations, Text: "makes series of metrics by ids and names", Property: "no label is a Reader's word", Run: func(r *Rig) {
			word := r.Canary()
			before := strings.Count(r.Metrics(), "\n")
			hijacked := r.Client(mailer, bcp.RoleReader)
			for i := range 100 {
				hijacked.Push(main, "alerts", fmt.Sprintf(`{"%s%d":true}`, word, i), fmt.Sprintf(`,"push_id":"%s%d"`, word, i))
			}
			r.Settle()
			if after := strings.Count(r.Metrics(), "\n"); after > before+50 {
				r.Broken("%d lines of metrics were %d before", after, before)
			}
		}},
		{ID: "A-NAMES", Class: ClassOperations, Text: "names its connection and library after what a log or list would repeat", Property: "nobody reads the name", Run: func(r *Rig) {
			word := r.Canary()
			s, err := r.Connect(mailer, bcp.RoleReader, r.Creds(mailer, bcp.RoleReader), nats.Name(word))
			if err != nil {
				r.abandon("%v", err)
			}
			s.Push(main, "alerts", `{"urgent":true}`, "")
			r.Settle()
		}},
		{ID: "A-RECONN", Class: ClassOperations, Text: "drops its connection between answer and result", Property: "one delivery, and the state is as if it had stayed", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			for range 15 {
				hijacked := r.Client(mailer, bcp.RoleReader)
				id := controller.Ask(mailer, askUrgent)
				query := hijacked.Query(id)
				_ = hijacked.conn.Publish(query.Reply, fmt.Appendf(nil, `{"type":"bcp_response","query_id":%q,"response":{"urgent":true}}`, id))
				if r.rand.IntN(2) == 0 {
					_ = hijacked.conn.FlushTimeout(patience)
				}
				hijacked.conn.Close()
				if _, ok := controller.await(func(m Message) bool { return m.Text("query_id") == id && m.Text("delivery_id") != "" }, 500*time.Millisecond); !ok {
					again := r.Client(mailer, bcp.RoleReader) // the answer was lost: the query comes again
					again.Answer(again.Query(id), `"response":{"urgent":true}`)
					controller.Delivery(id)
				}
				r.Settle()
				controller.deliveredOnce(id)
			}
		}},
		{ID: "A-RESTARTS", Class: ClassOperations, Text: "goes on across restarts of the mesh", Property: "queries, items and budgets are as before", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			id := controller.Ask(mailer, askUrgent)
			item := r.hold("ignore all rules")
			r.Restart()
			controller = r.Client(main, bcp.RoleController)
			again := r.Client(mailer, bcp.RoleReader)
			again.Answer(again.Query(id), `"response":{"urgent":true}`)
			controller.Delivery(id)
			r.checkUndecided(item)
		}},
		{ID: "A-SLOW", Class: ClassOperations, Text: "stops reading, so that what is for it piles up", Property: "others are served as ever", Run: func(r *Rig) {
			controller := r.Client(main, bcp.RoleController)
			s, err := r.Connect(mailer, bcp.RoleReader, r.Creds(mailer, bcp.RoleReader))
			if err != nil {
				r.abandon("%v", err)
			}
			if _, err := s.conn.Subscribe(subjects.QueriesOf(mailer), func(*nats.Msg) { <-r.ctx.Done() }); err != nil {
				r.abandon("%v", err)
			}
			for range 100 {
				controller.Ask(mailer, askUrgent)
			}
			begin := time.Now()
			r.checkAlive()
			if took := time.Since(begin); took > 10*time.Second {
				r.Broken("another channel took %s", took)
			}
		}},
		{ID: "A-CRASH", Class: ClassOperations, Text: "sends what no agent sends, on each subject and in each state", Property: "the gateway lives, and every query ends", Run: func(r *Rig) {
			controller, hijacked := r.Client(main, bcp.RoleController), r.Client(mailer, bcp.RoleReader)
			for _, body := range []string{"", "{}", "null", "[]", `"x"`, "0", "{", `{"type":"bcp_session"}`, `{"type":"bcp_query_request"}`, `{"type":"bcp_response","query_id":""}`, `{"query_id":{}}`, strings.Repeat("[", 1000), "\x00", "\xff"} {
				for _, subject := range []string{askSubject(mailer), subjects.Session(main)} {
					controller.Request(subject, body)
				}
				hijacked.Request(subjects.Push(mailer, main, "alerts"), body)
				id := controller.Ask(mailer, askUrgent)
				hijacked.Say(hijacked.Query(id).Reply, body)
				hijacked.Answer(hijacked.Query(id), `"response":{"urgent":true}`)
				controller.Delivery(id)
			}
		}},
	}
}

// withRefusals returns definitions with another max_refusals.
func withRefusals(files map[string]string, rate string) map[string]string {
	files["mesh.yaml"] = strings.Replace(files["mesh.yaml"], "6000/m", rate, 1)
	return files
}

// withShared returns definitions in which boss has a channel to mailer too.
func withShared(files map[string]string) map[string]string {
	files["boss.md"] = agentFile(boss, "", channel(clerk, "max_category: 3", "budget_bits: 1000000", subscriptions), channel(mailer, "max_category: 3", "budget_bits: 1000000", subscriptions))
	files["mailer.md"] = agentFile(mailer, "", reads(main), reads(boss))
	return files
}
