package agents

import (
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// onceLogger logs problems that the author of an agent would otherwise miss, each reason
// once. Its methods may be used concurrently.
type onceLogger struct {
	log hclog.Logger
	// stderr says that the caller gave no logger: log is this process's stderr, and
	// also gets what other code logs to a given logger.
	stderr bool

	mu   sync.Mutex
	told map[string]bool // by reason, at most maxTold
}

// newOnceLogger logs to log, or to stderr if log is nil.
func newOnceLogger(log hclog.Logger, name bcp.AgentName) *onceLogger {
	a := &onceLogger{log: log, stderr: log == nil, told: make(map[string]bool)}
	if a.stderr {
		a.log = hclog.New(&hclog.LoggerOptions{Level: hclog.Warn})
	}
	a.log = a.log.Named("agents").With("agent", string(name))
	return a
}

// refused logs a message that the gateway refused. The texts come from the gateway or
// are names from the spec; they are quoted, since anybody may have written the spec.
func (a *onceLogger) refused(what string, code bcp.Code, detail string) {
	fields := []any{"code", hclog.Quote(code), "detail", bounded(detail)}
	if todo := code.Info().Decision; todo != "" {
		fields = append(fields, "do", hclog.Quote(todo))
	}
	a.tell(what+" was refused", string(code)+": "+detail, fields...)
}

// failed logs a handler's error with its text, only to stderr: the text may quote
// what the agent has read, which a logger must not get.
func (a *onceLogger) failed(failed *HandlerError) {
	if a.stderr {
		a.tell("a handler failed", failed.What+failed.Err.Error(), "of", failed.What, "panicked", failed.Panicked, "error", bounded(failed.Err.Error()))
	}
}

// denied logs a subject that the server denied. Reply subjects all differ and are
// logged once.
func (a *onceLogger) denied(err error) {
	reason := err.Error()
	if before, _, ok := strings.Cut(reason, replySubjects); ok {
		reason = before
	}
	if a.stderr {
		a.tell("the server denied a subject", reason, "error", bounded(err.Error()), "do", hclog.Quote("use what the agent's channels need: bcpmesh perms --agent shows it"))
	}
}

var replySubjects = strings.TrimSuffix(subjects.All(subjects.KindReply), "*.*.>")

// notUnderstood logs a dropped message.
func (a *onceLogger) notUnderstood() {
	if a.stderr {
		a.tell("dropped a message of the gateway", "", "error", bounded(ErrMessage.Error()))
	}
}

// tell says something unless it was said before for the same reason.
func (a *onceLogger) tell(what, reason string, fields ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	reason = what + ": " + reason
	if a.told[reason] || len(a.told) > maxTold {
		return
	}
	if a.told[reason] = true; len(a.told) > maxTold {
		a.log.Warn("more goes wrong, and is not told any more")
		return
	}
	a.log.Warn(what, fields...)
}

// bounded bounds a text, and has the logger quote it.
func bounded(text string) hclog.Quote {
	if runes := []rune(text); len(runes) > maxToldText {
		text = string(runes[:maxToldText]) + "…"
	}
	return hclog.Quote(text)
}
