package bcp

import (
	"crypto/sha256"
	"errors"
)

// The members of a record, and those of its JSON, are listed in [Decision] alone.
//
//go:generate go test -run TestRecordFieldsAreGenerated -update

// usualRecord is the room that most decisions need, in bytes, but for what they
// carry.
const usualRecord = 512

// EncodeDecision returns the bytes of a decision as a journal keeps them:
// MessagePack with short keys, the same bytes for the same decision. The hash
// chain covers exactly these bytes. What is Private stands in them as it was
// sealed; where it says anything and was not, that is [ErrUnsealed].
func EncodeDecision(d *Decision) ([]byte, error) {
	return AppendDecision(make([]byte, 0, usualRecord+len(d.Sealed)+len(d.SealedRaw)), d)
}

// AppendDecision is [EncodeDecision] behind what stands in b.
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
	return digestOf([]byte{0}, record)
}

// digestOf returns the SHA-256 of the parts, one behind the other.
func digestOf(parts ...[]byte) (d Digest) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(d[:0])
	return d
}

// Public returns the decision as the audit shows it: without anything that is
// sealed. What was said stands there as commitments.
func (d *Decision) Public() Decision {
	public := *d
	public.Private, public.Sealed, public.SealedRaw = Private{}, nil, nil
	return public
}
