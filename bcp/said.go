package bcp

//lint:file-ignore U1000 the field _msgpack tells the library to write an array

import (
	"bytes"
	"errors"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// Said is what was said on a channel on a day, as a checkpoint of a state has it; without a
// channel, of the runs of kernels. A checkpoint begins with these parts: who knows nothing
// of the rest can seal each under the key of the records that it was said in, so that what
// erases these erases it.
type Said struct {
	_msgpack struct{} `msgpack:",as_array"`

	Controller, Reader AgentName
	Day                int64 // since 1970, of journal time, in UTC
	Sealed             bool
	Bytes              []byte
}

// SavedRun is a part of a saved state of runs.
type SavedRun struct {
	_msgpack struct{} `msgpack:",as_array"`

	At   int64 // journal time: Said is sealed under the key of this day
	Open []byte
	Said []byte // empty where it was erased
}

// ErrSaid says that a checkpoint does not begin with parts of what was said.
var ErrSaid = errors.New("the checkpoint does not begin with what was said")

// AppendSaid appends the parts that a checkpoint begins with.
func AppendSaid(dst []byte, parts []Said) ([]byte, error) {
	b, err := msgpack.Marshal(parts)
	return append(dst, b...), err
}

// CutSaid returns the parts that a checkpoint begins with, and the rest.
func CutSaid(checkpoint []byte) (parts []Said, rest []byte, err error) {
	rest, ok := wire.SkipMsgpack(checkpoint, 3) // a list of lists of values
	if !ok || msgpack.Unmarshal(checkpoint[:len(checkpoint)-len(rest)], &parts) != nil {
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
