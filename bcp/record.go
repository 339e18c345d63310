package bcp

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"
)

// The members of a record, and those of its JSON, are listed in [Decision] alone.
//
//go:generate go test -run TestRecordFieldsAreGenerated -update

// usualRecord is the room that most decisions need, in bytes, but for what they
// carry.
const usualRecord = 512

// EncodeDecision returns the bytes of a decision as a journal keeps them:
// MessagePack with short keys, the same bytes for the same decision. The hash
// chain covers exactly these bytes. What is Private is in them as it was
// sealed; where it says anything and was not, that is [ErrUnsealed].
func EncodeDecision(d *Decision) ([]byte, error) {
	return AppendDecision(make([]byte, 0, usualRecord+len(d.Sealed)+len(d.SealedRaw)), d)
}

// AppendDecision is [EncodeDecision] after what is in b.
func AppendDecision(b []byte, d *Decision) ([]byte, error) {
	if len(d.Sealed) == 0 && d.Says() {
		return b, ErrUnsealed
	}
	const head = 3 // of a map with 16 members or more
	at := len(b)
	w := recordWriter{b: append(b, 0, 0, 0)}
	w.decision(d)
	b = w.b
	if w.members < 16 {
		b[at] = 0x80 | byte(w.members)
		return append(b[:at+1], b[at+head:]...), nil
	}
	b[at], b[at+1], b[at+2] = 0xde, byte(w.members>>8), byte(w.members)
	return b, nil
}

// DecodeDecision reads what EncodeDecision wrote; [Decision.Open] opens what is
// sealed in it. Records come from the gateway alone, but a disk may lie: damage is
// an error, never a panic, and no length is believed beyond the bytes that are
// there.
func DecodeDecision(b []byte) (d Decision, err error) {
	r := recordReader{b: b}
	if r.decision(&d); r.bad || len(r.b) > 0 {
		return Decision{}, errRecord
	}
	return d, nil
}

var errRecord = errors.New("decoding a decision: not one whole record")

// maxRecordDepth is the depth of a decision: files in a list in a map.
const maxRecordDepth = 4

// RecordDigest is what the next decision's Prev must be: the SHA-256 of a zero
// byte and the record, which is the hash of a leaf in the Merkle trees of RFC
// 6962. So the chain and the tree over it name a decision alike.
func RecordDigest(record []byte) Digest {
	return hashParts([]byte{0}, record)
}

// hashParts returns the SHA-256 of the parts, one after the other.
func hashParts(parts ...[]byte) (d Digest) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(d[:0])
	return d
}

// Public returns the decision as the audit shows it: without anything that is
// sealed. What was said is there as commitments.
func (d *Decision) Public() Decision {
	public := *d
	public.Private, public.Sealed, public.SealedRaw = Private{}, nil, nil
	return public
}

// recordWriter writes the MessagePack map of a decision: members that are not
// empty, numbers in their shortest form. The library would write the same bytes,
// and a test checks that it does; for each record the library looks up which
// members are empty. The lists of members are in record_fields.go.
type recordWriter struct {
	b       []byte
	members int
}

func (w *recordWriter) key(k string) {
	w.members++
	w.b = append(append(w.b, 0xa0|byte(len(k))), k...)
}

func (w *recordWriter) putUint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		w.b = append(w.b, byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xcd, 2, n)
	case n <= math.MaxUint32:
		w.putSize(0xce, 4, n)
	default:
		w.putSize(0xcf, 8, n)
	}
}

func (w *recordWriter) putInt(n int64) {
	switch {
	case n >= 0:
		w.putUint(uint64(n))
	case n >= -32:
		w.b = append(w.b, byte(n))
	case n >= math.MinInt8:
		w.b = append(w.b, 0xd0, byte(n))
	case n >= math.MinInt16:
		w.putSize(0xd1, 2, uint64(n))
	case n >= math.MinInt32:
		w.putSize(0xd2, 4, uint64(n))
	default:
		w.putSize(0xd3, 8, uint64(n))
	}
}

// putSize writes a code and the lowest bytes of n, the highest of them first.
func (w *recordWriter) putSize(code byte, bytes int, n uint64) {
	w.b = append(w.b, code)
	for i := bytes - 1; i >= 0; i-- {
		w.b = append(w.b, byte(n>>(8*i)))
	}
}

func (w *recordWriter) putText(s string) {
	switch n := len(s); {
	case n < 32:
		w.b = append(w.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xda, 2, uint64(n))
	default:
		w.putSize(0xdb, 4, uint64(n))
	}
	w.b = append(w.b, s...)
}

func (w *recordWriter) putBytes(b []byte) {
	switch n := len(b); {
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xc5, 2, uint64(n))
	default:
		w.putSize(0xc6, 4, uint64(n))
	}
	w.b = append(w.b, b...)
}

// putTime writes a timestamp of MessagePack, in the shortest of its three forms.
func (w *recordWriter) putTime(t time.Time) {
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond())
	switch {
	case seconds <= math.MaxUint32 && nanoseconds == 0:
		w.b = append(w.b, 0xd6, 0xff)
		w.b = binary.BigEndian.AppendUint32(w.b, uint32(seconds))
	case seconds>>34 == 0:
		w.b = append(w.b, 0xd7, 0xff)
		w.b = binary.BigEndian.AppendUint64(w.b, nanoseconds<<34|seconds)
	default:
		w.b = append(w.b, 0xc7, 12, 0xff)
		w.b = binary.BigEndian.AppendUint32(w.b, uint32(nanoseconds))
		w.b = binary.BigEndian.AppendUint64(w.b, seconds)
	}
}

func (w *recordWriter) putLength(short byte, code byte, n int) {
	switch {
	case n < 16:
		w.b = append(w.b, short|byte(n))
	case n <= math.MaxUint16:
		w.putSize(code, 2, uint64(n))
	default:
		w.putSize(code+1, 4, uint64(n))
	}
}

// The members that are left out where they are empty.

func (w *recordWriter) flag(k string, v bool) {
	if v {
		w.key(k)
		w.b = append(w.b, 0xc3)
	}
}

func (w *recordWriter) bytes(k string, v []byte) {
	if len(v) > 0 {
		w.key(k)
		w.putBytes(v)
	}
}

func (w *recordWriter) digest(k string, v *Digest) {
	if !v.IsZero() {
		w.key(k)
		w.putBytes(v[:])
	}
}

func (w *recordWriter) texts(k string, v []string) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	w.putLength(0x90, 0xdc, len(v))
	for _, s := range v {
		w.putText(s)
	}
}

func (w *recordWriter) uint(k string, v uint64) {
	if v != 0 {
		w.key(k)
		w.putUint(v)
	}
}

func writeText[T ~string](w *recordWriter, k string, v T) {
	if v != "" {
		w.key(k)
		w.putText(string(v))
	}
}

func writeInt[T ~int | ~int64 | ~uint8](w *recordWriter, k string, v T) {
	if v != 0 {
		w.key(k)
		w.putInt(int64(v))
	}
}

func writePointer[T any](w *recordWriter, k string, v *T, write func(*recordWriter, *T)) {
	if v != nil {
		w.key(k)
		writeMap(w, v, write)
	}
}

func writeList[T any](w *recordWriter, k string, v []T, write func(*recordWriter, *T)) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	w.putLength(0x90, 0xdc, len(v))
	for i := range v {
		writeMap(w, &v[i], write)
	}
}

func writeMap[T any](w *recordWriter, v *T, write func(*recordWriter, *T)) {
	at, members := w.open()
	write(w, v)
	w.close(at, members)
}

// open begins a map in a member, and close ends it.
func (w *recordWriter) open() (at, members int) {
	at, members = len(w.b), w.members
	w.b, w.members = append(w.b, 0), 0
	return at, members
}

func (w *recordWriter) close(at, members int) {
	if w.b[at] = 0x80 | byte(w.members); w.members > 15 {
		w.b[at] = 0xde
		w.b = slices.Insert(w.b, at+1, byte(w.members>>8), byte(w.members))
	}
	w.members = members
}
