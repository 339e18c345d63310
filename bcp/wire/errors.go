package wire

import "errors"

// ErrMalformed is wrapped by every refusal of this package. On the wire it is
// the code malformed of PROTOCOL P10.
var ErrMalformed = errors.New("wire: malformed message")

// The reasons for a refusal. Each wraps [ErrMalformed].
var (
	// ErrSyntax: the bytes are not JSON, or not MessagePack.
	ErrSyntax error = &reason{"wire: syntax error"}
	// ErrTruncated: the input ends before its value does, or a length in it
	// claims more than there is.
	ErrTruncated error = &reason{"wire: unexpected end of message"}
	// ErrTrailing: something other than white space follows the value.
	ErrTrailing error = &reason{"wire: data after the value"}
	// ErrUTF8: a string is not valid UTF-8.
	ErrUTF8 error = &reason{"wire: invalid UTF-8"}
	// ErrControl: there is a raw DEL. Other raw control characters are no JSON.
	ErrControl error = &reason{"wire: raw control character in a string"}
	// ErrNumber: a number is not an integer in its one spelling, or outside
	// int64.
	ErrNumber error = &reason{"wire: number is not a plain 64-bit integer"}
	// ErrNotMinimal: MessagePack that has a shorter form, or a signed form for
	// an integer of zero or above.
	ErrNotMinimal error = &reason{"wire: form is not minimal"}
	// ErrKind: a value of another kind than was asked for, or of a kind that
	// the protocol has no use for, such as null.
	ErrKind error = &reason{"wire: wrong kind of value"}
	// ErrDepth: objects and arrays nest deeper than [MaxDepth].
	ErrDepth error = &reason{"wire: nested too deeply"}
	// ErrDuplicateKey: an object repeats a key.
	ErrDuplicateKey error = &reason{"wire: repeated key"}
	// ErrTooManyKeys: an object has more than [MaxKeys] keys.
	ErrTooManyKeys error = &reason{"wire: too many keys"}
)

// Error is what every function of this package returns when it refuses. Its text
// is that of its reason and a constant.
type Error struct {
	// Offset counts the bytes before the place where reading stopped. An agent
	// chooses it, so it belongs in no text that another party reads (P2.5).
	Offset int
	// Reason is one of the Err variables of this package.
	Reason error
}

// Error returns the text of the reason.
func (e *Error) Error() string { return e.Reason.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Reason }

type reason struct{ text string }

func (r *reason) Error() string { return r.text }

func (r *reason) Unwrap() error { return ErrMalformed }
