package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// MsgpackFromJSON appends to dst the MessagePack of a JSON message, in the
// shortest form of each value: what goes out to an agent whose encoding is
// MessagePack, and what such an agent sends. It undoes [JSONFromMsgpack].
//
// It judges src as [Check] does, with one difference: a number with a fraction
// or an exponent is let through, up to 32 characters, and becomes the nearest
// float64. The gateway sends such numbers for people to read, as in
// bandwidth_bits; nothing is decided by them, and [JSONFromMsgpack] refuses them on
// the way in.
//
// The result is at most three times as long as src. After a refusal the returned
// slice is dst as it was. dst and src must not overlap.
func MsgpackFromJSON(dst, src []byte) ([]byte, error) {
	s := NewScanner(src)
	out, err := s.walk(dst, true)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// walk judges and passes over the next value. With pack it also appends the MessagePack of
// it to dst, and lets fractions through.
func (s *Scanner) walk(dst []byte, pack bool) ([]byte, error) {
	var keys keySet
	var open [MaxDepth + 1]header
	floor := s.depth
	for {
		var err error
		kind := s.Kind()
		if dst, err = s.value(dst, kind, pack); err != nil {
			return nil, err
		}
		if kind == KindObject || kind == KindArray {
			open[s.depth] = header{at: len(dst) - 1, isMap: kind == KindObject}
			keys.open(s.depth)
		}
		for s.depth > floor {
			level := s.depth
			if s.More() {
				open[level].size++
				if s.state == stateKey {
					dst, err = s.uniqueKey(dst, &keys, pack)
				}
				break
			}
			if s.state == stateFailed {
				return nil, s.err
			}
			if pack {
				dst = open[level].write(dst)
			}
			keys.close(level)
		}
		if err != nil || s.depth == floor {
			return dst, err
		}
	}
}

// value passes over a scalar, or enters an array or map: appended is one byte of room for
// its header.
func (s *Scanner) value(dst []byte, kind Kind, pack bool) ([]byte, error) {
	switch kind {
	case KindObject, KindArray:
		if pack {
			dst = append(dst, 0)
		}
		if kind == KindObject {
			return dst, s.ObjectStart()
		}
		return dst, s.ArrayStart()
	case KindString:
		ref, err := s.text()
		if err == nil && pack {
			dst = appendMsgpackText(dst, s.buf, ref)
		}
		return dst, err
	case KindNumber:
		if pack {
			return appendMsgpackNumber(dst, s)
		}
		_, err := s.Int64()
		return dst, err
	case KindBool:
		v, err := s.Bool()
		if pack {
			dst = AppendMsgpack(dst, MsgpackBool, MsgpackTruth(v))
		}
		return dst, err
	case KindNull:
		return nil, s.fail(s.pos, ErrKind)
	default:
		return nil, s.mismatch()
	}
}

// uniqueKey reads a key and refuses it if its object had it before.
func (s *Scanner) uniqueKey(dst []byte, keys *keySet, pack bool) ([]byte, error) {
	ref, err := s.key()
	if err != nil {
		return nil, err
	}
	if why := keys.add(s.buf, ref, s.depth); why != nil {
		return nil, s.fail(ref.start, why)
	}
	if pack {
		dst = appendMsgpackText(dst, s.buf, ref)
	}
	return dst, nil
}

// header is where an array or map is in the output, whose size is known only
// when it ends.
type header struct {
	at    int
	size  int
	isMap bool
}

// write fills in the header. One of more than 15 elements needs more than the one
// byte of room, so what comes after it moves; each level moves it once.
func (h header) write(dst []byte) []byte {
	kind := MsgpackArray
	if h.isMap {
		kind = MsgpackMap
	}
	var room [9]byte
	return slices.Replace(dst, h.at, h.at+1, AppendMsgpack(room[:0], kind, uint64(h.size))...)
}

// appendMsgpackText appends the string that a span spells. An escaped one is
// first spelled out after the end of dst, since its length is not known before.
func appendMsgpackText(dst, buf []byte, ref span) []byte {
	raw := buf[ref.start:ref.end]
	if !ref.escaped {
		return append(AppendMsgpack(dst, MsgpackText, uint64(len(raw))), raw...)
	}
	at := len(dst)
	dst = ref.appendTo(dst, buf)
	var room [9]byte
	return slices.Insert(dst, at, AppendMsgpack(room[:0], MsgpackText, uint64(len(dst)-at))...)
}

func appendMsgpackNumber(dst []byte, s *Scanner) ([]byte, error) {
	if literal := s.fraction(); literal != nil {
		if len(literal) > maxFraction {
			return nil, s.fail(s.pos, ErrNumber)
		}
		v, err := strconv.ParseFloat(string(literal), 64)
		if err != nil {
			return nil, s.fail(s.pos, ErrNumber)
		}
		return binary.BigEndian.AppendUint64(append(dst, codeFloat64), math.Float64bits(v)), nil
	}
	n, err := s.Int64()
	if err != nil {
		return nil, err
	}
	return AppendMsgpack(dst, MsgpackInt, uint64(n)), nil
}

// fraction passes over a number that has a fraction or an exponent and returns
// its literal. For any other number it returns nil and does nothing. A number must
// be next, as Kind tells.
func (s *Scanner) fraction() []byte {
	i := s.pos
	if s.buf[i] == '-' {
		i++
	}
	whole := digits(s.buf, i)
	if whole == i || s.buf[i] == '0' && whole > i+1 {
		return nil
	}
	end := whole
	if end < len(s.buf) && s.buf[end] == '.' {
		i = end + 1
		if end = digits(s.buf, i); end == i {
			return nil
		}
	}
	if end < len(s.buf) && s.buf[end]|0x20 == 'e' {
		i = end + 1
		if i < len(s.buf) && (s.buf[i] == '+' || s.buf[i] == '-') {
			i++
		}
		if end = digits(s.buf, i); end == i {
			return nil
		}
	}
	if end == whole {
		return nil
	}
	literal := s.buf[s.pos:end]
	s.pos = end
	s.endValue()
	return literal
}
