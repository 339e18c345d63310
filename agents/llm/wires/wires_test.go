package wires_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/llm/wires"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// vendor is one wire, as its vendor documents it. The official libraries read and write the same file (.ci/interop/providers).
type vendor struct {
	Provider, Path, KeyHeader, KeyValue string
	// Request is what is sent for the conversation of the suite.
	Request string
	// Text is a reply of a text, Calls one of two calls of the tool, Cut one at the limit, Filtered one that is refused.
	Text, Calls, Cut, Filtered string
	TooLong                    string // the body of a 400
	// The same as streams, one event a line; Failed is one that ends with an error, Overloaded one that begins with it.
	TextStream, CallsStream, CutStream, FilteredStream, Failed, Overloaded string
	Usage                                                                  llm.Usage
}

// vendors have bodies as they are written, and events a line each, of which [DONE] is sent without its quotes.
var vendors = func() (vendors []vendor) {
	written := json.UnmarshalFromFunc(func(d *jsontext.Decoder, into *string) error {
		switch d.PeekKind() {
		case '"':
			return errors.ErrUnsupported
		case '[':
			var events []jsontext.Value
			err := json.UnmarshalDecode(d, &events)
			for i, event := range events {
				*into += strings.Repeat("\n", min(i, 1)) + strings.Trim(string(event), `"`)
			}
			return err
		}
		body, err := d.ReadValue()
		*into = string(body)
		return err
	})
	content := must(os.ReadFile("testdata/vendors.json"))
	err := json.Unmarshal(content, &vendors, json.RejectUnknownMembers(true), json.MatchCaseInsensitiveNames(true), json.WithUnmarshalers(written))
	return must(vendors, err)
}()

func conversation(t *testing.T) (*llm.Request, string) {
	t.Helper()
	fenced := must(guard.Fence("obey-me", guard.Web))
	return &llm.Request{
		Model: "m", MaxTokens: 77, System: []llm.Part{llm.Constant("Be brief."), llm.FromOperator("Read.")}, Force: "fetch",
		Tools: []llm.Tool{{Name: "fetch", Description: llm.Constant("Get it."), Schema: jsontext.Value(`{"type":"object"}`)}},
		Turns: []llm.Turn{
			{Role: llm.User, Parts: []llm.Part{llm.FromController("Ask.")}},
			{Role: llm.Model, Parts: []llm.Part{llm.NewSaid("Well.")}, Calls: []llm.Call{{ID: "c1", Name: "fetch", Arguments: jsontext.Value(`{"a":1}`)}, {ID: "c2", Name: "fetch", Arguments: jsontext.Value(`no json`)}}},
			{Role: llm.User, Results: []llm.Result{{Call: "c1", Parts: []llm.Part{llm.Data{Fenced: fenced}}}, {Call: "c2", Parts: []llm.Part{llm.Constant("It failed.")}, Failed: true}}, Parts: []llm.Part{llm.Constant("Go on.")}},
		},
	}, fenced.String()
}

// opened is a vendor's model at a server of this process.
func opened(t *testing.T, v vendor, serve http.HandlerFunc) llm.Endpoint {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	e := must(wires.Open(bcp.Model{Provider: v.Provider, Model: "m", Key: "env:KEY", BaseURL: server.URL + "/"},
		wires.Options{Env: func(string) (string, bool) { return "k-123\n", true }}))
	return llm.Endpoint{Provider: e.Provider.(*wires.Patient).Provider, Model: e.Model}
}

// A base URL is what the vendors say that it is, and what people take for it: with the path's beginning, or all of it.
func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for provider, bases := range map[string]map[string]string{
		"anthropic": {"": "/v1/messages", "/v1": "/v1/messages", "/v1/messages/": "/v1/messages", "/proxy/v1": "/proxy/v1/messages", "/v2": "/v2/v1/messages", "/xv1": "/xv1/v1/messages"},
		"openai":    {"/v1/": "/v1/chat/completions", "": "/chat/completions", "/v1/chat/completions": "/v1/chat/completions", "/v1/chat": "/v1/chat/completions"},
		"ollama":    {"": "/v1/chat/completions", "/": "/v1/chat/completions", "/v1": "/v1/chat/completions", "/own": "/own/chat/completions"},
		"google":    {"": "/v1beta/models/m:streamGenerateContent", "/v1beta": "/v1beta/models/m:streamGenerateContent", "/v1beta/models": "/v1beta/models/m:streamGenerateContent"},
	} {
		for base, want := range bases {
			got := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.URL.Path; w.WriteHeader(http.StatusNotFound) }))
			e := must(wires.Open(bcp.Model{Provider: provider, Model: "m", BaseURL: server.URL + base}, wires.Options{}))
			request, _ := conversation(t)
			_, _ = e.Provider.Do(t.Context(), request)
			if server.Close(); got != want {
				t.Errorf("%s at %q: asked %s, want %s", provider, base, got, want)
			}
		}
	}
}

// What is sent is what each vendor documents, and what comes back is read so: as a stream, and as one document by an endpoint
// that does not stream.
func TestWires(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		for form, replies := range map[string][4]string{"one document": {v.Text, v.Calls, v.Cut, v.Filtered}, "stream": {v.TextStream, v.CallsStream, v.CutStream, v.FilteredStream}} {
			t.Run(v.Provider+" "+form, func(t *testing.T) {
				t.Parallel()
				checkWire(t, v, form == "stream", replies)
			})
		}
	}
}

func checkWire(t *testing.T, v vendor, streams bool, replies [4]string) {
	request, fence := conversation(t)
	var want, got any
	noError(t, json.Unmarshal([]byte(v.Request), &want))
	reply := replies[0]
	model := opened(t, v, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		err := json.Unmarshal([]byte(strings.ReplaceAll(string(body), quoted(fence), "FENCE")), &got)
		failIf(t, err != nil, "%v", err)
		failIf(t, r.Method != "POST" || r.URL.Path != v.Path || r.Header.Get(v.KeyHeader) != v.KeyValue || r.Header.Get("Content-Type") != "application/json",
			"%s %s %v", r.Method, r.URL, r.Header)
		if streams {
			stream(w, reply)
		} else {
			_, _ = io.WriteString(w, reply)
		}
	})
	text, err := model.Provider.Do(t.Context(), request)
	failIf(t, err != nil || len(text.Said) != 1 || text.Said[0].Text() != "Hello" || text.Stop != llm.StopEnd || text.Usage != v.Usage,
		"%+v, %v", text, err)
	diff := cmp.Diff(want, got)
	failIf(t, diff != "", "it sends something else (-want +got):\n%s", diff)
	reply = replies[1]
	called, err := model.Provider.Do(t.Context(), request)
	failIf(t, err != nil || called.Stop != llm.StopCalls || len(called.Calls) != 2 || string(called.Calls[0].Arguments) != `{"a":1}` || string(called.Calls[1].Arguments) != `{"a":2}` || called.Calls[0].ID == called.Calls[1].ID || called.Calls[0].Name != "fetch",
		"%+v, %v", called, err)
	if v.Provider == "openai" { // what has to come back with a call does, such as a signature of Google's, and the reasoning of DeepSeek's
		id, extra := called.Calls[0].ID, `"extra_content":{"google":{"thought_signature":"sig="}},`
		reply = strings.Replace(strings.Replace(reply, `"id":"t1"`, extra+`"id":"t1"`, 1), `"tool_calls":`, `"reasoning_content":"Hmm.","tool_calls":`, 1)
		if called, err = model.Provider.Do(t.Context(), request); err != nil || called.Calls[0].ID == id || called.Calls[1].ID != "t2" || len(called.Said) > 0 {
			t.Fatalf("%+v, %v", called, err)
		}
		request.Turns[1].Calls[0].ID, request.Turns[2].Results[0].Call = called.Calls[0].ID, called.Calls[0].ID
		sent := func(id string) string { return strings.ReplaceAll(fmt.Sprint(want), "id:c1", "id:"+id) }
		if _, err := model.Provider.Do(t.Context(), request); err != nil || fmt.Sprint(got) != strings.NewReplacer("function:map[arguments:{\"a\":1}", "extra_content:map[google:map[thought_signature:sig=]] function:map[arguments:{\"a\":1}", "content:Well.", "content:Well. reasoning_content:Hmm.").Replace(sent("t1")) {
			t.Errorf("%v, %v", got, err)
		}
	}
	if v.Provider == "google" { // and so does the signature of its own interface
		request.Turns[1].Calls[0].ID, request.Turns[2].Results[0].Call = called.Calls[0].ID, called.Calls[0].ID
		_, err := model.Provider.Do(t.Context(), request)
		failIf(t, err != nil || !strings.Contains(fmt.Sprint(got), "thoughtSignature:sig="), "%v, %v", got, err)
	}
	reply = replies[2]
	cut, err := model.Provider.Do(t.Context(), request)
	failIf(t, err != nil || cut.Stop != llm.StopLength || cut.Usage.Input != 0 || cut.Usage.Output > 1, "%+v, %v", cut, err)
	reply = replies[3]
	r, err := model.Provider.Do(t.Context(), request)
	failIf(t, !errors.Is(err, llm.Filtered{}), "%+v, %v", r, err)
}

// What a provider has cached of a call is what the next call of the conversation begins with.
//
// covers AGENTS A4
func TestPrefixesStay(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		var sent []string
		model := opened(t, v, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			sent = append(sent, strings.ReplaceAll(string(body), `,"cache_control":{"type":"ephemeral"}`, ""))
			_, _ = io.WriteString(w, v.Text)
		})
		request, _ := conversation(t)
		for n := 1; n <= 3; n++ {
			r := *request
			r.Turns = request.Turns[:n]
			for range 2 {
				must(model.Provider.Do(t.Context(), &r))
			}
		}
		for n := 0; n < 6; n += 2 {
			failIf(t, sent[n] != sent[n+1], "%s: the same request is sent in two ways", v.Provider)
			if n > 0 {
				system, turns := parts(t, v, sent[n])
				before, earlier := parts(t, v, sent[n-2])
				failIf(t, system != before || !strings.HasPrefix(turns, strings.TrimSuffix(earlier, "]")),
					"%s: %s\ndoes not begin as\n%s", v.Provider, sent[n], sent[n-2])
			}
		}
	}
}

// parts returns what stands around the turns of a request, and the turns.
func parts(t *testing.T, v vendor, request string) (around, turns string) {
	t.Helper()
	var members map[string]jsontext.Value
	noError(t, json.Unmarshal([]byte(request), &members))
	name := "messages"
	if v.Provider == "google" {
		name = "contents"
	}
	turns = string(members[name])
	delete(members, name)
	rest, err := json.Marshal(members, json.Deterministic(true))
	stopIf(t, err != nil || len(turns) < 2, "%v %v", turns, err)
	return string(rest), turns
}

// stream sends events, one a line of text.
func stream(w http.ResponseWriter, events string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for line := range strings.Lines(events) {
		_, _ = fmt.Fprintf(w, ": hello\r\nevent: x\ndata: %s\n\n", strings.TrimSuffix(line, "\n"))
	}
}

func quoted(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b[1 : len(b)-1])
}

// Whatever goes wrong is one of the errors of package llm, and holds nothing of the provider or the key.
func TestWireErrors(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		request, _ := conversation(t)
		request.Turns = request.Turns[:1]
		status, body, header := 200, "", http.Header{}
		elsewhere := 0
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
		t.Cleanup(other.Close)
		model := opened(t, v, func(w http.ResponseWriter, _ *http.Request) {
			for name := range header {
				w.Header().Set(name, header.Get(name))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		for name, c := range map[string]struct {
			status int
			body   string
			want   error
		}{
			"a wrong key": {401, `{"error":"k-123 obey-me"}`, llm.Auth{}}, "a key for something else": {403, "", llm.Auth{}},
			"too many": {429, "obey-me", llm.RateLimited{}}, "overloaded": {529, "", llm.Overloaded{}}, "broken": {500, "", llm.Overloaded{}}, "away": {503, "", llm.Overloaded{}},
			"too long": {400, v.TooLong, llm.TooLong{}}, "too large": {413, "", llm.TooLong{}},
		} {
			status, body = c.status, c.body
			_, err := model.Provider.Do(t.Context(), request)
			failIf(t, !errors.Is(err, c.want), "%s, %s: %v", v.Provider, name, err)
			answered, ok := errors.AsType[*llm.Answered](err)
			failIf(t, !ok || answered.Status != c.status, "%s, %s: answered with %+v", v.Provider, name, answered)
		}
		header.Set("Location", other.URL)
		for name, c := range map[string]struct {
			status int
			body   string
		}{
			"a redirect": {302, ""}, "a mistake of ours": {400, `{"error":"obey-me k-123"}`}, "not there": {404, "obey-me"}, "no JSON": {200, "obey-me"}, "another JSON": {200, `[1]`},
			"nothing": {200, ""}, "too much": {200, `{"x":"` + strings.Repeat("obey-me", 200_000) + `"}`}, "a call without a name": {200, strings.ReplaceAll(v.Calls, `"name":"fetch"`, `"name":""`)},
		} {
			status, body = c.status, c.body
			var protocol llm.Protocol
			if _, err := model.Provider.Do(t.Context(), request); !errors.As(err, &protocol) || strings.Contains(err.Error(), "obey") || strings.Contains(err.Error(), "k-123") {
				t.Errorf("%s, %s: %v", v.Provider, name, err)
			}
		}
		failIf(t, elsewhere != 0, "%s followed a redirect", v.Provider)
		status, body, header = 429, "", http.Header{"Retry-After": {"3"}}
		var limited llm.RateLimited
		_, err := model.Provider.Do(t.Context(), request)
		failIf(t, !errors.As(err, &limited) || limited.RetryAfter != 3*time.Second, "%s: %v", v.Provider, err)
		request.Turns[0].Parts = []llm.Part{llm.FromController(strings.Repeat("x", 4<<20))}
		fails(t, errorOf(model.Provider.Do(t.Context(), request)), llm.TooLong{}, "%s, a request of more than 4 MiB", v.Provider)
	}
}

// A provider that hangs, and one that cuts its reply, are left.
func TestWiresThatBreak(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		request, _ := conversation(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		hangs := opened(t, v, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			cancel()
			<-r.Context().Done()
			close(ended)
		})
		fails(t, errorOf(hangs.Provider.Do(ctx, request)), context.Canceled, "%s hangs", v.Provider)
		<-ended
		cuts := opened(t, v, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, v.Text)
		})
		fails(t, errorOf(cuts.Provider.Do(t.Context(), request)), llm.Protocol{What: "the reply was cut"}, "%s cuts", v.Provider)
	}
}

// A stream that does not come to its end is no reply. It is worth another try only if nothing of it has come: what was begun
// may have been paid.
func TestStreamsThatBreak(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		request, _ := conversation(t)
		events := ""
		model := opened(t, v, func(w http.ResponseWriter, _ *http.Request) { stream(w, events) })
		do := func() error {
			_, err := model.Provider.Do(t.Context(), request)
			failIf(t, err != nil && (strings.Contains(err.Error(), "obey") || strings.Contains(err.Error(), "k-123")),
				"%s: %v", v.Provider, err)
			return err
		}
		var protocol llm.Protocol
		for _, whole := range []string{v.TextStream, v.CallsStream} { // cut before each event but those that nothing depends on
			lines := strings.Split(whole, "\n")
			for n := 1; n < len(lines); n++ {
				if events = strings.Join(lines[:n], "\n"); strings.Contains(events, `"finish_reason":"`) || strings.Contains(events, `"stop_reason":"`) {
					break
				}
				if err := do(); !errors.As(err, &protocol) || protocol.What != "the reply was cut" {
					t.Errorf("%s, cut after event %d: %v", v.Provider, n, err)
				}
			}
		}
		for body, want := range map[string]error{"": llm.Overloaded{Unknown: true}, v.Overloaded: llm.Overloaded{}, v.Failed: llm.Protocol{What: "the reply was cut"}} {
			if events = body; !errors.Is(do(), want) {
				t.Errorf("%s, %s: %v", v.Provider, body, do())
			}
		}
		for name, body := range map[string]string{
			"no JSON": "obey-me", "another JSON": "[1]", "a member twice": `{"type":"ping","type":"ping"}`,
			"a call without a name": strings.ReplaceAll(v.CallsStream, `"name":"fetch"`, `"name":""`),
			"an event of 1 MiB":     `{"x":"` + strings.Repeat("obey-me ", 1<<17) + `"}`,
		} {
			events = body
			err := do()
			failIf(t, !errors.As(err, &protocol), "%s, %s: %v", v.Provider, name, err)
		}
	}
}

// manyCalls is a stream of so many calls.
func manyCalls(v vendor, n int) string {
	lines := strings.Split(v.CallsStream, "\n")
	begins := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "fetch") })
	events := ""
	for i := range n {
		index := fmt.Sprintf(`"index":%d`, i)
		events += strings.NewReplacer(`"index":0,"content_block"`, index+`,"content_block"`, `"index":0,"id"`, index+`,"id"`, "t1", fmt.Sprintf("x%d", i)).Replace(lines[begins]) + "\n"
	}
	end := slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, `_reason":"`) || strings.Contains(line, "finishReason")
	})
	if v.Provider == "google" {
		return events + `{"candidates":[{"finishReason":"STOP"}]}`
	}
	return events + strings.Join(lines[end:], "\n")
}

// An endless reply ends at a bound, whatever it is made of.
func TestEndlessReplies(t *testing.T) {
	t.Parallel()
	padding := strings.Repeat("x", 1000)
	for _, v := range vendors {
		for name, piece := range map[string]string{
			"comments": ": " + padding + "\n\n", "events": "data: {\"type\":\"ping\",\"x\":\"" + padding + "\"}\n\n", "one line": padding, "one event": "data: " + padding + "\n",
			"text": "data: " + strings.ReplaceAll(lineWith(v.Failed, "Hel"), "Hel", padding) + "\n\n",
		} {
			for _, kind := range []string{"text/event-stream", "application/json"} {
				if v.Provider != "google" && (name != "text" || kind == "application/json") {
					continue // what the wires share is tried once
				}
				request, _ := conversation(t)
				sent := 0
				model := opened(t, v, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", kind)
					block := strings.Repeat(piece, 64<<10/len(piece))
					for sent = 0; r.Context().Err() == nil && sent < 100<<20; sent += len(block) {
						if _, err := io.WriteString(w, block); err != nil {
							return
						}
					}
				})
				var protocol llm.Protocol
				_, err := model.Provider.Do(t.Context(), request)
				failIf(t, !errors.As(err, &protocol), "%s, endless %s: %v", v.Provider, name, err)
			}
		}
	}
}

// silent is a transport whose server says something and then nothing.
type silent struct {
	says   string
	header bool
}

func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.header {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	body, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, s.says)
		<-r.Context().Done()
		_ = w.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// The bounds are where they are said to be.
func TestBoundsOfReplies(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		request, _ := conversation(t)
		for events, fits := range map[string]bool{
			manyCalls(v, 64): true, manyCalls(v, 65): false,
			long(v, 1<<20): true, long(v, 1<<20+1): false,
		} {
			model := opened(t, v, func(w http.ResponseWriter, _ *http.Request) { stream(w, events) })
			reply, err := model.Provider.Do(t.Context(), request)
			failIf(t, (err == nil) != fits || err != nil && !errors.As(err, new(llm.Protocol)) || err == nil && len(reply.Calls) != 64 && len(reply.Said[0].Text()) != 1<<20,
				"%s, a stream of %d bytes: %v", v.Provider, len(events), err)
		}
	}
}

// lineWith returns the first line of a stream that has a text.
func lineWith(stream, text string) string {
	lines := strings.Split(stream, "\n")
	return lines[slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, text) })]
}

// long is a stream whose text has n bytes.
func long(v vendor, n int) string {
	lines := strings.Split(v.TextStream, "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "Hel") })
	half := strings.ReplaceAll(lines[at], "Hel", strings.Repeat("x", (n-len("lo"))/2))
	odd := strings.ReplaceAll(lines[at], "Hel", strings.Repeat("x", n-len("lo")-2*((n-len("lo"))/2)))
	return strings.Join(slices.Concat(lines[:at], []string{half, half, odd}, lines[at+1:]), "\n")
}

// A provider has a minute for its first byte, and for each byte after it.
func TestSilence(t *testing.T) {
	t.Parallel()
	for _, v := range vendors {
		for name, c := range map[string]struct {
			silent
			want error
		}{"no header": {silent{}, llm.Overloaded{Unknown: true}}, "no byte": {silent{header: true}, llm.Overloaded{Unknown: true}}, "then nothing": {silent{": hello\n", true}, llm.Protocol{What: "the reply was cut"}}} {
			request, _ := conversation(t)
			synctest.Test(t, func(t *testing.T) {
				e, err := wires.Open(bcp.Model{Provider: v.Provider, Model: "m"}, wires.Options{Transport: c.silent})
				noError(t, err)
				begun := time.Now()
				_, err = e.Provider.(*wires.Patient).Provider.Do(t.Context(), request)
				took := time.Since(begun)
				failIf(t, !errors.Is(err, c.want) || took != time.Minute, "%s, %s: %v after %s", v.Provider, name, err, took)
			})
		}
	}
}

// failing fails a number of times.
type failing struct {
	errs  []error
	calls []time.Time
}

func (f *failing) Do(context.Context, *llm.Request) (*llm.Reply, error) {
	f.calls = append(f.calls, time.Now())
	if n := len(f.calls); n <= len(f.errs) {
		return nil, f.errs[n-1]
	}
	return &llm.Reply{}, nil
}

// A call that failed for want of room is made four times at most, later and later, and never beyond its deadline.
//
// covers AGENTS A4
func TestPatient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := llm.Overloaded{}
		f := &failing{errs: []error{busy, llm.RateLimited{RetryAfter: 20 * time.Second}, busy}}
		p := &wires.Patient{Provider: f}
		_, err := p.Do(t.Context(), &llm.Request{})
		failIf(t, err != nil || len(f.calls) != 4, "%v after %d calls", err, len(f.calls))
		for i, least := range []time.Duration{500 * time.Millisecond, 20 * time.Second, 2 * time.Second} {
			got := f.calls[i+1].Sub(f.calls[i])
			failIf(t, got < least || got > 30*time.Second, "pause %d: %s", i, got)
		}
		f = &failing{errs: []error{busy, busy, busy, busy}}
		_, err = (&wires.Patient{Provider: f}).Do(t.Context(), &llm.Request{})
		failIf(t, !errors.Is(err, busy) || len(f.calls) != 4, "%v after %d calls", err, len(f.calls))
		for _, final := range []error{llm.Auth{}, llm.TooLong{}, llm.Filtered{}, llm.Budget{}, llm.Protocol{}, context.Canceled} {
			f = &failing{errs: []error{final}}
			_, err := (&wires.Patient{Provider: f}).Do(t.Context(), &llm.Request{})
			failIf(t, !errors.Is(err, final) || len(f.calls) != 1, "%v after %d calls", err, len(f.calls))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		f = &failing{errs: []error{llm.RateLimited{RetryAfter: 15 * time.Second}}}
		_, err = (&wires.Patient{Provider: f}).Do(ctx, &llm.Request{})
		failIf(t, err == nil || len(f.calls) != 1, "%v after %d calls", err, len(f.calls))
	})
}

// No key that was read goes to a model, whoever made the request.
//
// covers ALF-88
func TestPatientRedacts(t *testing.T) {
	t.Parallel()
	script := &llm.Script{Turns: make([]llm.ScriptTurn, 1)}
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	fenced := must(guard.Fence("my token is "+secret, guard.Mail))
	request := &llm.Request{Model: "m", Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Data{Fenced: fenced}}}}}
	must((&wires.Patient{Provider: script}).Do(t.Context(), request))
	sent := script.Requests[0].Turns[0].Parts[0].Text()
	failIf(t, strings.Contains(sent, secret) || !strings.Contains(sent, "my token is [REDACTED:"), "sent: %s", sent)
}

// A key is read from where it is said to be, if nobody else can read it, and is in no error.
func TestKeys(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) {
		noError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), mode))
		noError(t, os.Chmod(filepath.Join(folder, name), mode))
	}
	write("good", "sk-secret\n", 0o600)
	write("open", "sk-secret\n", 0o640)
	write("two", "sk-secret\nsk-secret2\n", 0o600)
	write("empty", "\n", 0o600)
	env := func(key string) (string, bool) { return map[string]string{"GOOD": "sk-secret"}[key], key == "GOOD" }
	for key, want := range map[string]string{
		"env:GOOD": "", "file:good": "", "": "", "env:NONE": "NONE is not set", "file:none": "none cannot be read", "file:open": "chmod 600", "file:two": "not a key", "file:empty": "not a key",
		"file:.": "", "sk-secret": "expected env:NAME",
	} {
		_, err := wires.Open(bcp.Model{Provider: "anthropic", Model: "m", Key: key}, wires.Options{Env: env, Folder: folder})
		if key == "file:." {
			failIf(t, err == nil, "a folder is a key")
			continue
		}
		failIf(t, (want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret")),
			"%q: %v, want %q", key, err, want)
	}
	for key, token := range map[string]bool{"abcd efgh": true, "Bearer a.b": true, "Bearer a b": false, "two\nlines": false} {
		_, err := wires.ReadKey("env:KEY", "the key", wires.Options{Env: func(string) (string, bool) { return key, true }, Token: true})
		failIf(t, (err == nil) != token, "as a password %q: %v", key, err)
	}
	_, err := wires.Open(bcp.Model{Provider: "skynet"}, wires.Options{})
	failIf(t, !errors.Is(err, wires.ErrProvider), "%v", err)
}

// A script answers by its first line that matches, with what it captures, and by nothing else.
func TestScript(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := func(name, content string) {
		noError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
	file("s.jsonl", `# a comment
{"when": {"turn": 1, "query": "(?i)ask"}, "call": {"name": "fetch", "args": {"url": "https://a.test/"}}}
{"when": {"tool_result": "failed"}, "capture": {"word": "It (\\w+)"}, "call": {"name": "answer", "args": {"word": "{{word}}"}}}
{"when": {"turn": 2}, "say": "done"}
`)
	open := func(name string) (llm.Endpoint, error) {
		return wires.Open(bcp.Model{Provider: "script", Model: name}, wires.Options{Folder: folder})
	}
	model := must(open("s.jsonl"))
	whole, _ := conversation(t)
	first := &llm.Request{Model: "m", Turns: whole.Turns[:1]}
	r, err := model.Provider.Do(t.Context(), first)
	failIf(t, err != nil || len(r.Calls) != 1 || string(r.Calls[0].Arguments) != `{"url": "https://a.test/"}`, "%+v, %v", r, err)
	r, err = model.Provider.Do(t.Context(), whole)
	failIf(t, err != nil || len(r.Calls) != 1 || r.Calls[0].Name != "answer" || string(r.Calls[0].Arguments) != `{"word": "failed"}`,
		"%+v, %v", r, err)
	whole.Turns[2].Results = nil
	if r, err = model.Provider.Do(t.Context(), whole); err != nil || len(r.Said) != 1 || r.Said[0].Text() != "done" {
		t.Errorf("%+v, %v", r, err)
	}
	whole.Turns = append(whole.Turns, whole.Turns[1], whole.Turns[2])
	if r, err = model.Provider.Do(t.Context(), whole); !errors.As(err, new(llm.Protocol)) {
		t.Errorf("%+v, %v", r, err)
	}
	for name, content := range map[string]string{"both": `{"say":"a","call":{"name":"b"}}`, "neither": `{}`, "unknown": `{"say":"a","then":"b"}`, "pattern": `{"when":{"query":"("},"say":"a"}`} {
		file(name, content)
		_, err := open(name)
		failIf(t, err == nil || !strings.Contains(err.Error(), "line 1"), "%s: %v", name, err)
	}
	fails(t, errorOf(open("missing")), nil, "a script that is not there")
}

// What a provider says of an error is shown to operators on one inert line, and not at all if a secret or eight bytes of the
// key are in it, in any part of its answer.
func TestWordsOfAProvider(t *testing.T) {
	t.Parallel()
	const key = "key-of-sixteen-b"
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	model := must(wires.Open(bcp.Model{Provider: "openai", Model: "m", Key: "env:K", BaseURL: server.URL}, wires.Options{Env: func(string) (string, bool) { return key, true }}))
	request := &llm.Request{Model: "m", Turns: []llm.Turn{{Role: llm.User, Parts: []llm.Part{llm.Constant("x")}}}}
	for said, want := range map[string]string{
		`{"error":{"message":"no such\nmodel"}}`: "no such model",
		`{"error":"no model"}`:                   "no model",
		`{"message":"no model"}`:                 "no model",
		`[{"error":{"message":"no"}}]`:           "no",
		"<h1>Bad  gateway</h1>":                  "<h1>Bad gateway</h1>",
		"":                                       "",
		`{"error":{"message":"\u001b[31m\u202eabc"}}`:                                   `\x1b[31m\u202eabc`,
		`{"error":{"message":"the key key-of-s is wrong"}}`:                             "",
		`{"error":{"message":"the key key-of- is wrong"}}`:                              "the key key-of- is wrong",
		`{"error":{"message":"wrong","sent":"ixteen-b"}}`:                               "",
		`{"error":{"message":"key%2Dof%2Dsixteen"}}`:                                    "",
		`{"error":{"message":"sent sk-ant-api03-` + strings.Repeat("aB3", 31) + `AA"}}`: "",
		strings.Repeat("x", 300):                                                        strings.Repeat("x", 199) + "…",
		"\xff\xfeabc":                                                                   "abc",
	} {
		body = said
		_, err := model.Provider.Do(t.Context(), request)
		answered, ok := errors.AsType[*llm.Answered](err)
		failIf(t, !ok || answered.Said != want || strings.Contains(err.Error(), "no such"),
			"%q is shown as %q, not %q (%v)", said, answered.Said, want, err)
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var noError, failIf, stopIf, fails = bcptest.NoError, bcptest.FailIf, bcptest.StopIf, bcptest.Fails

// errorOf is the error of a call whose value does not matter.
func errorOf[T any](_ T, err error) error { return err }
