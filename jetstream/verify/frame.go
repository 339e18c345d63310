package verify

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"strconv"
	"strings"
)

// A file is the magic line, then frames: a kind, the length of the payload, the
// payload, and the CRC-32C of all three.
const (
	magic     = "bcpmesh audit 1\n"
	kindHead  = 'H'
	kindBlock = 'D'
	kindEnd   = 'E'
	frameHead = 1 + 4
	checksum  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frames reads the frames of a file.
type frames struct {
	r      *bufio.Reader
	offset int64
}

func openFrames(r io.Reader) (*frames, error) {
	f := &frames{r: bufio.NewReaderSize(r, 64<<10)}
	begin := make([]byte, len(magic))
	switch err := f.read(begin); {
	case isCut(err), err == nil && string(begin) != magic:
		return nil, &Fault{Within: -1, Reason: "this is no export of an audit, or one of another version"}
	case err != nil:
		return nil, err
	}
	return f, nil
}

func isCut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func (f *frames) read(b []byte) error {
	n, err := io.ReadFull(f.r, b)
	f.offset += int64(n)
	return err
}

// next reads one frame, and its payload into into if that has enough capacity.
// due is the number of the next decision.
func (f *frames) next(into []byte, due uint64) (kind byte, payload []byte, offset int64, err error) {
	offset = f.offset
	fault := func(reason string) error { return &Fault{Decision: due, Offset: offset, Within: -1, Reason: reason} }
	var head [frameHead]byte
	if err := f.read(head[:]); isCut(err) {
		return 0, nil, offset, fault("the file ends without a checkpoint: it was cut")
	} else if err != nil {
		return 0, nil, offset, err
	}
	kind = head[0]
	size := int(binary.BigEndian.Uint32(head[1:]))
	limit := maxText
	if kind == kindBlock {
		limit = maxPayload
	}
	if size > limit {
		return 0, nil, offset, fault("a frame is larger than any can be")
	}
	if cap(into) < size+checksum {
		into = make([]byte, size+checksum)
	}
	into = into[:size+checksum]
	if err := f.read(into); isCut(err) {
		return 0, nil, offset, fault("the file ends within a frame: it was cut")
	} else if err != nil {
		return 0, nil, offset, err
	}
	payload = into[:size]
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, payload)
	if sum != binary.BigEndian.Uint32(into[size:]) {
		return 0, nil, offset, fault("the checksum of the frame does not match: it was changed")
	}
	return kind, payload, offset, nil
}

// end checks that nothing follows.
func (f *frames) end() error {
	switch _, err := f.r.ReadByte(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return &Fault{Offset: f.offset, Within: -1, Reason: "there is data after the end"}
}

// head is the header of a file. All of it is checked: the key against the
// caller's known keys, the rest against the checkpoint.
type head struct {
	key      string
	first    uint64
	previous Hash   // digest of the decision before the first
	subtrees []Hash // of the tree in front of the first, largest first
}

func (h *head) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "key %s\nfirst %d\nprevious %x\n", h.key, h.first, h.previous[:])
	for i := range h.subtrees {
		fmt.Fprintf(&b, "subtree %s\n", base64.StdEncoding.EncodeToString(h.subtrees[i][:]))
	}
	return b.Bytes()
}

// parseHead accepts only the output of text.
func parseHead(b []byte) (head, bool) {
	var h head
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) < 3 {
		return h, false
	}
	h.key = strings.TrimPrefix(lines[0], "key ")
	var err error
	h.first, err = strconv.ParseUint(strings.TrimPrefix(lines[1], "first "), 10, 63)
	if err != nil || h.first == 0 || len(lines)-3 != bits.OnesCount64(h.first-1) {
		return h, false
	}
	previous, err := hex.DecodeString(strings.TrimPrefix(lines[2], "previous "))
	if err != nil || copy(h.previous[:], previous) != len(Hash{}) {
		return h, false
	}
	for _, line := range lines[3:] {
		hash, ok := parseHash(strings.TrimPrefix(line, "subtree "))
		if !ok {
			return h, false
		}
		h.subtrees = append(h.subtrees, hash)
	}
	return h, bytes.Equal(h.text(), b)
}
