package jetstream

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

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
	b = wire.AppendMsgpack(append(b, recordHead...), wire.MsgpackArray, uint64(len(decisions)))
	for _, d := range decisions {
		b = append(wire.AppendMsgpack(b, wire.MsgpackBytes, uint64(len(d))), d...)
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
	rest := data[len(recordHead):]
	_, _, begin := wire.MsgpackHead(rest)
	for rest = rest[begin:]; len(rest) > 0; {
		kind, n, begin := wire.MsgpackHead(rest)
		if kind != wire.MsgpackBytes || begin == 0 || n > uint64(len(rest)-begin) || len(decisions) == MaxRecordDecisions {
			return nil, errFormat
		}
		end := begin + int(n)
		decisions, rest = append(decisions, rest[begin:end:end]), rest[end:]
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
	kind, members, size := wire.MsgpackHead(record)
	if kind != wire.MsgpackMap || size == 0 {
		return b, errFormat
	}
	at, kept, rest, ok := len(b), 0, record[size:], false
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
	var head [9]byte
	return slices.Insert(b, at, wire.AppendMsgpack(head[:0], wire.MsgpackMap, uint64(kept))...), nil
}

// The keys of sealed content in a decision.
var sealedKey, sealedRawKey = []byte("\xa2sl"), []byte("\xa2ra")

var errFormat = errors.New("unknown record format")
