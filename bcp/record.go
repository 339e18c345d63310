package bcp

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// EncodeDecision returns the bytes of a decision as a journal keeps them:
// MessagePack with short keys, the same bytes for the same decision. The hash
// chain covers exactly these bytes.
func EncodeDecision(d *Decision) ([]byte, error) {
	var buf bytes.Buffer
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(&buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(d); err != nil {
		return nil, fmt.Errorf("encoding decision %d: %w", d.Seq, err)
	}
	return buf.Bytes(), nil
}

// DecodeDecision reads what EncodeDecision wrote. Records come from the gateway
// alone, but a disk may lie: damage is an error, never a panic.
func DecodeDecision(b []byte) (d Decision, err error) {
	dec := msgpack.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&d); err != nil {
		return Decision{}, fmt.Errorf("decoding a decision: %w", err)
	}
	if _, err := dec.PeekCode(); err == nil {
		return Decision{}, errTrailingRecord
	}
	return d, nil
}

var errTrailingRecord = errors.New("decoding a decision: bytes behind it")

// RecordDigest is what the next decision's Prev must be.
func RecordDigest(record []byte) Digest { return sha256.Sum256(record) }

// Public returns the decision as the audit shows it: without the spec, the
// payload and the salt. What was delivered stands there as a commitment.
func (d *Decision) Public() Decision {
	public := *d
	public.Spec, public.Payload, public.PayloadKey, public.Salt = nil, nil, "", [16]byte{}
	public.ClientDigest = Digest{}
	if len(d.Payload) > 0 {
		public.PayloadCommitment = d.Commit(d.Payload)
	}
	return public
}
