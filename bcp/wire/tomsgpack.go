package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
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
	out, err := s.pack(dst)
	if err == nil {
		err = s.End()
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// pack appends the MessagePack of the next value.
func (s *Scanner) pack(dst []byte) ([]byte, error) {
	switch kind := s.Kind(); kind {
	case KindObject, KindArray:
		return s.packAll(dst, kind)
	case KindString:
		return s.packText(dst)
	case KindNumber:
		return s.packNumber(dst)
	default:
		v, err := s.Bool()
		return AppendMsgpack(dst, MsgpackBool, MsgpackTruth(v)), err
	}
}

// packAll appends that of an object or an array. Its head, which says how much there is, goes
// in front in the end; each level moves what is in it once.
func (s *Scanner) packAll(dst []byte, kind jsontext.Kind) ([]byte, error) {
	if err := s.enter(kind); err != nil {
		return nil, err
	}
	at, size, packed := len(dst), 0, MsgpackArray
	if kind == KindObject {
		packed = MsgpackMap
	}
	for ; s.More(); size++ {
		var err error
		if kind == KindObject {
			if size == MaxKeys {
				return nil, s.refuse(ErrTooManyKeys)
			}
			if dst, err = s.packText(dst); err != nil {
				return nil, err
			}
		}
		if dst, err = s.pack(dst); err != nil {
			return nil, err
		}
	}
	var room [9]byte
	return slices.Insert(dst, at, AppendMsgpack(room[:0], packed, uint64(size))...), s.err
}

func (s *Scanner) packText(dst []byte) ([]byte, error) {
	text, err := s.String()
	return append(AppendMsgpack(dst, MsgpackText, uint64(len(text))), text...), err
}

func (s *Scanner) packNumber(dst []byte) ([]byte, error) {
	b, err := s.spelling(KindNumber)
	if err != nil {
		return nil, err
	}
	if n, ok := integer(b); ok {
		return AppendMsgpack(dst, MsgpackInt, uint64(n)), nil
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if whole := !slices.ContainsFunc(b, func(c byte) bool { return c == '.' || c|0x20 == 'e' }); err != nil || whole || len(b) > maxFraction {
		return nil, s.refuse(ErrNumber)
	}
	return binary.BigEndian.AppendUint64(append(dst, codeFloat64), math.Float64bits(v)), nil
}
