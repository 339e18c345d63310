package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// pageStreams is how many pages are live at a time, as many as may be.
const pageStreams = 64

// pagePause is the pause before each page request of a person.
const pagePause = 100 * time.Millisecond

// watched is the shape of a mesh for pages: 200 channels.
var watched = shape{Readers: 20, Controllers: 10, Crossed: true}

// pagesPart serves the pages of a mesh, as bcpmesh web does for an auditor.
type pagesPart struct {
	conn *agents.Connection
	stop context.CancelFunc
	ends sync.WaitGroup
}

// startPages serves pages with the creds of an auditor, and returns the login
// address.
func startPages(ctx context.Context, o order) (p *pagesPart, r reply, err error) {
	def, err := o.Shape.definition(false)
	if err != nil {
		return nil, r, err
	}
	one := o.Parties[0]
	conn, err := agents.Connect(ctx, o.URL, agents.CredsText([]byte(one.Creds)), agents.Options{Name: one.Name, Logger: hclog.NewNullLogger()})
	if err != nil {
		return nil, r, err
	}
	announced := make(chan string, 1)
	s, err := web.Listen(web.Config{Listen: "localhost:0", Announce: func(address string) {
		select {
		case announced <- address:
		default: // one is enough
		}
	}})
	if err != nil {
		conn.Close()
		return nil, r, err
	}
	ctx, stop := context.WithCancel(ctx)
	p = &pagesPart{conn: conn, stop: stop}
	shown := web.Mesh{Connected: conn.NATS().IsConnected, Definition: func() *bcp.Mesh { return def },
		Auditor: agents.NewAuditor(conn), Budgets: agents.NewOperator(conn)}
	p.ends.Go(func() { s.Attend(ctx, shown) })
	p.ends.Go(func() { _ = s.Serve(ctx) }) // requests fail then, and say so
	r.URL = <-announced
	return p, r, nil
}

func (p *pagesPart) close() {
	p.stop()
	p.ends.Wait()
	p.conn.Close()
}

// reader is a person with a browser.
type reader struct {
	base   string
	client *http.Client
}

func newReader(ctx context.Context, login string) (*reader, error) {
	u, err := url.Parse(login)
	if err != nil {
		return nil, err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	b := &reader{base: u.Scheme + "://" + u.Host, client: &http.Client{Jar: jar, Transport: &http.Transport{MaxIdleConnsPerHost: pageStreams}}}
	form := url.Values{"token": {u.Query().Get("code")}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error { // to the path of the session
		b.base = strings.TrimSuffix(r.URL.String(), "/")
		return nil
	}
	_, _, err = b.do(request)
	b.client.CheckRedirect = nil
	return b, err
}

// get returns a page, and how long its first byte took.
func (b *reader) get(ctx context.Context, path string) (page string, took time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+path, nil)
	if err != nil {
		return "", 0, err
	}
	return b.do(request)
}

func (b *reader) do(request *http.Request) (page string, took time.Duration, err error) {
	begin := time.Now()
	trace := &httptrace.ClientTrace{GotFirstResponseByte: func() { took = time.Since(begin) }}
	r, err := b.client.Do(request.WithContext(httptrace.WithClientTrace(request.Context(), trace)))
	if err != nil {
		return "", 0, err
	}
	content, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return "", 0, err
	}
	if r.StatusCode != http.StatusOK || r.Request.URL.Path == "/login" {
		return "", 0, fmt.Errorf("%s: %s", request.URL.Path, r.Status)
	}
	return string(content), took, nil
}

// await waits until a page has a text.
func (b *reader) await(ctx context.Context, path, text string) error {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		page, _, err := b.get(ctx, path)
		if err != nil {
			return err
		}
		if strings.Contains(page, text) {
			return nil
		}
		if time.Since(begin) > connectTimeout {
			return fmt.Errorf("%s does not show %q", path, text)
		}
	}
}

// live opens a page's stream and reads it until ctx ends. Heard counts its messages.
func (b *reader) live(ctx context.Context, heard func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"/events", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	r, err := b.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("a live page: %s", r.Status)
	}
	for lines := bufio.NewReaderSize(r.Body, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if len(line) > 5 && string(line[:5]) == "data:" {
			heard()
		}
	}
}

// servePages starts a mesh with a history and pages.
func (r *runner) servePages(history int) (s *side, pages *process, b *reader, err error) {
	s, _, err = r.start(pathMesh, order{Kind: kindMesh, Shape: watched, History: history}, everybody)
	if err != nil {
		return nil, nil, nil, err
	}
	if pages, err = startProcess(r.options.Command(r)); err != nil {
		s.stop()
		return nil, nil, nil, err
	}
	o := order{Do: doPages, URL: s.url, Shape: watched}
	for _, one := range s.all {
		if one.Role == bcp.RoleAuditor {
			o.Parties = append(o.Parties, one)
		}
	}
	served, err := pages.do(o)
	if err == nil {
		b, err = newReader(r, served.URL)
	}
	if err != nil {
		pages.stop()
		s.stop()
		return nil, nil, nil, err
	}
	return s, pages, b, nil
}

// pages measures the time to the first byte of each page after a history, for one person
// and for eight at a time, and the cost of 64 live pages for a push among 1,000 others a
// second.
func (r *runner) pages() error {
	decisions := r.quick(1_000_000, 2_000)
	s, pages, b, err := r.servePages(decisions)
	if err != nil {
		return err
	}
	defer s.stop()
	defer pages.stop()
	newest := "/decisions/" + strconv.Itoa(decisions-1)
	if err := b.await(r, "/audit", newest); err != nil {
		return err
	}
	paths := []string{"/", "/channels/" + string(controllerName(0)) + "/" + string(readerName(0)), "/agents", "/agents/" + string(readerName(0)), "/sessions", "/audit", "/audit?page=9",
		"/audit?agent=" + string(readerName(1)), "/alerts", newest, "/decisions/" + strconv.Itoa(decisions/3)}
	for _, people := range []int{1, 8} {
		var slowest Latencies
		worst := ""
		for _, path := range paths {
			var took Latencies
			var mu sync.Mutex
			var failed error
			var all sync.WaitGroup
			for range people {
				all.Go(func() {
					for range r.quick(60, 5) {
						time.Sleep(pagePause)
						_, d, err := b.get(r, path)
						mu.Lock()
						took.add(d)
						failed = errors.Join(failed, err)
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if failed != nil {
				return failed
			}
			r.report.Loads = append(r.report.Loads, Load{Name: "pages", Path: path, InFlight: people, P50: Span(took.Percentile(50)), P99: Span(took.Percentile(99))})
			if worst == "" || took.Percentile(95) > slowest.Percentile(95) {
				slowest, worst = took, path
			}
		}
		limit := atMost(50, " ms")
		r.report.add(Figure{Name: "pages", What: fmt.Sprintf("first byte of the slowest page, %s, p95 of %d people", worst, people), Value: slowest.Percentile(95).Seconds() * 1000, Unit: "ms"}, &limit)
	}
	memory, err := pages.do(order{Do: doSettle})
	if err != nil {
		return err
	}
	r.report.add(Figure{Name: "pages", What: "heap of their process", Value: float64(memory.Usage.Heap) / 1e6, Unit: "MB"}, nil)
	return r.livePages(s, b)
}

// livePages compares a push without viewers and with 64 live pages.
func (r *runner) livePages(s *side, b *reader) error {
	l := load{Mode: modePush, InFlight: 10, Shape: watched, Duration: 4 * r.options.Duration, Pause: 9 * time.Millisecond}
	var alone, beside []measured
	heard := 0
	for round := range 2*r.rounds + 1 {
		quiet, err := s.load(l)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(r)
		var mu sync.Mutex
		count := 0
		var open sync.WaitGroup
		errs := make(chan error, pageStreams)
		for range pageStreams {
			open.Go(func() { errs <- b.live(ctx, func() { mu.Lock(); count++; mu.Unlock() }) })
		}
		live, err := s.load(l)
		cancel()
		open.Wait()
		for range pageStreams {
			if e := <-errs; !errors.Is(e, context.Canceled) {
				err = errors.Join(err, e)
			}
		}
		if err != nil {
			return err
		}
		if round > 0 {
			alone, beside, heard = append(alone, quiet), append(beside, live), heard+count
		}
	}
	if heard == 0 {
		return errors.New("no live page was updated")
	}
	a, w := summary("pages", "push, nobody looks", l.InFlight, alone), summary("pages", fmt.Sprintf("push, %d live pages", pageStreams), l.InFlight, beside)
	r.report.Loads = append(r.report.Loads, a, w)
	limit := atMost(1.02, "x alone")
	r.report.add(Figure{Name: "pages", What: fmt.Sprintf("push beside %d live pages at %.0f a second, p50", pageStreams, w.Rate), InFlight: l.InFlight, Value: micro(w.P50), Floor: micro(a.P50), FloorIs: "alone", Unit: "µs"}, &limit)
	return nil
}
