//go:build unix

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/mesh/home"
)

var (
	benchAnswers = flag.Int("bench-answers", 10_000, "recorded answers that BenchmarkRedecide decides again")
	benchRest    = flag.Duration("bench-rest", 0, "how long BenchmarkRedecide lets the journal rest; the server looks through what came within two minutes before it starts")
)

// The subscriptions of the benchmark, and what is pushed to each.
var redecideSpecs = []struct{ id, spec, answer string }{
	{"flags", `"category":1,"fields":[{"name":"is_urgent","type":"boolean"},{"name":"sentiment","type":"enum","values":["positive","neutral","negative"]},{"name":"confidence","type":"integer","min":1,"max":5}]`,
		`{"is_urgent":true,"sentiment":"neutral","confidence":%d}`},
	{"facts", `"category":2,"questions":[{"id":"who","question":"Who wrote?","max_words":5,"expected_format":"person_name"},{"id":"what","question":"What is it about?","max_words":30,"expected_format":"short_text"}]`,
		`{"who":"Maria van der Berg","what":"the vendor moves the delivery to next week, and invoice %d is paid after the quarter report"}`},
}

func (m *benchMesh) answer(i int) string {
	return fmt.Sprintf(redecideSpecs[i%len(redecideSpecs)].answer, 1+i%5)
}

// benchMesh is a folder in which a mesh has heard answers.
type benchMesh struct{ dir string }

func (m *benchMesh) write(b *testing.B, name, text string) {
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// record runs the mesh, and pushes so many answers that are delivered and
// acknowledged.
func (m *benchMesh) record(b *testing.B, answers int) {
	var subscriptions strings.Builder
	for _, s := range redecideSpecs {
		fmt.Fprintf(&subscriptions, "      - {\"id\":%q,%s}\n", s.id, s.spec)
	}
	m.write(b, "mesh.yaml", "name: bench\nsync: 1h\n")
	m.write(b, "agents/main.md", "---\nname: main\nbcp_channels:\n  - peer: mail\n    role: controller\n    max_category: 2\n    budget_bits: 1000000000\n    subscriptions:\n"+
		subscriptions.String()+"---\n")
	m.write(b, "agents/mail.md", "---\nname: mail\nbcp_channels:\n  - peer: main\n    role: reader\n---\n")
	ready := filepath.Join(m.dir, "ready.json")
	up := exec.Command("bcpmesh", "up", m.dir, "--listen", "127.0.0.1:0", "--ready-file", ready)
	up.Stderr = os.Stderr
	if err := up.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { // the journal is whole when it has ended in order
		_ = up.Process.Signal(os.Interrupt)
		if err := up.Wait(); err != nil {
			b.Fatal(err)
		}
	}()
	var about struct{ URL string }
	for deadline := time.Now().Add(scriptTimeout); about.URL == ""; time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(ready); err == nil {
			_ = json.Unmarshal(text, &about)
		}
		if time.Now().After(deadline) {
			b.Fatal("the mesh is not ready")
		}
	}
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	connect := func(name bcp.AgentName, role bcp.Role) *agents.Connection {
		store, err := accounts.Open(home.State(m.dir))
		if err != nil {
			b.Fatal(err)
		}
		creds, err := store.Issue(name, role, client.OwnCredsTTL)
		if err != nil {
			b.Fatal(err)
		}
		c, err := agents.Connect(ctx, about.URL, agents.CredsText(creds.Text()), agents.Options{Name: name})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		return c
	}
	var delivered sync.WaitGroup
	delivered.Add(answers)
	controller := agents.NewController(connect("main", bcp.RoleController))
	controller.OnDelivery(func(context.Context, bcp.Delivery) error { delivered.Done(); return nil })
	if err := controller.Start(ctx); err != nil {
		b.Fatal(err)
	}
	reader := agents.NewReader(connect("mail", bcp.RoleReader))
	const together = 64
	var pushing sync.WaitGroup
	for first := range together {
		pushing.Go(func() {
			for i := first; i < answers; i += together {
				s := redecideSpecs[i%len(redecideSpecs)]
				if _, err := reader.Push(ctx, "main", bcp.SubscriptionID(s.id), json.RawMessage(m.answer(i)), agents.PushOptions{}); err != nil {
					b.Error(err)
					delivered.Done()
				}
			}
		})
	}
	pushing.Wait()
	delivered.Wait()
	if err := controller.Stop(ctx); err != nil {
		b.Fatal(err)
	}
}

// used is what a command took: the time that passed, and processor time.
type used struct{ elapsed, processor time.Duration }

func (m *benchMesh) run(b *testing.B, least *used, args ...string) {
	out, err := os.Create(filepath.Join(m.dir, args[0]+".out"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command("bcpmesh", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, out, os.Stderr
	begin := time.Now()
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v", args, err)
	}
	elapsed := time.Since(begin)
	u := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	processor := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if least.elapsed == 0 || elapsed < least.elapsed {
		least.elapsed = elapsed
	}
	if least.processor == 0 || processor < least.processor {
		least.processor = processor
	}
}

// BenchmarkRedecide compares deciding recorded answers again with judging the
// same ones: audit redecide about the journal of a mesh that heard them, beside
// validate of a file with a line for each. Both are whole commands, in turns, and
// the shortest of each counts: others may use the machine. x is the speed of
// redecide as a part of that of validate.
//
//	go test ./cmd/bcpmesh -run '^$' -bench Redecide -benchtime 5x -bench-answers 100000 -bench-rest 2m
//
// covers P11.3
func BenchmarkRedecide(b *testing.B) {
	m := &benchMesh{b.TempDir()}
	m.record(b, *benchAnswers)
	var cases strings.Builder
	for i := range *benchAnswers {
		fmt.Fprintf(&cases, "{\"id\":%d,\"spec\":{%s},\"response\":%s}\n", i, redecideSpecs[i%len(redecideSpecs)].spec, m.answer(i))
	}
	m.write(b, "cases.jsonl", cases.String())
	time.Sleep(*benchRest)
	var again, validating used
	for b.Loop() {
		m.run(b, &again, "audit", "redecide", "--json")
		m.run(b, &validating, "validate", "cases.jsonl")
	}
	var said struct{ Same int }
	text, err := os.ReadFile(filepath.Join(m.dir, "audit.out"))
	if err == nil {
		err = json.Unmarshal(text, &said)
	}
	if err != nil || said.Same != *benchAnswers {
		b.Fatalf("decided again as it was: %d of %d, %v", said.Same, *benchAnswers, err)
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(*benchAnswers) }
	b.ReportMetric(each(again.elapsed), "us/answer")
	b.ReportMetric(each(again.processor), "cpu-us/answer")
	b.ReportMetric(each(validating.elapsed), "validate-us/answer")
	b.ReportMetric(each(validating.processor), "validate-cpu-us/answer")
	b.ReportMetric(float64(validating.elapsed)/float64(again.elapsed), "x")
	b.ReportMetric(float64(validating.processor)/float64(again.processor), "cpu-x")
}
