package trace

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The ids, as OpenTelemetry has them.
type (
	TraceID [16]byte
	SpanID  [8]byte
)

// Span is one span that has ended. Times are Unix nanoseconds, and Begin is not
// after End.
type Span struct {
	Trace      TraceID
	ID, Parent SpanID // the zero Parent is of a root
	Name       string // one of our words: there are few
	Begin, End int64
	Attributes []Attribute
}

// Attribute is an attribute of a span; docs/metrics.md lists them.
type Attribute struct {
	Key   string
	Kind  AttributeKind
	Text  string   // of a Text
	Texts []string // of a List
	// Number is the value of a Number, 1 for a true Truth, and a [bcp.Bits] for
	// Bits.
	Number int64
}

// AttributeKind is the type of an attribute.
type AttributeKind uint8

// The kinds. The zero value is invalid.
const (
	Text   AttributeKind = 1
	List   AttributeKind = 2
	Number AttributeKind = 3
	Truth  AttributeKind = 4
	Bits   AttributeKind = 5
)

// Key makes the ids of traces and spans. It must be secret and random.
type Key [32]byte

// ids makes ids from the numbers of decisions: a block cipher gives each a
// different one that does not reveal the number.
type ids struct{ block cipher.Block }

func newIDs(k Key) ids {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic(err) // a key has the right length
	}
	return ids{block}
}

// part says which span of a decision it is; 0 is its trace.
type part byte

const (
	partTrace part = iota
	partRoot
	partDecide
	partReader
	partApproval
	partDeliver
)

func (i ids) trace(seq uint64) (t TraceID) {
	t[0] = byte(partTrace)
	binary.BigEndian.PutUint64(t[8:], seq)
	i.block.Encrypt(t[:], t[:])
	return t
}

func (i ids) span(seq uint64, p part) (s SpanID) {
	var b [16]byte
	b[0] = byte(p)
	binary.BigEndian.PutUint64(b[8:], seq)
	i.block.Encrypt(b[:], b[:])
	copy(s[:], b[:])
	return s
}

// attributes collects the non-zero ones.
type attributes []Attribute

func (a *attributes) text(key, value string) {
	if value != "" {
		*a = append(*a, Attribute{Key: key, Kind: Text, Text: value})
	}
}

func (a *attributes) number(key string, value int64) {
	if value != 0 {
		*a = append(*a, Attribute{Key: key, Kind: Number, Number: value})
	}
}

func (a *attributes) truth(key string, value bool) {
	if value {
		*a = append(*a, Attribute{Key: key, Kind: Truth, Number: 1})
	}
}

func (a *attributes) bits(nominal, capacity bcp.Bits) {
	if nominal != 0 || capacity != 0 {
		*a = append(*a, Attribute{Key: "bcp.nominal_bits", Kind: Bits, Number: int64(nominal)}, Attribute{Key: "bcp.capacity_bits", Kind: Bits, Number: int64(capacity)})
	}
}
