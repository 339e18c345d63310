package kernel

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// callKey is what a call is: its run, service, tool and arguments, the sub-run that
// makes it, and which of several equal calls of its plan it is. A later plan that
// makes the same call has its outcome.
func callKey(id RunID, t *Tool, arguments []byte, nth int, frame string) bcp.Digest {
	return keyOf(nth, "call", string(id), t.Service, t.Name, string(arguments), frame)
}

// parseKey is what a parse is.
func parseKey(id RunID, s *Schema, content []byte, instruction string, nth int, frame string) bcp.Digest {
	return keyOf(nth, "parse", string(id), s.Name, string(content), instruction, frame)
}

// keyOf hashes parts with their lengths, so that no two lists of parts are one.
func keyOf(nth int, parts ...string) bcp.Digest {
	var buf [512]byte
	b := binary.AppendUvarint(buf[:0], uint64(nth))
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// nth makes a key with the number of those that the plan had before.
func (f *frame) nth(key func(nth int) bcp.Digest) bcp.Digest {
	for n := 1; ; n++ {
		k := key(n)
		found := false
		for i := range f.done {
			found = found || f.done[i].key == k
		}
		if !found {
			return k
		}
	}
}
