package bcp

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
)

// Private is the part of a decision that agents and people said, or that would
// tell it: what the audit does not show. In a record it is sealed.
type Private struct {
	// Client is the request_id or push_id, and ClientDigest the digest of the
	// message that bore it.
	Client       ClientID `msgpack:"cl,omitempty"`
	ClientDigest Digest   `msgpack:"cd,omitempty"`
	// Spec is an accepted ask's spec in canonical JSON.
	Spec []byte `msgpack:"sp,omitempty"`
	// QueryField is the field or question of a query that was answered wrongly, as
	// its Controller calls it.
	QueryField string `msgpack:"qf,omitempty"`
	// Payload is the validated answer in canonical JSON.
	Payload []byte `msgpack:"pl,omitempty"`
	// Enclosed are the sealed values of an answer to who does not read them: Payload has
	// a [Handle] in place of each, in this order.
	Enclosed []string `msgpack:"en,omitempty"`
	// Salt makes the commitments. It is sealed too: who has it finds out which
	// boolean one is of.
	Salt [16]byte `msgpack:"sa"`
	// RawBytes is the size of the message that the decision is about. It differs
	// between true and false.
	RawBytes int `msgpack:"rb,omitempty"`
	// Released is the SHA-256 of the bytes that an approver signed, with Signature: of a
	// passkey the [Assertion], in JSON.
	Released  Digest `msgpack:"dg,omitempty"`
	Signature []byte `msgpack:"sg,omitempty"`
	// Batch has the other decisions that Signature is of.
	Batch Batch `msgpack:"ba,omitempty"`
	// RunSaid is the private part of a change of a run, in JSON.
	RunSaid []byte `msgpack:"rd,omitempty"`

	// Erased says that the key is destroyed, and that nobody knows the rest.
	Erased bool `msgpack:"-"`
}

// Says reports whether there is anything to seal. A salt alone is nothing.
func (p *Private) Says() bool {
	return p.Client != "" || !p.ClientDigest.IsZero() || len(p.Spec) > 0 || p.QueryField != "" || len(p.Payload) > 0 || p.RawBytes != 0 || !p.Released.IsZero() || len(p.Signature) > 0 || len(p.Batch) > 0 || len(p.RunSaid) > 0
}

var (
	// ErrUnsealed says that a decision would be written in clear.
	ErrUnsealed = errors.New("the decision is not sealed")
	// ErrSealed says that a key does not open what is sealed: it is another key,
	// or the bytes were changed.
	ErrSealed = errors.New("the key does not open the decision")
)

// MaxRawBytes is how much of one message a record keeps.
const MaxRawBytes = 64 << 10

// MaxFreeBytes is how much it keeps of a message that bits do not pay for: a refused one,
// a repeat, or a report. Of the rest there is the commitment, so that nobody fills the
// journal with spaces.
const MaxFreeBytes = 4 << 10

// rawKept is how much of the message the record keeps.
func (d *Decision) rawKept() int {
	if kept := d.Kind.row().kept; kept > 0 {
		return kept
	}
	if d.Verdict == Reject && d.Delivery == "" || d.Repeat {
		return MaxFreeBytes
	}
	return MaxRawBytes
}

// sealedStep is what sizes are rounded up to before they are sealed: a sealed
// boolean must not tell by its length which one it is.
const sealedStep = 128

// The two parts of a record that are sealed, each under a key of its own, and those of a
// snapshot, under the first.
const (
	sealedPrivate = "bcpmesh private 1"
	sealedRaw     = "bcpmesh raw 1"
	sealedSaid    = "bcpmesh snapshot 1"
)

// SealingKey seals what was said on one channel on one day: AES-256-GCM. The zero
// value neither seals nor opens. It may be used concurrently.
type SealingKey struct{ aead cipher.AEAD }

// NewSealingKey returns the key of a secret, which has to be random.
func NewSealingKey(secret [32]byte) (SealingKey, error) {
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return SealingKey{}, err
	}
	aead, err := cipher.NewGCM(block)
	return SealingKey{aead}, err
}

// IsZero reports whether it is no key.
func (k SealingKey) IsZero() bool { return k.aead == nil }

// Seal writes Private down as Sealed, and commits to the payload. Nothing of
// Private may change afterwards.
func (d *Decision) Seal(k SealingKey) error {
	if len(d.Payload) > 0 {
		d.PayloadCommitment = d.Commit(d.Payload)
	}
	c := recordCoder{b: make([]byte, nonceSize, sealedRoom+len(d.Spec)+len(d.Payload)+len(d.RunSaid))}
	c.writeMembers(reflect.ValueOf(&d.Private).Elem(), privateMembers)
	var err error
	d.Sealed, err = k.seal(d, sealedPrivate, c.b)
	return err
}

// SealRaw seals the message that the decision is about, the first [MaxRawBytes]
// of it, or [MaxFreeBytes].
func (d *Decision) SealRaw(k SealingKey, message []byte) error {
	message = message[:min(len(message), d.rawKept())]
	c := recordCoder{b: make([]byte, nonceSize, sealedRoom+len(message))}
	c.writeBytes(message)
	var err error
	d.SealedRaw, err = k.seal(d, sealedRaw, c.b)
	return err
}

const (
	nonceSize = 12
	tagSize   = 16
	// placeSize is what most places take.
	placeSize = 128
	// sealedRoom is the room to seal in, but for what is sealed.
	sealedRoom = nonceSize + 2*sealedStep + tagSize + placeSize
)

// seal seals what is in b after the room for the nonce, in place.
func (k SealingKey) seal(d *Decision, part string, b []byte) ([]byte, error) {
	if k.IsZero() || d.Salt == [16]byte{} {
		return nil, ErrUnsealed
	}
	if over := (len(b) - nonceSize) % sealedStep; over > 0 {
		b = append(b, make([]byte, sealedStep-over)...)
	}
	// The salt is fresh for each decision, and so is what it makes: no nonce is
	// used twice, also where a record that was not acknowledged is decided again.
	nonce := hashParts([]byte(part), d.Salt[:])
	copy(b, nonce[:nonceSize])
	end := len(b) + tagSize
	place := d.place(slices.Grow(b, tagSize+placeSize)[end:end], part)
	return k.aead.Seal(b[:nonceSize], b[:nonceSize], b[nonceSize:], place)[:end:end], nil
}

// place appends where a sealed part belongs: it opens nowhere else.
func (d *Decision) place(b []byte, part string) []byte {
	b = binary.BigEndian.AppendUint64(append(b, part...), d.Seq)
	for _, name := range []AgentName{d.Controller, d.Reader, d.Agent} { // none has a zero byte
		b = append(append(b, name...), 0)
	}
	return b
}

// Open reads Private from Sealed, if there is any.
func (d *Decision) Open(k SealingKey) error {
	if len(d.Sealed) == 0 {
		return nil
	}
	b, err := k.open(d, sealedPrivate, d.Sealed)
	if err != nil {
		return err
	}
	c := recordCoder{b: b} // zeros follow
	var p Private
	c.readMembers(reflect.ValueOf(&p).Elem(), privateMembers)
	if c.bad {
		return errRecord
	}
	d.Private = p
	return nil
}

// OpenRaw returns the message that the decision is about, the first [MaxRawBytes]
// of it, and nothing if there is none.
func (d *Decision) OpenRaw(k SealingKey) ([]byte, error) {
	if len(d.SealedRaw) == 0 {
		return nil, nil
	}
	b, err := k.open(d, sealedRaw, d.SealedRaw)
	if err != nil {
		return nil, err
	}
	c := recordCoder{b: b}
	message := bytes.Clone(c.readBytes())
	if c.bad {
		return nil, errRecord
	}
	return message, nil
}

func (k SealingKey) open(d *Decision, part string, sealed []byte) ([]byte, error) {
	if k.IsZero() || len(sealed) < nonceSize {
		return nil, ErrSealed
	}
	b, err := k.aead.Open(nil, sealed[:nonceSize], sealed[nonceSize:], d.place(make([]byte, 0, placeSize), part))
	if err != nil {
		return nil, ErrSealed
	}
	return b, nil
}
