package wire

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// JSONFromMsgpack appends to dst the compact JSON of a MessagePack message that
// an agent sent, for a [Scanner] to read. It judges the message by PROTOCOL P2.2:
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
	return transcode(dst, &reader{buf: src})
}

func transcode(dst []byte, r *reader) ([]byte, error) {
	out, why := r.document(dst)
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
	depth   uint8
	gateway bool                    // the gateway made it: floats and nil are allowed
	open    [MaxDepth + 1]container // by level
	keys    keySet
}

// container is an array or map that is being read.
type container struct {
	left  int // elements or pairs still to come
	isMap bool
}

func (r *reader) document(dst []byte) ([]byte, error) {
	for {
		var why error
		if dst, why = r.value(dst); why != nil {
			return nil, why
		}
		for r.depth > 0 && r.open[r.depth].left == 0 {
			closing := byte(']')
			if r.open[r.depth].isMap {
				closing = '}'
			}
			dst = append(dst, closing)
			r.keys.close(r.depth)
			r.depth--
		}
		if r.depth == 0 {
			break
		}
		top := &r.open[r.depth]
		top.left--
		dst = AppendSep(dst)
		if top.isMap {
			if dst, why = r.key(dst); why != nil {
				return nil, why
			}
		}
	}
	if r.pos < len(r.buf) {
		return nil, ErrTrailing
	}
	return dst, nil
}

// key transcodes the key of a pair.
func (r *reader) key(dst []byte) ([]byte, error) {
	if rest := r.buf[r.pos:]; len(rest) > 0 && rest[0] != codeNever && msgpackCodes[rest[0]].kind != MsgpackText {
		return nil, ErrKind
	}
	_, size, why := r.head()
	if why != nil {
		return nil, why
	}
	ref, why := r.text(size)
	if why != nil {
		return nil, why
	}
	if why := r.keys.add(r.buf, ref, r.depth); why != nil {
		return nil, why
	}
	dst = appendQuoted(dst, r.buf[ref.start:ref.end])
	return append(dst, ':'), nil
}

// value transcodes a scalar, or the beginning of an array or map.
func (r *reader) value(dst []byte) ([]byte, error) {
	kind, n, why := r.head()
	if why != nil {
		return nil, why
	}
	switch kind {
	case MsgpackText:
		ref, why := r.text(n)
		if why != nil {
			return nil, why
		}
		return appendQuoted(dst, r.buf[ref.start:ref.end]), nil
	case MsgpackBool:
		return strconv.AppendBool(dst, n == 1), nil
	case MsgpackUint, MsgpackInt:
		if kind == MsgpackUint && n > math.MaxInt64 {
			return nil, ErrNumber
		}
		return strconv.AppendInt(dst, int64(n), 10), nil
	case MsgpackArray:
		return append(dst, '['), r.enter(false, n)
	case MsgpackMap:
		return append(dst, '{'), r.enter(true, n)
	case MsgpackFloat: // of the gateway, a float64
		return appendFraction(dst, n)
	default: // nil of the gateway
		return append(dst, "null"...), nil
	}
}

// head reads the head of a value, which has to be of a kind that is allowed, in its
// shortest form.
func (r *reader) head() (MsgpackKind, uint64, error) {
	if r.pos >= len(r.buf) {
		return 0, 0, ErrTruncated
	}
	kind, n, size := MsgpackHead(r.buf[r.pos:])
	switch code := r.buf[r.pos]; kind {
	case MsgpackFloat:
		if !r.gateway || code != codeFloat64 {
			return 0, 0, ErrNumber
		}
	case MsgpackNil:
		if !r.gateway {
			return 0, 0, ErrKind
		}
	case MsgpackBytes, 0:
		if code == codeNever {
			return 0, 0, ErrSyntax
		}
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

// text passes over the bytes of a string and returns where they are.
func (r *reader) text(size uint64) (span, error) {
	if size > uint64(len(r.buf)-r.pos) {
		return span{}, ErrTruncated
	}
	ref := span{start: r.pos, end: r.pos + int(size)}
	if !utf8.Valid(r.buf[ref.start:ref.end]) {
		return span{}, ErrUTF8
	}
	r.pos = ref.end
	return ref, nil
}

// enter begins an array or map.
func (r *reader) enter(isMap bool, size uint64) error {
	left := uint64(len(r.buf) - r.pos)
	if isMap {
		left /= 2
	}
	switch {
	case r.depth >= MaxDepth:
		return ErrDepth
	case size > left:
		return ErrTruncated
	case isMap && size > MaxKeys:
		return ErrTooManyKeys
	}
	r.depth++
	r.open[r.depth] = container{left: int(size), isMap: isMap}
	r.keys.open(r.depth)
	return nil
}

// Codes that alone tell what a value is.
const (
	codeNever   = 0xc1
	codeFloat64 = 0xcb
)
