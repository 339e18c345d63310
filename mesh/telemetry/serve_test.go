package telemetry_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
	"github.com/bcpmesh/bcpmesh/mesh/telemetry"
)

// client keeps no connections, for goleak.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}

// fetch gets a page, or says what is wrong and returns nothing.
func fetch(t testing.TB, url string) string {
	r, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	text := body(t, r)
	if r.StatusCode != http.StatusOK {
		t.Errorf("%s: %s: %s", url, r.Status, text)
		return ""
	}
	return text
}

func metricsOf(t testing.TB) *telemetry.Metrics { return telemetry.New(meshtest.Parse(t, office(""))) }

func TestServeOnLoopbackAlone(t *testing.T) {
	t.Parallel()
	metrics := metricsOf(t)
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0", "10.0.0.1:1", "127.0.0.1.example.com:0", ""} {
		s, err := telemetry.Serve(t.Context(), address, "", metrics, resting{})
		failIf(t, !errors.Is(err, telemetry.ErrNotLoopback), "%q: %v, %v", address, s, err)
	}
	s, err := telemetry.Serve(t.Context(), "127.0.0.1:99999", "", metrics, resting{})
	failIf(t, err == nil, "got %v", s)
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		s, err := telemetry.Serve(t.Context(), address, "", metrics, resting{})
		stopIf(t, err != nil, "%s: %v", address, err)
		if text := fetch(t, s.URL()); !strings.Contains(text, "\nbcpmesh_gateway_up 0\n") || strings.Contains(text, "bcpmesh_journal_decisions") {
			t.Errorf("of a mesh that rests: %s", text)
		}
		for range 2 {
			err := s.Stop(context.Background())
			failIf(t, err != nil, "%v", err)
		}
		_, err = client.Get(s.URL())
		failIf(t, err == nil, "it still serves")
	}
	taken := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	s, err = telemetry.Serve(t.Context(), taken.Addr().String(), "", metrics, resting{})
	failIf(t, err == nil, "got %v", s)
}

// Nothing but GET of two paths is served, to nobody who came by another name.
func TestHandlerRefuses(t *testing.T) {
	t.Parallel()
	m := start(t, office(""))
	h := telemetry.Handler("", m.metrics.Load(), m.Mesh)
	for _, tt := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", "/metrics", "127.0.0.1:9464", 200},
		{"GET", "/metrics", "localhost:9464", 200},
		{"GET", "/metrics", "[::1]:9464", 200},
		{"GET", "/metrics", "127.0.0.1", 200},
		{"GET", "/healthz", "127.0.0.1:9464", 200},
		{"GET", "/metrics", "evil.example:9464", 403},
		{"GET", "/metrics", "127.0.0.1.evil.example", 403},
		{"GET", "/metrics", "192.0.2.1:9464", 403},
		{"GET", "/metrics", "", 403},
		{"GET", "/healthz", "evil.example", 403},
		{"POST", "/metrics", "127.0.0.1:9464", 405},
		{"DELETE", "/healthz", "127.0.0.1:9464", 405},
		{"GET", "/", "127.0.0.1:9464", 404},
		{"GET", "/metrics/", "127.0.0.1:9464", 404},
		{"GET", "/debug/pprof/", "127.0.0.1:9464", 404},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.path, nil)
		r.Host = tt.host
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s %s of %q: %d, not %d: %s", tt.method, tt.path, tt.host, w.Code, tt.want, w.Body)
		}
	}
	w := get(h, "/healthz")
	failIf(t, w.Body.String() != "ok\n", "healthz says %q", w.Body)
	w = get(telemetry.Handler("", metricsOf(t), resting{}), "/healthz")
	failIf(t, w.Code != http.StatusServiceUnavailable, "healthz of a mesh that rests: %d", w.Code)
}

// stuck is a mesh whose gateway does not come round to anything.
type stuck struct {
	resting
	asked chan struct{}
}

func (s stuck) Inspect(ctx context.Context, _ func(*state.State)) error {
	select {
	case s.asked <- struct{}{}:
		<-ctx.Done()
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// A gateway is not kept from its work by many scrapes, and a scrape ends with
// its request.
func TestScrapesAreBounded(t *testing.T) {
	t.Parallel()
	source := stuck{asked: make(chan struct{})}
	h := telemetry.Handler("", metricsOf(t), source)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string)
	for range 2 {
		go func() {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, telemetry.MetricsPath, nil)
			r.Host = "localhost"
			h.ServeHTTP(w, r)
			done <- w.Body.String()
		}()
		<-source.asked
	}
	w := get(h, telemetry.MetricsPath)
	failIf(t, w.Code != http.StatusServiceUnavailable, "the third got %d", w.Code)
	cancel()
	for range 2 {
		text := <-done
		failIf(t, !strings.Contains(text, "bcpmesh_gateway_up 0"), "got %q", text)
	}
}

// localHosts are the addresses by which this machine is reached, loopback included.
func localHosts(t *testing.T) (hosts []string) {
	t.Helper()
	addresses := must(net.InterfaceAddrs())(t)
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.To4() != nil {
			hosts = append(hosts, network.IP.String())
		}
	}
	return hosts
}

// Beyond loopback /metrics is for who has the token alone, by any name; probes need none.
func TestServeWithToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	m := start(t, office(""))
	for _, bad := range []string{"0123456789abcde", "0123456789 abcdef", "0123456789abcdefö", "0123456789abcdef\n"} {
		s, err := telemetry.Serve(t.Context(), "127.0.0.1:0", bad, m.metrics.Load(), m.Mesh)
		failIf(t, !errors.Is(err, telemetry.ErrToken), "%q: %v, %v", bad, err, s)
	}
	s := must(telemetry.Serve(t.Context(), "0.0.0.0:0", token, m.metrics.Load(), m.Mesh))(t)
	defer func() { _ = s.Stop(context.Background()) }()
	address := must(url.Parse(s.URL()))(t)
	hosts := localHosts(t)
	stopIf(t, len(hosts) == 0, "this machine has no address")
	for _, host := range hosts {
		for _, c := range []struct {
			path, authorization string
			want                int
		}{
			{"/metrics", "Bearer " + token, 200}, {"/metrics", "bearer " + token, 200}, {"/livez", "", 200}, {"/healthz", "", 200}, {"/livez", "Bearer wrong", 200},
			{"/metrics", "", 401}, {"/metrics", "Bearer ", 401}, {"/metrics", "Bearer " + token[:15], 401}, {"/metrics", "Bearer " + token + "0", 401}, {"/metrics", "Basic " + token, 401}, {"/metrics", token, 401},
			{"/", "Bearer " + token, 404}, {"/debug/pprof/", "Bearer " + token, 404},
		} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+net.JoinHostPort(host, address.Port())+c.path, nil)
			noError(t, err)
			if c.authorization != "" {
				r.Header.Set("Authorization", c.authorization)
			}
			response := must(client.Do(r))(t)
			text := body(t, response)
			failIf(t, response.StatusCode != c.want || c.want == 401 && strings.Contains(text, "bcpmesh_"),
				"%s%s with %q: %d, not %d: %s", host, c.path, c.authorization, response.StatusCode, c.want, text)
		}
	}
}

// askedOften is a mesh that rests, and counts how often it was asked.
type askedOften struct {
	resting
	asked *atomic.Int64
}

func (c askedOften) Inspect(ctx context.Context, f func(*state.State)) error {
	c.asked.Add(1)
	return c.resting.Inspect(ctx, f)
}

// However many ask for its health at once, a gateway stops for one of them.
func TestHealthIsAskedOnce(t *testing.T) {
	t.Parallel()
	source := askedOften{asked: &atomic.Int64{}}
	h := telemetry.Handler("0123456789abcdef", metricsOf(t), source)
	begin := time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { get(h, "/healthz") })
	}
	all.Wait()
	n, most := source.asked.Load(), 1+int64(time.Since(begin)/time.Second)
	failIf(t, n < 1 || n > most, "the gateway was asked %d times, not %d", n, most)
	w := get(telemetry.Handler("0123456789abcdef", metricsOf(t), resting{}), "/livez")
	failIf(t, w.Code != http.StatusOK, "livez of a mesh that rests: %d", w.Code)
}
