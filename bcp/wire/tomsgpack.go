package wire

import (
	"bytes"
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
	if err := check(src, true); err != nil {
		return dst, err
	}
	return pack(dst, jsontext.NewDecoder(bytes.NewBuffer(src), jsontext.AllowDuplicateNames(true))), nil
}

// pack appends the MessagePack of the next value of a document that was judged. The head of an
// object or an array, which says how much there is, goes in front in the end; each level moves
// what is in it once.
func pack(dst []byte, from *jsontext.Decoder) []byte {
	token, _ := from.ReadToken()
	switch kind := token.Kind(); kind {
	case '{', '[':
		at, size, packed := len(dst), 0, MsgpackArray
		for ; from.PeekKind() > 0 && from.PeekKind() != '}' && from.PeekKind() != ']'; size++ {
			dst = pack(dst, from)
		}
		_, _ = from.ReadToken()
		if kind == '{' {
			packed, size = MsgpackMap, size/2
		}
		var room [9]byte
		return slices.Insert(dst, at, AppendMsgpack(room[:0], packed, uint64(size))...)
	case '"':
		text := token.String()
		return append(AppendMsgpack(dst, MsgpackText, uint64(len(text))), text...)
	case '0':
		if n, ok := integer(token.String()); ok {
			return AppendMsgpack(dst, MsgpackInt, uint64(n))
		}
		v, _ := strconv.ParseFloat(token.String(), 64)
		return binary.BigEndian.AppendUint64(append(dst, codeFloat64), math.Float64bits(v))
	default:
		return AppendMsgpack(dst, MsgpackBool, MsgpackTruth(kind == 't'))
	}
}

// isFraction reports whether a number of JSON has a fraction or an exponent, and a float64.
func isFraction(number string) bool {
	_, err := strconv.ParseFloat(number, 64)
	return err == nil && len(number) <= maxFraction && slices.ContainsFunc([]byte(number), func(c byte) bool { return c == '.' || c|0x20 == 'e' })
}
