package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors that a caller may want to handle, besides [*RefusedError],
// [*UnansweredError] and nats.ErrPermissionViolation.
var (
	// ErrNotStarted: the call needs Start first, or was waiting when the client
	// was stopped.
	ErrNotStarted = errors.New("agents: not started")
	// ErrStarted: the client is running already.
	ErrStarted = errors.New("agents: started already")
	// ErrClosed: the connection is closed.
	ErrClosed = errors.New("agents: the connection is closed")
	// ErrKeep is returned by a handler of OnDelivery that keeps a delivery and
	// will call Acknowledge later.
	ErrKeep = errors.New("agents: the delivery is kept")
	// ErrNotObject: an answer has to be a JSON object.
	ErrNotObject = errors.New("agents: an answer is a JSON object")
	// ErrMessage: a message or reply cannot be understood. Usually Options.Encoding
	// differs from the agent's definition; or the gateway is newer than this program
	// and uses types that it does not know.
	ErrMessage = errors.New("agents: a message of the gateway is not understood (is Options.Encoding that of the definition? is the gateway newer than this program?)")
)

// RefusedError is the gateway's refusal. Code is from the closed list of
// PROTOCOL P10, Detail its text; [bcp.Code.Info] says whether a retry may
// succeed, and what to do. A refused ask or push charges nothing.
type RefusedError struct {
	Code   bcp.Code
	Detail string
	// RetryAfter is how long to wait before repeating the push, if Code is
	// rate_limited and the gateway gave a time; otherwise 0.
	RetryAfter time.Duration
}

func (e *RefusedError) Error() string { return "refused: " + string(e.Code) + ": " + e.Detail }

// UnansweredError says that the context ended before the gateway answered. The
// message may have taken effect: a later call with the same id finds out and
// never has a second effect (PROTOCOL P2.6, 24 hours).
type UnansweredError struct {
	ID bcp.ClientID // the request_id or push_id that was sent; empty for messages that have none
	// Err is why the wait ended, Last the result of the last attempt, or nil.
	Err, Last error
}

func (e *UnansweredError) Error() string {
	if e.Last == nil {
		return fmt.Sprintf("no answer from the gateway: %v", e.Err)
	}
	return fmt.Sprintf("no answer from the gateway: %v (last attempt: %v)", e.Err, e.Last)
}

// Unwrap returns both reasons.
func (e *UnansweredError) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Last}
}

// handlerError says that a handler of this agent failed or panicked. A logger gets only its
// type, since its text may quote content.
type handlerError struct {
	what, id string // of "delivery" or "query" for instance; the id may be empty
	panicked bool   // err is a recovered panic
	err      error
}

func (e *handlerError) Error() string {
	return fmt.Sprintf("handler of %s %s: %v", e.what, e.id, e.err)
}

// Unwrap returns the handler's error.
func (e *handlerError) Unwrap() error { return e.err }

// guarded calls f and turns a panic into an error.
func guarded(what, id string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = &handlerError{what, id, true, cause}
		}
	}()
	if err := f(); err != nil {
		return &handlerError{what, id, false, err}
	}
	return nil
}

// interrupted reports whether a handler was cancelled rather than failed: its
// context has ended, and it returned the reason. The message will come again.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// isAny reports whether an error is one of these.
func isAny(err error, of ...error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// ended returns why ctx is done.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return context.Canceled
}
