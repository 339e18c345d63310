package wire

import (
	"encoding/binary"
	"math"
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
	if r.pos >= len(r.buf) {
		return nil, ErrTruncated
	}
	if c := r.buf[r.pos]; !isString(c) {
		if c == codeNever {
			return nil, ErrSyntax
		}
		return nil, ErrKind
	}
	ref, why := r.text()
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
	if r.pos >= len(r.buf) {
		return nil, ErrTruncated
	}
	switch c := r.buf[r.pos]; {
	case isString(c):
		ref, why := r.text()
		if why != nil {
			return nil, why
		}
		return appendQuoted(dst, r.buf[ref.start:ref.end]), nil
	case c == codeFalse || c == codeTrue:
		r.pos++
		return AppendBool(dst, c == codeTrue), nil
	case c <= fixintMax || c >= negFixintMin || c >= codeUint8 && c <= codeInt64:
		n, why := r.integer()
		if why != nil {
			return nil, why
		}
		return AppendInt(dst, n), nil
	case c&0xf0 == fixarray || c == codeArray16 || c == codeArray32:
		if why := r.enter(false, fixarray, codeArray16); why != nil {
			return nil, why
		}
		return append(dst, '['), nil
	case c&0xf0 == fixmap || c == codeMap16 || c == codeMap32:
		if why := r.enter(true, fixmap, codeMap16); why != nil {
			return nil, why
		}
		return append(dst, '{'), nil
	case r.gateway && (c == codeFloat64 || c == codeNil):
		return r.ofGateway(dst)
	case c == codeFloat32 || c == codeFloat64:
		return nil, ErrNumber
	case c == codeNever:
		return nil, ErrSyntax
	default: // nil, bin and extension types
		return nil, ErrKind
	}
}

// text reads a string and returns where it is.
func (r *reader) text() (span, error) {
	var size uint64
	if c := r.buf[r.pos]; c&0xe0 == fixstr {
		size = uint64(c & 0x1f)
		r.pos++
	} else {
		var why error
		if size, why = r.uint(1 << (c - codeStr8)); why != nil {
			return span{}, why
		}
		if size <= 31 || c != codeStr8 && size <= math.MaxUint8 || c == codeStr32 && size <= math.MaxUint16 {
			return span{}, ErrNotMinimal
		}
	}
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

// enter reads the header of an array or map.
func (r *reader) enter(isMap bool, fix, code16 byte) error {
	if r.depth >= MaxDepth {
		return ErrDepth
	}
	var size uint64
	if c := r.buf[r.pos]; c&0xf0 == fix {
		size = uint64(c & 0x0f)
		r.pos++
	} else {
		var why error
		if size, why = r.uint(2 << (c - code16)); why != nil {
			return why
		}
		if size <= 15 || c != code16 && size <= math.MaxUint16 {
			return ErrNotMinimal
		}
	}
	left := uint64(len(r.buf) - r.pos)
	if isMap {
		left /= 2
	}
	if size > left {
		return ErrTruncated
	}
	if isMap && size > MaxKeys {
		return ErrTooManyKeys
	}
	r.depth++
	r.open[r.depth] = container{left: int(size), isMap: isMap}
	r.keys.open(r.depth)
	return nil
}

// integer reads an integer in its shortest form.
func (r *reader) integer() (int64, error) {
	c := r.buf[r.pos]
	if c <= fixintMax || c >= negFixintMin {
		r.pos++
		return int64(int8(c)), nil
	}
	if c >= codeInt8 {
		width := 1 << (c - codeInt8)
		bits, why := r.uint(width)
		if why != nil {
			return 0, why
		}
		shift := 64 - 8*width
		n := int64(bits<<shift) >> shift
		if width == 1 && n >= -32 || n >= -1<<(4*width-1) {
			return 0, ErrNotMinimal
		}
		return n, nil
	}
	width := 1 << (c - codeUint8)
	n, why := r.uint(width)
	if why != nil {
		return 0, why
	}
	if width == 1 && n <= fixintMax || width > 1 && n < 1<<(4*width) {
		return 0, ErrNotMinimal
	}
	if n > math.MaxInt64 {
		return 0, ErrNumber
	}
	return int64(n), nil
}

// uint reads the big-endian number of a width of 1, 2, 4 or 8 bytes that follows
// a code byte, and passes over both.
func (r *reader) uint(width int) (uint64, error) {
	b := r.buf[r.pos+1:]
	if len(b) < width {
		return 0, ErrTruncated
	}
	var n uint64
	switch width {
	case 1:
		n = uint64(b[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b))
	default:
		n = binary.BigEndian.Uint64(b)
	}
	r.pos += 1 + width
	return n, nil
}

// The code bytes of the MessagePack specification that the package reads or
// writes.
const (
	fixintMax    = 0x7f
	fixmap       = 0x80
	fixarray     = 0x90
	fixstr       = 0xa0
	codeNil      = 0xc0
	codeNever    = 0xc1
	codeFalse    = 0xc2
	codeTrue     = 0xc3
	codeFloat32  = 0xca
	codeFloat64  = 0xcb
	codeUint8    = 0xcc
	codeInt8     = 0xd0
	codeInt64    = 0xd3
	codeStr8     = 0xd9
	codeStr32    = 0xdb
	codeArray16  = 0xdc
	codeArray32  = 0xdd
	codeMap16    = 0xde
	codeMap32    = 0xdf
	negFixintMin = 0xe0
)

// isString reports whether a code byte begins a string.
func isString(c byte) bool { return c&0xe0 == fixstr || c >= codeStr8 && c <= codeStr32 }
