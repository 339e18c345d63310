package wire

import (
	"math"
	"strconv"
)

// JSONFromMsgpack appends to dst the compact JSON of a MessagePack message that
// an agent sent. It judges the message by PROTOCOL P2.2:
// true, false, strings, integers, arrays and maps with string keys, each in its
// shortest form, integers of zero and above unsigned, within int64 and
// [MaxDepth], no repeated key, at most [MaxKeys] keys a map, nothing after the
// value. [Check] accepts the result.
//
// The result is at most six times as long as src: a control character becomes
// \u00xx, one byte of true or false becomes a word. Lengths in src are compared
// with what is left of it before anything is done for them. After a refusal the
// returned slice is dst as it was. dst and src must not overlap.
func JSONFromMsgpack(dst, src []byte) ([]byte, error) {
	out, err := transcode(dst, &reader{buf: src})
	if err == nil {
		err = Check(out[len(dst):]) // which finds repeated keys
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

func transcode(dst []byte, r *reader) ([]byte, error) {
	out, why := r.value(dst, 0)
	if why == nil && r.pos < len(r.buf) {
		why = ErrTrailing
	}
	if why != nil {
		return dst, &Error{Offset: r.pos, Reason: why}
	}
	return out, nil
}

// reader transcodes one MessagePack document. Its methods return the reason for
// a refusal; pos then tells where.
type reader struct {
	buf     []byte
	pos     int
	gateway bool // the gateway made it: floats and nil are allowed
}

// value transcodes the next value, which is so many arrays and maps deep.
func (r *reader) value(dst []byte, depth int) ([]byte, error) {
	kind, n, why := r.head()
	if why != nil {
		return nil, why
	}
	switch kind {
	case MsgpackText:
		return r.text(dst, n)
	case MsgpackBool:
		return strconv.AppendBool(dst, n == 1), nil
	case MsgpackUint, MsgpackInt:
		if kind == MsgpackUint && n > math.MaxInt64 {
			return nil, ErrNumber
		}
		return strconv.AppendInt(dst, int64(n), 10), nil
	case MsgpackFloat: // of the gateway, a float64
		return appendFraction(dst, n)
	case MsgpackNil: // of the gateway
		return append(dst, "null"...), nil
	}
	open, end, values := byte('['), byte(']'), n
	if kind == MsgpackMap {
		open, end, values = '{', '}', 2*n
	}
	switch {
	case depth >= MaxDepth:
		return nil, ErrDepth
	case values > uint64(len(r.buf)-r.pos):
		return nil, ErrTruncated
	case kind == MsgpackMap && n > MaxKeys:
		return nil, ErrTooManyKeys
	}
	dst = append(dst, open)
	for range n {
		dst = AppendSep(dst)
		if kind == MsgpackMap {
			if dst, why = r.key(dst); why != nil {
				return nil, why
			}
		}
		if dst, why = r.value(dst, depth+1); why != nil {
			return nil, why
		}
	}
	return append(dst, end), nil
}

// key transcodes the key of a pair.
func (r *reader) key(dst []byte) ([]byte, error) {
	kind, n, why := r.head()
	if why == nil && kind != MsgpackText {
		why = ErrKind
	}
	if why != nil {
		return nil, why
	}
	dst, why = r.text(dst, n)
	return append(dst, ':'), why
}

// head reads the head of a value, which has to be of a kind that is allowed, in its
// shortest form.
func (r *reader) head() (MsgpackKind, uint64, error) {
	if r.pos >= len(r.buf) {
		return 0, 0, ErrTruncated
	}
	kind, n, size := MsgpackHead(r.buf[r.pos:])
	switch kind {
	case MsgpackFloat:
		if !r.gateway || r.buf[r.pos] != codeFloat64 {
			return 0, 0, ErrNumber
		}
	case MsgpackNil:
		if !r.gateway {
			return 0, 0, ErrKind
		}
	case MsgpackBytes, 0:
		return 0, 0, ErrKind
	}
	if size == 0 {
		return 0, 0, ErrTruncated
	}
	var room [9]byte
	if kind != MsgpackFloat && AppendMsgpack(room[:0], kind, n)[0] != r.buf[r.pos] {
		return 0, 0, ErrNotMinimal
	}
	r.pos += size
	return kind, n, nil
}

// text transcodes the bytes of a string.
func (r *reader) text(dst []byte, size uint64) ([]byte, error) {
	if size > uint64(len(r.buf)-r.pos) {
		return nil, ErrTruncated
	}
	dst, err := AppendString(dst, r.buf[r.pos:r.pos+int(size)])
	if err != nil {
		return nil, ErrUTF8
	}
	r.pos += int(size)
	return dst, nil
}

// codeFloat64 begins a float64.
const codeFloat64 = 0xcb
