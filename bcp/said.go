package bcp

import (
	"bytes"
	"errors"
	"reflect"
)

// Said is what was said on a channel on a day, as a checkpoint of a state has it; without a
// channel, of the runs of kernels. A checkpoint begins with these parts: who knows nothing
// of the rest can seal each under the key of the records that it was said in, so that what
// erases these erases it.
type Said struct {
	Controller, Reader AgentName
	Day                int64 // since 1970, of journal time, in UTC
	Sealed             bool
	Bytes              []byte
}

// SavedRun is a part of a saved state of runs.
type SavedRun struct {
	At   int64 // journal time: Said is sealed under the key of this day
	Open []byte
	Said []byte `msgpack:"-"` // empty where it was erased; apart, as [Said]
}

// ErrSaid says that a checkpoint does not begin with parts of what was said.
var ErrSaid = errors.New("the checkpoint does not begin with what was said")

// AppendSaved appends what p points to, such as a part of a checkpoint: the same bytes for
// the same value. It is an error where something in it is longer than 4 GiB.
func AppendSaved(dst []byte, p any) ([]byte, error) {
	v := reflect.ValueOf(p).Elem()
	c := recordCoder{b: dst}
	if c.write(v, membersOf(v.Type())); c.bad {
		return dst, errRecord
	}
	return c.b, nil
}

// CutSaved reads what [AppendSaved] wrote from the beginning of b, and returns the rest.
func CutSaved(b []byte, p any) (rest []byte, err error) {
	v := reflect.ValueOf(p).Elem()
	c := recordCoder{b: b, strict: true}
	if c.read(v, membersOf(v.Type())); c.bad {
		return nil, errRecord
	}
	return c.b, nil
}

// AppendSaid appends the parts that a checkpoint begins with.
func AppendSaid(dst []byte, parts []Said) ([]byte, error) { return AppendSaved(dst, &parts) }

// CutSaid returns the parts that a checkpoint begins with, and the rest.
func CutSaid(checkpoint []byte) (parts []Said, rest []byte, err error) {
	if rest, err = CutSaved(checkpoint, &parts); err != nil {
		return nil, nil, ErrSaid
	}
	return parts, rest, nil
}

// Seal seals the part, with a salt that is used once.
func (s *Said) Seal(k SealingKey, salt [16]byte) error {
	c := recordCoder{b: make([]byte, nonceSize, sealedRoom+len(s.Bytes))}
	c.writeBytes(s.Bytes)
	sealed, err := k.seal(s.place(salt), sealedSaid, c.b)
	if err == nil {
		s.Sealed, s.Bytes = true, sealed
	}
	return err
}

// Open opens the part.
func (s *Said) Open(k SealingKey) error {
	b, err := k.open(s.place([16]byte{}), sealedSaid, s.Bytes)
	if err != nil || !s.Sealed {
		return ErrSealed
	}
	c := recordCoder{b: b} // zeros follow
	said := bytes.Clone(c.readBytes())
	if c.bad {
		return errRecord
	}
	s.Sealed, s.Bytes = false, said
	return nil
}

// place is the decision in whose place the part is sealed: its day is the number.
func (s *Said) place(salt [16]byte) *Decision {
	return &Decision{Seq: uint64(s.Day), Controller: s.Controller, Reader: s.Reader, Private: Private{Salt: salt}}
}
