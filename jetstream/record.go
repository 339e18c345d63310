package jetstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// A record is one message of the journal: a MessagePack map of its version, "v",
// and its decisions as bcp.EncodeDecision wrote them, "d".

// recordVersion begins every record. A new format gets a new number and, once
// there has been a release, both are read.
const recordVersion = 2

// Limits of a record. A batch that is larger becomes several records.
const (
	MaxRecordDecisions = 1024
	MaxRecordBytes     = 768 << 10
)

// recordHead comes before the number of decisions.
var recordHead = []byte{0x82, 0xa1, 'v', recordVersion, 0xa1, 'd'}

// appendRecord appends a record to b. The library would write the same bytes,
// but with reflection each time.
func appendRecord(b []byte, decisions [][]byte) []byte {
	b = append(b, recordHead...)
	if n := len(decisions); n < 16 {
		b = append(b, 0x90|byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n)) // of MaxRecordDecisions
	}
	for _, d := range decisions {
		switch n := len(d); {
		case n <= math.MaxUint8:
			b = append(b, 0xc4, byte(n))
		case n <= math.MaxUint16:
			b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
		default:
			b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
		}
		b = append(b, d...)
	}
	return b
}

// decodeRecord reads what appendRecord wrote, and refuses any other spelling of it; the
// decisions are slices of data. The disk is not trusted: no length is used before its bytes
// exist.
func decodeRecord(data []byte) (decisions [][]byte, err error) {
	const version = 3 // its place in recordHead
	if len(data) < len(recordHead)+1 || !bytes.HasPrefix(data, recordHead[:version]) {
		return nil, errFormat
	}
	if v := data[version]; v != recordVersion {
		return nil, fmt.Errorf("%w %d: this version of bcpmesh reads format %d only, and no journal of another version", errFormat, v, recordVersion)
	}
	rest := data[len(recordHead)+1:]
	if data[len(recordHead)] == 0xdc {
		rest = rest[min(2, len(rest)):]
	}
	for len(rest) > 0 {
		after, ok := wire.SkipMsgpack(rest, 1)
		if !ok || rest[0] < 0xc4 || rest[0] > 0xc6 || len(decisions) == MaxRecordDecisions {
			return nil, errFormat
		}
		begin, end := 1+1<<(rest[0]-0xc4), len(rest)-len(after) // behind the kind and the length
		decisions, rest = append(decisions, rest[begin:end:end]), after
	}
	if len(decisions) < 1 || !bytes.Equal(appendRecord(make([]byte, 0, len(data)), decisions), data) {
		return nil, errFormat
	}
	return decisions, nil
}

// decisionDepth is how deep the values in a decision's map may be.
const decisionDepth = 3

// appendPublic appends a decision's audit form to b: its record without sealed
// content, the same as bcp.EncodeDecision of its Public.
func appendPublic(b, record []byte) ([]byte, error) {
	members, rest := 0, record
	switch {
	case len(rest) > 0 && rest[0]&0xf0 == 0x80:
		members, rest = int(rest[0]&0x0f), rest[1:]
	case len(rest) > 2 && rest[0] == 0xde:
		members, rest = int(binary.BigEndian.Uint16(rest[1:])), rest[3:]
	default:
		return b, errFormat
	}
	at, kept, ok := len(b), 0, false
	b = append(b, 0xde, 0, 0)
	for range members {
		member := rest
		for range 2 { // its key, and its value
			if rest, ok = wire.SkipMsgpack(rest, decisionDepth); !ok {
				return b[:at], errFormat
			}
		}
		member = member[:len(member)-len(rest)]
		if bytes.HasPrefix(member, sealedKey) || bytes.HasPrefix(member, sealedRawKey) {
			continue
		}
		kept++
		b = append(b, member...)
	}
	if len(rest) > 0 {
		return b[:at], errFormat
	}
	if kept < 16 {
		b[at] = 0x80 | byte(kept)
		return append(b[:at+1], b[at+3:]...), nil
	}
	binary.BigEndian.PutUint16(b[at+1:], uint16(kept))
	return b, nil
}

// The keys of sealed content in a decision.
var sealedKey, sealedRawKey = []byte("\xa2sl"), []byte("\xa2ra")

var errFormat = errors.New("unknown record format")
