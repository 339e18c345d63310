package bcp

import (
	"encoding"
	"encoding/hex"
	"errors"
	"strconv"
)

// AppendJSON appends the JSON of a decision: the bytes that the library writes,
// without looking up for each decision which members are empty. A test compares
// the two. It is false if only the library can say what the JSON is, or that there
// is none: for rare members, words without a meaning and text that is not UTF-8.
func (d *Decision) AppendJSON(b []byte) ([]byte, bool) {
	w := jsonWriter{b: append(b, '{')}
	w.decision(d)
	w.close('}')
	return w.b, w.err == nil
}

var errRare = errors.New("the library writes this member")

// writeOther leaves a member that few decisions have to the library.
func (w *jsonWriter) writeOther(set bool) {
	if set {
		w.err = errRare
	}
}

// digest writes a digest, and the zero digest as an empty text.
func (w *jsonWriter) digest(k string, v *Digest) {
	w.key(k)
	w.b = append(w.b, '"')
	if !v.IsZero() {
		w.b = hex.AppendEncode(w.b, v[:])
	}
	w.b = append(w.b, '"')
}

func (w *jsonWriter) unsigned(k string, n uint64) {
	w.key(k)
	w.b = strconv.AppendUint(w.b, n, 10)
}

// The members that are left out if they are empty.

func someNamed[T interface {
	~uint8
	encoding.TextMarshaler
}](w *jsonWriter, k string, v T) {
	if v != 0 {
		w.named(k, v)
	}
}

func (w *jsonWriter) someFlag(k string, v bool) {
	if v {
		w.flag(k, v)
	}
}

func (w *jsonWriter) someBits(k string, v Bits) {
	if v != 0 {
		w.bits(k, v)
	}
}

func (w *jsonWriter) someDigest(k string, v *Digest) {
	if !v.IsZero() {
		w.digest(k, v)
	}
}

func (w *jsonWriter) someUnsigned(k string, n uint64) {
	if n != 0 {
		w.unsigned(k, n)
	}
}
