package wires

import (
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// The paths of the wires, which are the base URLs for the vendors' libraries.
const (
	AnthropicBase = "/anthropic"
	OpenAIBase    = "/openai/v1"
)

// Serve serves a model to programs that use a vendor's library, on the wires of Messages
// and Chat Completions, for any provider. The model and the token limit
// are those of the endpoint, whatever a program asks for. No key is required: the caller
// must restrict who may connect.
//
// A request is read into an [llm.Request], so that only texts and the program's own tools
// pass: nothing that makes a provider fetch, search, run or store something. Unsupported
// parts are refused by name, except those that only tune a model, such as temperature. A
// stream begins when the reply is complete.
func Serve(model llm.Endpoint) http.Handler {
	mux := http.NewServeMux()
	for path, d := range map[string]dialect{
		AnthropicBase + "/v1/messages":   anthropicDialect,
		OpenAIBase + "/chat/completions": openAIDialect,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { serve(w, r, d, model) })
	}
	for base, d := range map[string]dialect{AnthropicBase: anthropicDialect, OpenAIBase: openAIDialect} {
		mux.HandleFunc(base+"/", func(w http.ResponseWriter, r *http.Request) {
			fail(w, d, &refusal{http.StatusNotFound, "only " + d.serves + " is served here"})
		})
	}
	return mux
}

// dialect is a wire, as a server speaks it.
type dialect struct {
	serves string
	// read reads a request, and reports whether its reply is to be a stream. The error is for the program.
	read   func(r *http.Request, body []byte) (asked *llm.Request, stream bool, err error)
	whole  func(said) any
	events func(said) []event
	failed func(status int, message string) any
}

// said is a reply with additional data for a wire.
type said struct {
	*llm.Reply
	model string
	id    string
	at    time.Time
}

// event is one of a stream. A text is sent as it is.
type event struct {
	name string
	data any
}

// refusal is why a request has no reply.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func serve(w http.ResponseWriter, r *http.Request, d dialect, model llm.Endpoint) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		fail(w, d, &refusal{http.StatusRequestEntityTooLarge, "the request did not come whole, or is longer than 4 MiB"})
		return
	}
	if wire.Crowded(body) {
		fail(w, d, refused("the request has too many members and elements: send fewer and longer texts"))
		return
	}
	asked, stream, err := d.read(r, body)
	if err != nil {
		fail(w, d, err)
		return
	}
	asked.Model = model.Model
	if asked.MaxTokens <= 0 || model.MaxTokens > 0 && asked.MaxTokens > model.MaxTokens {
		asked.MaxTokens = model.MaxTokens
	}
	if err := asked.Check(); err != nil {
		fail(w, d, &refusal{http.StatusBadRequest, strings.TrimPrefix(err.Error(), "llm: ")})
		return
	}
	reply, err := model.Provider.Do(r.Context(), asked, nil)
	if err != nil {
		fail(w, d, err)
		return
	}
	answer := said{reply, model.Model, "bcpmesh-" + strconv.FormatInt(time.Now().UnixNano(), 36), time.Now()}
	if !stream {
		write(w, http.StatusOK, d.whole(answer))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range d.events(answer) {
		if e.name != "" {
			_, _ = io.WriteString(w, "event: "+e.name+"\n")
		}
		text, ok := e.data.(string)
		if !ok {
			encoded, _ := json.Marshal(e.data)
			text = string(encoded)
		}
		_, _ = io.WriteString(w, "data: "+text+"\n\n") // or the program has gone
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, body) // or the program has gone
}

// fail says why there is no reply: of an error of a provider its code alone, as a cell hears it, since a replay's tells how
// much of its transcript a request has. The libraries try again what has a status of 429 or 500 and above.
func fail(w http.ResponseWriter, d dialect, err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		code := llm.ErrorCode(err)
		r = &refusal{cmp.Or(statuses[code], http.StatusBadGateway), llm.ErrorOf(code).Error()}
	}
	if limited, ok := errors.AsType[llm.RateLimited](err); ok && limited.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(limited.RetryAfter.Seconds()))))
	}
	write(w, r.status, d.failed(r.status, r.message))
}

// statuses are those of the errors of a provider, by their codes.
var statuses = map[string]int{
	"budget": http.StatusForbidden, "auth": http.StatusForbidden, "too_long": http.StatusBadRequest, "filtered": http.StatusBadRequest,
	"rate_limited": http.StatusTooManyRequests, "overloaded": http.StatusServiceUnavailable, "unrecorded": http.StatusServiceUnavailable,
	"timeout": http.StatusGatewayTimeout,
}

// strictly parses JSON without unknown members.
func strictly(body []byte, into any) error {
	err := json.Unmarshal(body, into, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	where := ""
	if e, ok := errors.AsType[*json.SemanticError](err); ok {
		where = strings.ReplaceAll(strings.TrimPrefix(string(e.JSONPointer), "/"), "/", ".")
	}
	switch {
	case errors.Is(err, json.ErrUnknownName):
		return refused(where + " is not passed on: the model of this agent gets texts and tools of the program's own")
	case where != "":
		return refused(where + " is not of the type that is expected here")
	}
	return refused("the request is no JSON of this interface")
}

func refused(message string) error { return &refusal{http.StatusBadRequest, message} }

// readTextOrList parses a list, or a single text in its place, which of converts.
func readTextOrList[T any](raw jsontext.Value, of func(text string) T) (list []T, err error) {
	switch raw.Kind() {
	case 0, 'n':
		return nil, nil
	case '"':
		var text string
		err = strictly(raw, &text)
		return []T{of(text)}, err
	}
	return list, strictly(raw, &list)
}

// say adds a text of the program, unless it is empty, to a turn.
func say(turn *llm.Turn, text string) {
	switch {
	case text == "":
	case turn.Role == llm.Model:
		turn.Parts = append(turn.Parts, llm.NewSaid(text))
	default:
		turn.Parts = append(turn.Parts, llm.FromProgram(text))
	}
}

// toolResult returns the result of a call, in the program's words.
func toolResult(call, text string, failed bool) llm.Result {
	r := llm.Result{Call: call, Failed: failed}
	if text != "" {
		r.Parts = []llm.Part{llm.FromProgram(text)}
	}
	return r
}

// textIn returns all text of a reply.
func textIn(r *llm.Reply) string {
	var b strings.Builder
	for _, s := range r.Said {
		b.WriteString(s.Text())
	}
	return b.String()
}
