package bcp

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
)

// usualRecord is the room that most decisions need, in bytes, but for what they
// carry.
const usualRecord = 512

// EncodeDecision returns the bytes of a decision as a journal keeps them:
// MessagePack with short keys, the same bytes for the same decision. The hash
// chain covers exactly these bytes.
func EncodeDecision(d *Decision) ([]byte, error) {
	const head = 3 // of a map with 16 members or more
	w := recordWriter{b: make([]byte, head, usualRecord+len(d.Spec)+len(d.Payload))}
	w.decision(d)
	if w.members < 16 {
		w.b[head-1] = 0x80 | byte(w.members)
		return w.b[head-1:], nil
	}
	w.b[0], w.b[1], w.b[2] = 0xde, byte(w.members>>8), byte(w.members)
	return w.b, nil
}

// DecodeDecision reads what EncodeDecision wrote. Records come from the gateway
// alone, but a disk may lie: damage is an error, never a panic, and no length is
// believed beyond the bytes that are there.
func DecodeDecision(b []byte) (d Decision, err error) {
	if rest, ok := skipValue(b, maxRecordDepth); !ok || len(rest) > 0 {
		return Decision{}, errRecord
	}
	if err := msgpack.Unmarshal(b, &d); err != nil {
		return Decision{}, fmt.Errorf("decoding a decision: %w", err)
	}
	return d, nil
}

var errRecord = errors.New("decoding a decision: not one whole record")

// maxRecordDepth is the depth of a decision: files in a list in a map.
const maxRecordDepth = 4

// skipValue returns what stands behind the first MessagePack value of b. It
// exists because the library allocates what a length announces.
func skipValue(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth == 0 {
		return nil, false
	}
	code := b[0]
	b = b[1:]
	size, values := 0, 0 // bytes, and values, that follow
	switch {
	case code <= 0x7f, code >= 0xe0, code == 0xc0, code == 0xc2, code == 0xc3: // small numbers, nil, booleans
	case code <= 0x8f:
		values = 2 * int(code&0x0f)
	case code <= 0x9f:
		values = int(code & 0x0f)
	case code <= 0xbf:
		size = int(code & 0x1f)
	case code >= 0xcc && code <= 0xcf: // unsigned
		size = 1 << (code - 0xcc)
	case code >= 0xd0 && code <= 0xd3: // signed
		size = 1 << (code - 0xd0)
	case code >= 0xc4 && code <= 0xc6: // binary
		size, b = length(b, 1<<(code-0xc4))
	case code >= 0xd9 && code <= 0xdb: // text
		size, b = length(b, 1<<(code-0xd9))
	case code == 0xdc, code == 0xdd: // list
		values, b = length(b, 2<<(code-0xdc))
	case code == 0xde, code == 0xdf: // map
		values, b = length(b, 2<<(code-0xde))
		values *= 2
	default: // floats and extensions have no place in a decision
		return nil, false
	}
	if size < 0 || values < 0 || size > len(b) || values > len(b) {
		return nil, false
	}
	b = b[size:]
	for range values {
		if b, ok = skipValue(b, depth-1); !ok {
			return nil, false
		}
	}
	return b, true
}

// length reads a length of n bytes, -1 where they are not there.
func length(b []byte, n int) (int, []byte) {
	if len(b) < n {
		return -1, nil
	}
	size := 0
	for _, c := range b[:n] {
		size = size<<8 | int(c)
	}
	return size, b[n:]
}

// RecordDigest is what the next decision's Prev must be.
func RecordDigest(record []byte) Digest { return sha256.Sum256(record) }

// Public returns the decision as the audit shows it: without the spec, the
// payload and the salt, and without the client id, which is text of an agent's
// own choice. What was delivered stands there as a commitment.
func (d *Decision) Public() Decision {
	public := *d
	public.Spec, public.Payload, public.PayloadKey, public.Salt = nil, nil, "", [16]byte{}
	public.Client, public.ClientDigest = "", Digest{}
	// A signature over the digest of a boolean would tell it.
	public.Released, public.Signature = Digest{}, nil
	if len(d.Payload) > 0 {
		public.PayloadCommitment = d.Commit(d.Payload)
	}
	return public
}
