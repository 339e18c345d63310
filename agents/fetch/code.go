package fetch

import (
	"errors"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// CodeOf returns the code of an error of this package; connect for any other error, and the empty code for nil.
func CodeOf(err error) guard.Code {
	var code guard.Code
	switch {
	case err == nil:
		return ""
	case errors.As(err, &code):
		return code
	}
	return guard.ConnectFailed
}

// StatusError is the status of a response that is neither a page nor a redirect. Its code is status.
type StatusError int

// Error returns a constant text.
func (s StatusError) Error() string { return guard.BadStatus.Error() }

// Unwrap returns the code.
func (s StatusError) Unwrap() error { return guard.BadStatus }

// Status returns the status, if it has three digits; otherwise 0.
func (s StatusError) Status() int {
	if s < 100 || s > 999 {
		return 0
	}
	return int(s)
}

// StatusOf returns the status of a [StatusError], and 0 of another error.
func StatusOf(err error) int {
	status, _ := errors.AsType[StatusError](err)
	return status.Status()
}
