package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// callKey is what a call is: its run, service, tool and arguments, the sub-run that
// makes it, and which of several equal calls of its plan it is. A later plan that
// makes the same call has its outcome.
func (r *run) callKey(t *Tool, arguments []byte, nth int, frame string) bcp.Digest {
	return r.hashKey(nth, "call", string(r.ID), t.Service, t.Name, string(arguments), frame)
}

// parseKey is what a parse is.
func (r *run) parseKey(s *Schema, content []byte, instruction string, nth int, frame string) bcp.Digest {
	return r.hashKey(nth, "parse", string(r.ID), s.Name, string(content), instruction, frame)
}

// runSalt is what the keys of a run that begins are made with: a record shows them, and
// whoever knows all else of a call could otherwise try out its arguments.
func runSalt(m bcp.Moment) bcp.Digest {
	return sha256.Sum256(append([]byte("keys of a run"), m.Salt[:]...))
}

// hashKey hashes parts with their lengths, so that no two lists of parts are one.
func (r *run) hashKey(nth int, parts ...string) bcp.Digest {
	var buf [512]byte
	b := binary.AppendUvarint(append(buf[:0], r.Salt[:]...), uint64(nth))
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// nth makes a key with the number of those that the plan had before.
func nth(had []bcp.Digest, key func(nth int) bcp.Digest) bcp.Digest {
	for n := 1; ; n++ {
		if k := key(n); !slices.Contains(had, k) {
			return k
		}
	}
}

// keys are those of the steps that are done.
func (f *frame) keys() []bcp.Digest {
	keys := make([]bcp.Digest, len(f.Done), len(f.Done)+1)
	for i := range f.Done {
		keys[i] = f.Done[i].Key
	}
	return keys
}
