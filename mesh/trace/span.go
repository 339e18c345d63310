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
// behind End.
type Span struct {
	Trace      TraceID
	ID, Parent SpanID // the zero Parent is of a root
	Name       string // one of our words: there are few
	Begin, End int64
	Attributes []Attribute
}

// Attribute is one thing that a span says; docs/operators.md lists them.
type Attribute struct {
	Key   string
	Kind  AttributeKind
	Text  string   // of a Text
	Texts []string // of a List
	// Number is that of a Number, 1 for a Truth that holds, and a [bcp.Bits] of
	// Bits.
	Number int64
}

// AttributeKind says what an attribute is.
type AttributeKind uint8

// The kinds. The zero value is none.
const (
	Text   AttributeKind = 1
	List   AttributeKind = 2
	Number AttributeKind = 3
	Truth  AttributeKind = 4
	Bits   AttributeKind = 5
)

// Key makes the ids of traces and spans. It must be secret and random.
type Key [32]byte

// ids makes ids of the numbers of decisions: a block cipher gives each another
// one, and tells nobody of which.
type ids struct{ block cipher.Block }

func newIDs(k Key) ids {
	block, err := aes.NewCipher(k[:])
	if err != nil {
		panic(err) // a key has the right length
	}
	return ids{block}
}

// part is which span of a decision's it is, and 0 its trace.
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

// attributes gathers those that are not zero.
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
