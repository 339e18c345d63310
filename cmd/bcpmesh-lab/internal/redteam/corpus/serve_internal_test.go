package corpus

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A request that is no text of a local tool is refused: too large by one, of another host
// or origin, no JSON. One at the limit is said.
func TestTargetRefuses(t *testing.T) {
	t.Parallel()
	said := 0
	handler := targetHandler("1", func(string) (Arrived, error) { said++; return Arrived{}, nil }, func(err error) { t.Error(err) })
	body := func(size int) string { return `{"text":"` + strings.Repeat("a", size-len(`{"text":""}`)) + `"}` }
	good := body(100)
	for name, c := range map[string]struct {
		method, path, host, origin, kind, body string
		status                                 int
	}{
		"good":             {"POST", "/", "127.0.0.1:1", "", "application/json", good, 200},
		"localhost":        {"POST", "/", "localhost:1", "http://localhost:1", "application/json; charset=utf-8", good, 200},
		"at the limit":     {"POST", "/", "[::1]:1", "", "application/json", body(LargestBody), 200},
		"past the limit":   {"POST", "/", "127.0.0.1:1", "", "application/json", body(LargestBody + 1), 413},
		"another host":     {"POST", "/", "attacker.example:1", "", "application/json", good, 421},
		"another port":     {"POST", "/", "127.0.0.1:2", "", "application/json", good, 421},
		"another origin":   {"POST", "/", "127.0.0.1:1", "http://attacker.example", "application/json", good, 403},
		"a form":           {"POST", "/", "127.0.0.1:1", "", "text/plain", good, 415},
		"no JSON":          {"POST", "/", "127.0.0.1:1", "", "application/json", "text", 400},
		"no text":          {"POST", "/", "127.0.0.1:1", "", "application/json", `{}`, 400},
		"an empty text":    {"POST", "/", "127.0.0.1:1", "", "application/json", `{"text":""}`, 400},
		"another member":   {"POST", "/", "127.0.0.1:1", "", "application/json", `{"text":"a","more":1}`, 400},
		"two objects":      {"POST", "/", "127.0.0.1:1", "", "application/json", good + good, 400},
		"no UTF-8":         {"POST", "/", "127.0.0.1:1", "", "application/json", "{\"text\":\"\xff\"}", 400},
		"another method":   {"GET", "/", "127.0.0.1:1", "", "application/json", "", 405},
		"another resource": {"POST", "/other", "127.0.0.1:1", "", "application/json", good, 404},
	} {
		before := said
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Host = c.host
		r.Header.Set("Content-Type", c.kind)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != c.status || (said > before) != (c.status == http.StatusOK) {
			t.Errorf("%s: %d %s, said %d", name, w.Code, w.Body, said-before)
		}
	}
}

// As many requests wait as may; one more is told to come again.
func TestTargetIsBusy(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}, MostWaiting), make(chan struct{})
	handler := targetHandler("1", func(string) (Arrived, error) { <-release; return Arrived{}, nil }, func(err error) { t.Error(err) })
	post := func(body *signal) int {
		r := httptest.NewRequest("POST", "/", body)
		r.Host = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	codes := make(chan int, MostWaiting)
	for range MostWaiting {
		go func() { codes <- post(&signal{strings.NewReader(`{"text":"a"}`), began}) }()
	}
	for range MostWaiting {
		<-began
	}
	if code := post(&signal{strings.NewReader(`{"text":"a"}`), nil}); code != http.StatusTooManyRequests {
		t.Errorf("one past the limit: %d", code)
	}
	close(release)
	for range MostWaiting {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("at the limit: %d", code)
		}
	}
}

// signal is a body that says once that it is read.
type signal struct {
	*strings.Reader
	read chan<- struct{}
}

func (s *signal) Read(p []byte) (int, error) {
	if s.read != nil {
		s.read <- struct{}{}
		s.read = nil
	}
	return s.Reader.Read(p)
}

// A mesh that lets the target down ends it.
func TestTargetFails(t *testing.T) {
	t.Parallel()
	var failed error
	handler := targetHandler("1", func(string) (Arrived, error) { return Arrived{}, errors.New("gone") }, func(err error) { failed = err })
	r := httptest.NewRequest("POST", "/", strings.NewReader(`{"text":"a"}`))
	r.Host = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusInternalServerError || failed == nil {
		t.Errorf("%d, %v", w.Code, failed)
	}
}
