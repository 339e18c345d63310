package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/mesh/clustertest"
)

// killable is a mesh in a process of its own, with its agents.
type killable struct {
	*up
	start func() *up // another one, when this one has ended
	dir   string
}

func (k *killable) kill() { k.end(os.Kill) }

// processes are the keepers of the mesh, and their cells.
func (k *killable) processes() (keepers, cells []int) {
	for keeper, line := range children(k.t, k.cmd.Process.Pid) {
		if !strings.Contains(line, "agent run") {
			continue
		}
		keepers = append(keepers, keeper)
		for cell := range children(k.t, keeper) {
			cells = append(cells, cell)
		}
	}
	return keepers, cells
}

// newKillable starts a mesh whose researcher has the model of an endpoint, and more in its definition. ask has main ask it, and
// waits for the end of the question: what was delivered, or why it was refused.
func newKillable(t *testing.T, endpoint, more string, env ...string) (k *killable, ask func() bcp.Delivery) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	succeed(t, "init", dir, "--model", "openai/x", "--endpoint", endpoint)
	if more != "" {
		file := filepath.Join(dir, "agents", "researcher.md")
		text := readFile(t, file)
		noError(t, os.WriteFile(file, bytes.Replace(text, []byte("tools: []\n"), []byte(more), 1), 0o600))
		file = filepath.Join(dir, "mesh.yaml")
		noError(t, os.WriteFile(file, append(readFile(t, file), "\nallow_addresses: [127.0.0.0/8]\n"...), 0o600))
	}
	address, log := clustertest.FreeAddress(t), filepath.Join(t.TempDir(), "log")
	start := func() *up {
		return startUp(t, "bcpmesh", "", log, append(append(os.Environ(), "OPENAI_API_KEY=k-123"), env...), dir, "--listen", address)
	}
	k = &killable{start(), start, dir}
	creds := filepath.Join(t.TempDir(), "main.creds")
	succeed(t, "creds", "issue", "main", "--role", "controller", "--dir", dir, "--out", creds)
	conn := must(agents.Connect(t.Context(), "nats://"+address, agents.CredsFile(creds), agents.Options{Name: "main", Logger: hclog.NewNullLogger()}))(t)
	t.Cleanup(conn.Close)
	main := agents.NewController(conn)
	noError(t, main.Start(t.Context()))
	t.Cleanup(func() { _ = main.Stop(context.Background()) })
	return k, func() bcp.Delivery {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*clustertest.Patience)
		defer cancel()
		d, err := main.AskAndWait(ctx, "researcher", bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "breaking", Type: bcp.TypeBoolean}}}, agents.AskOptions{})
		var refused *agents.RefusedError
		if err != nil && !errors.As(err, &refused) {
			said := k.said()
			t.Fatalf("a question has no end: %v\n%s", err, said[max(0, len(said)-4000):])
		}
		stopIf(t, err == nil && d.Outcome == "" && string(d.Response) != `{"breaking":true}`, "delivered %+v", d)
		if refused != nil {
			return bcp.Delivery{Outcome: refused.Code}
		}
		return d
	}
}

// strike kills the cells, the keepers, the mesh, or mesh and keepers at once, as when the machine goes: one after the other.
// It returns how many processes of agents there were to kill.
func (k *killable) strike(round int) int {
	keepers, cells := k.processes()
	switch round % 4 {
	case 0:
		killAll(cells)
		return len(cells)
	case 1:
		killAll(keepers)
	case 2:
		k.kill()
		k.up = k.start()
	case 3:
		k.kill()
		killAll(keepers)
		k.up = k.start()
	}
	return len(keepers)
}

// mustStrike strikes where keeper and cell are known to be there.
func (k *killable) mustStrike(round int) {
	k.t.Helper()
	failIf(k.t, k.strike(round) == 0, "there was nobody to kill in round %d", round)
}

func killAll(processes []int) {
	for _, pid := range processes {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// usage is what the audit says once it has come to rest, since it is behind the journal for a moment.
func (k *killable) usage() *usage {
	k.t.Helper()
	var last uint64
	for deadline := time.Now().Add(clustertest.Patience); ; time.Sleep(50 * time.Millisecond) {
		before := last
		u := readUsage(k.t, k.dir)
		if last = u.last; last == before && u.last > 0 {
			return u
		}
		stopIf(k.t, time.Now().After(deadline), "the audit does not come to rest")
	}
}

// Keeper, cell and mesh are killed while a model is asked. Each question has one answer or
// ends in another of its outcomes; no call of the model is made without a record, none is
// recorded or settled twice, and what counts against the budget afterwards is what was
// settled and what nobody knows the end of.
//
// covers P15.1, ALF-60
func TestUsageSurvivesKills(t *testing.T) {
	t.Parallel()
	rounds := 4
	if bcptest.Long() {
		rounds = 20
	}
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any will do
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	var asked, served atomic.Int64
	var mu sync.Mutex
	pause := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.IntN(60)) * time.Millisecond
	}
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(pause())
		w.Header().Set("Content-Type", "text/event-stream")
		for _, data := range callOf("answer", `{"breaking":true}`) {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", data); err != nil || http.NewResponseController(w).Flush() != nil {
				return // who asked was killed
			}
			time.Sleep(pause())
		}
		served.Add(1)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })

	k, ask := newKillable(t, "http://"+listener.Addr().String()+"/v1", "")
	ask()
	for round := range rounds {
		var asking sync.WaitGroup
		asking.Go(func() { ask() })
		mu.Lock()
		wait := time.Duration(random.IntN(250)) * time.Millisecond
		mu.Unlock()
		time.Sleep(wait) // anywhere in a call
		k.strike(round)
		asking.Wait()
	}
	ask()

	k.usage().check(t, asked.Load(), served.Load())
}

// Keeper, cell and mesh are killed between two turns of a conversation: the first call of its model is recorded, answered and
// settled, and the page that it asked for has not come. The question has one answer all the same, or ends in another of its
// outcomes; the calls that were made are counted once, and each request of a page is recorded.
//
// covers P15.1, P13.1, ALF-60
func TestKilledBetweenTurns(t *testing.T) {
	t.Parallel()
	var asked, served, pages atomic.Int64
	held, release := make(chan struct{}), make(chan struct{})
	var holding atomic.Bool // whether the next page is held until its asker was killed
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages.Add(1)
		if holding.CompareAndSwap(true, false) {
			held <- struct{}{}
			<-release
		}
		_, _ = fmt.Fprint(w, "nothing new")
	}))
	t.Cleanup(page.Close)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // who asked was killed
		}
		w.Header().Set("Content-Type", "text/event-stream")
		events := callOf("web_fetch", fmt.Sprintf(`{"url":"%s/"}`, page.URL))
		if bytes.Contains(body, []byte(`"role":"tool"`)) {
			events = callOf("answer", `{"breaking":true}`)
		}
		for _, data := range events {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
		}
		served.Add(1)
	}))
	t.Cleanup(model.Close)
	host := strings.TrimPrefix(page.URL, "http://")
	k, ask := newKillable(t, model.URL+"/v1", "tools: [web_fetch]\nnetwork: ['"+host+"']\nstart_urls: ['"+page.URL+"/']\n"+
		"egress_bytes: 1GiB\negress_host_bytes: 1GiB\n") // a page whose keeper was killed counts as reserved, 3 MiB
	ask()
	rounds := 4
	if bcptest.Long() {
		rounds = 20
	}
	for round := range rounds {
		holding.Store(true)
		var asking sync.WaitGroup
		ended := make(chan struct{})
		asking.Go(func() { defer close(ended); ask() })
		select {
		case <-held:
		case <-ended:
			t.Fatalf("in round %d the question has ended, and no page was asked for", round)
		}
		k.mustStrike(round)
		release <- struct{}{}
		asking.Wait()
	}
	u := k.usage()
	u.check(t, asked.Load(), served.Load())
	failIf(t, len(u.answers) != rounds+1, "%d of %d questions were answered", len(u.answers), rounds+1)
	unsettled := len(u.reserves) - len(u.settled)
	failIf(t, unsettled > 0, "%d calls are not settled, and nobody was killed in one", unsettled)
	failIf(t, u.requests < int(pages.Load()),
		"the page was asked for %d times, and %d requests are recorded", pages.Load(), u.requests)
}

// usage is what an audit says of the calls of models, and of answers.
type usage struct {
	reserves map[string]int64 // tokens, by the id of the call
	settled  map[string]int64
	answers  map[string]int // accepted, by query
	ended    map[string]int // by query
	queries  map[string]bool
	requests int      // of pages, that were let through
	refused  []string // calls, and what counted then
	twice    []string
	used     int64
	last     uint64
}

func readUsage(t *testing.T, dir string) *usage {
	t.Helper()
	stdout := succeed(t, "audit", "replay", "--json", "--dir", dir)
	u := &usage{map[string]int64{}, map[string]int64{}, map[string]int{}, map[string]int{}, map[string]bool{}, 0, nil, nil, 0, 0}
	lines := bufio.NewScanner(bytes.NewReader([]byte(stdout)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d struct {
			Seq     uint64 `json:"seq"`
			Kind    string `json:"kind"`
			Verdict string `json:"verdict"`
			Check   string `json:"check"`
			Code    string `json:"code"`
			Query   string `json:"query_id"`
			Egress  *struct {
				Act string `json:"act"`
			} `json:"egress"`
			Usage *struct {
				Act    string `json:"act"`
				ID     string `json:"call_id"`
				Tokens int64  `json:"tokens"`
				Used   int64  `json:"used_tokens"`
			} `json:"usage"`
		}
		err := json.Unmarshal(lines.Bytes(), &d)
		stopIf(t, err != nil, "%v %v", err, lines.Text())
		u.last = d.Seq
		switch {
		case d.Kind == "ask" && d.Verdict == "accept":
			u.queries[d.Query] = true
		case d.Kind == "answer" && d.Verdict == "accept":
			u.answers[d.Query]++
		case d.Kind == "expire" && d.Query != "":
			u.ended[d.Query]++
		case d.Egress != nil && d.Verdict == "accept" && d.Egress.Act != "settle":
			u.requests++
		case d.Usage != nil && d.Verdict != "accept":
			u.refused = append(u.refused, fmt.Sprintf("%s by %s, %d tokens count", d.Code, d.Check, d.Usage.Used))
		case d.Usage != nil:
			of := u.reserves
			if d.Usage.Act == "settle" {
				of = u.settled
			}
			if _, known := of[d.Usage.ID]; known {
				u.twice = append(u.twice, d.Usage.Act+" "+d.Usage.ID)
			}
			of[d.Usage.ID] = d.Usage.Tokens
			u.used = d.Usage.Used
		}
	}
	return u
}

func (u *usage) check(t *testing.T, asked, served int64) {
	t.Helper()
	failIf(t, len(u.twice) > 0, "recorded twice: %q", u.twice)
	stopIf(t, len(u.queries) == 0 || len(u.settled) == 0,
		"%d questions, %d settled calls: nothing was tried", len(u.queries), len(u.settled))
	for q := range u.queries {
		failIf(t, u.answers[q]+u.ended[q] != 1,
			"the question %s has %d answers and ended %d times without one", q, u.answers[q], u.ended[q])
	}
	var counts int64
	for id, tokens := range u.reserves {
		if took, settled := u.settled[id]; settled {
			tokens = took
		}
		counts += tokens
	}
	for id, took := range u.settled {
		if took != 99 && took != 0 { // what the provider says that a call took; nothing of one that was not paid
			t.Errorf("the call %s is settled with %d tokens", id, took)
		}
		_, known := u.reserves[id]
		failIf(t, !known, "the call %s is settled and was not asked for", id)
	}
	failIf(t, asked > int64(len(u.reserves)),
		"the provider was asked %d times, and %d calls are recorded", asked, len(u.reserves))
	failIf(t, int64(len(u.settled)) > asked, "%d calls are settled, and the provider was asked %d times", len(u.settled), asked)
	failIf(t, u.used != counts, "%d tokens count, and the records add up to %d", u.used, counts)
	t.Logf("%d questions: %d answered; the provider was asked %d times and came to its end %d times; %d calls recorded, %d settled", len(u.queries), len(u.answers), asked, served, len(u.reserves), len(u.settled))
}
