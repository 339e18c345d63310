package bcp

import (
	"crypto/sha256"
	"errors"
	"reflect"
)

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
	c := recordCoder{b: b}
	c.writeMembers(reflect.ValueOf(d).Elem(), decisionMembers)
	return c.b, nil
}

// DecodeDecision reads what EncodeDecision wrote; [Decision.Open] opens what is
// sealed in it. Records come from the gateway alone, but a disk may lie: damage is
// an error, never a panic, and no length is believed beyond the bytes that are
// there.
func DecodeDecision(b []byte) (d Decision, err error) {
	c := recordCoder{b: b}
	c.readMembers(reflect.ValueOf(&d).Elem(), decisionMembers)
	if c.bad || len(c.b) > 0 {
		return Decision{}, errRecord
	}
	return d, nil
}

var errRecord = errors.New("decoding a decision: not one whole record")

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
