package agents

import (
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// told are the problems that a connection has logged, each reason once.
type told struct {
	mu      sync.Mutex
	reasons map[string]bool // at most maxTold
}

// tell logs a problem that the author of an agent would otherwise miss, unless it was told before for the same reason.
func (c *Connection) tell(what, reason string, fields ...any) {
	c.told.mu.Lock()
	defer c.told.mu.Unlock()
	reasons := c.told.reasons
	reason = what + ": " + reason
	if reasons[reason] || len(reasons) > maxTold {
		return
	}
	if reasons[reason] = true; len(reasons) > maxTold {
		c.log.Warn("more goes wrong, and is not told any more")
		return
	}
	c.log.Warn(what, fields...)
}

// tellRefused tells of a message that the gateway refused. The texts come from the gateway or
// are names from the spec; they are quoted, since anybody may have written the spec.
func (c *Connection) tellRefused(what string, code bcp.Code, detail string) {
	fields := []any{"code", hclog.Quote(code), "detail", bounded(detail)}
	if todo := code.Info().Decision; todo != "" {
		fields = append(fields, "do", hclog.Quote(todo))
	}
	c.tell(what+" was refused", string(code)+": "+detail, fields...)
}

// tellDenied tells of a subject that the server denied. Reply subjects all differ, and are told once.
func (c *Connection) tellDenied(err error) {
	reason, _, _ := strings.Cut(err.Error(), replySubjects)
	c.tell("the server denied a subject", reason, "error", bounded(err.Error()), "do", hclog.Quote("use what the agent's channels need: bcpmesh perms --agent shows it"))
}

var replySubjects = strings.TrimSuffix(subjects.All(subjects.KindReply), "*.*.>")

// bounded bounds a text, and has the logger quote it.
func bounded(text string) hclog.Quote {
	if runes := []rune(text); len(runes) > maxToldText {
		text = string(runes[:maxToldText]) + "…"
	}
	return hclog.Quote(text)
}
