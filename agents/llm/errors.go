package llm

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// RateLimited says that the provider wants fewer calls. RetryAfter is how long to wait;
// 0 if the provider does not say.
type RateLimited struct{ RetryAfter time.Duration }

func (e RateLimited) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("llm: rate limited for %s", e.RetryAfter)
	}
	return "llm: rate limited"
}

// Overloaded says that the provider cannot answer at present. Unknown says that it may
// have begun to: the request was sent, and no reply came. RetryAfter is as in [RateLimited].
type Overloaded struct {
	Unknown    bool
	RetryAfter time.Duration
}

func (Overloaded) Error() string { return "llm: the provider is overloaded" }

// TooLong says that the request does not fit into the model's context.
type TooLong struct{}

func (TooLong) Error() string { return "llm: the request is too long for the model" }

// Filtered says that the provider refuses to answer. Usage is what it counts for that.
type Filtered struct{ Usage Usage }

func (Filtered) Error() string { return "llm: the provider filtered the request or the reply" }

// Is reports whether the target is such an error, whatever it counts.
func (Filtered) Is(target error) bool { _, ok := target.(Filtered); return ok }

// Auth says that the key is invalid, or may not be used for this.
type Auth struct{}

func (Auth) Error() string { return "llm: the provider does not accept the key" }

// Budget says that the agent's budget is spent. No call was made.
type Budget struct{}

func (Budget) Error() string { return "llm: the budget is spent" }

// Unrecorded says that the mesh did not record the call. No call was made.
type Unrecorded struct{}

func (Unrecorded) Error() string { return "llm: the mesh did not record the call, and it was not made" }

// MayPass reports whether the same call may succeed later: its provider lacked capacity, could
// not be reached or sent what nobody understands, such as the page of a proxy. A key that is not
// accepted, and a request that is refused, stay so.
func MayPass(err error) bool {
	isAnswered := errors.As(err, new(*Answered))
	protocol, isProtocol := errors.AsType[Protocol](err)
	garbled := isAnswered && isProtocol && !protocol.Refused
	return garbled || errors.As(err, new(RateLimited)) || errors.As(err, new(Overloaded)) || errors.Is(err, context.DeadlineExceeded)
}

// Cost returns the tokens that a call which ended with err has cost, if that is known: none if the provider refused it before
// it began to answer, or never got it.
func Cost(err error) (u Usage, known bool) {
	if filtered, ok := errors.AsType[Filtered](err); ok {
		return filtered.Usage, true
	}
	overloaded, protocol := Overloaded{Unknown: true}, Protocol{}
	_, _ = errors.As(err, &overloaded), errors.As(err, &protocol)
	return Usage{}, !overloaded.Unknown || protocol.Refused || errors.As(err, new(RateLimited)) || errors.As(err, new(Auth)) || errors.As(err, new(TooLong))
}

// Answered is an error with the provider's answer, which Error leaves out: it is for the
// operator alone.
type Answered struct {
	Err    error
	Status int    // of HTTP
	Said   string // the provider's words, cut and without secrets; text from outside
}

func (e *Answered) Error() string { return e.Err.Error() }

// Unwrap returns the error without the answer.
func (e *Answered) Unwrap() error { return e.Err }

// Protocol says that the provider violated its own protocol, or Refused the request before it answered. What is constant: it
// quotes no reply.
type Protocol struct {
	What    string
	Refused bool
}

func (e Protocol) Error() string { return "llm: the provider broke its protocol: " + e.What }
