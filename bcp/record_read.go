package bcp

import (
	"bytes"
	"math"
)

// recordReader reads what recordWriter wrote, and copies what it keeps. The
// members may come in any order, numbers in any width that holds them, and
// members that it does not know are passed over, as the library does; the
// library also takes nil and one type for another, and cuts numbers that are too
// great: all that is damage here. Once something is, nothing more is read, and
// what was read is worth nothing.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) fail() { r.b, r.bad = nil, true }

// take returns the next n bytes, which are not copied, and nil where they are
// not there.
func (r *recordReader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// code returns the byte that a value begins with, and where there is none the
// only one that begins no value.
func (r *recordReader) code() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0xc1
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

// size reads what putSize wrote behind the code.
func (r *recordReader) size(bytes uint64) (n uint64) {
	for _, c := range r.take(bytes) {
		n = n<<8 | uint64(c)
	}
	return n
}

// number returns a number as the bits of a uint64, or of an int64 below zero.
func (r *recordReader) number() (n uint64, negative bool) {
	switch c := r.code(); {
	case c <= math.MaxInt8:
		return uint64(c), false
	case c >= 0xe0:
		return uint64(int8(c)), true
	case c >= 0xcc && c <= 0xcf:
		return r.size(1 << (c - 0xcc)), false
	case c >= 0xd0 && c <= 0xd3:
		bytes := uint64(1) << (c - 0xd0)
		unused := 64 - 8*bytes
		signed := int64(r.size(bytes)<<unused) >> unused
		return uint64(signed), signed < 0
	}
	r.fail()
	return 0, false
}

func (r *recordReader) uint(v *uint64) {
	n, negative := r.number()
	if negative {
		r.fail()
	}
	*v = n
}

func readInt[T ~int | ~int64 | ~uint8](r *recordReader, v *T) {
	n, negative := r.number()
	*v = T(n)
	if uint64(*v) != n || (*v < 0) != negative {
		r.fail()
	}
}

func (r *recordReader) flag(v *bool) {
	c := r.code()
	if c != 0xc2 && c != 0xc3 {
		r.fail()
	}
	*v = c == 0xc3
}

// text returns the bytes of a text, which are not copied.
func (r *recordReader) text() []byte {
	switch c := r.code(); {
	case c&0xe0 == 0xa0:
		return r.take(uint64(c & 0x1f))
	case c >= 0xd9 && c <= 0xdb:
		return r.take(r.size(1 << (c - 0xd9)))
	}
	r.fail()
	return nil
}

func readText[T ~string](r *recordReader, v *T) { *v = T(r.text()) }

// binary returns bytes, which are not copied.
func (r *recordReader) binary() []byte {
	c := r.code()
	if c < 0xc4 || c > 0xc6 {
		r.fail()
		return nil
	}
	return r.take(r.size(1 << (c - 0xc4)))
}

func (r *recordReader) bytes(v *[]byte) { *v = bytes.Clone(r.binary()) }

// exactly reads as many bytes as v has.
func (r *recordReader) exactly(v []byte) {
	b := r.binary()
	if len(b) != len(v) {
		r.fail()
	}
	copy(v, b)
}

// length reads what putLength wrote. As every value has a byte or more, there
// are no more of them than bytes.
func (r *recordReader) length(short, code byte) int {
	n := uint64(math.MaxUint64)
	switch c := r.code(); {
	case c&0xf0 == short:
		n = uint64(c & 0x0f)
	case c == code, c == code+1:
		n = r.size(2 << (c - code))
	}
	if n > uint64(len(r.b)) {
		r.fail()
		return 0
	}
	return int(n)
}

// members returns how many a map has, each of them a key and a value.
func (r *recordReader) members() int { return r.length(0x80, 0xde) }

// skip passes over the value of a member that is not known.
func (r *recordReader) skip() {
	rest, ok := skipValue(r.b, maxRecordDepth-1)
	if !ok {
		r.fail()
		return
	}
	r.b = rest
}

func (r *recordReader) texts(v *[]string) {
	texts := make([]string, r.length(0x90, 0xdc))
	for i := range texts {
		readText(r, &texts[i])
	}
	*v = texts
}

func (r *recordReader) balance(b *Balance) {
	for range r.members() {
		switch string(r.text()) {
		case "s":
			readInt(r, &b.Settled)
		case "r":
			readInt(r, &b.Reserved)
		case "p":
			readInt(r, &b.Pushed)
		case "c":
			readInt(r, &b.SettledCapacity)
		case "d":
			readInt(r, &b.ReservedCapacity)
		case "q":
			readInt(r, &b.Cat2Queries)
		default:
			r.skip()
		}
	}
}

// files reads a list that comes once: the library would mix a second one with
// the first.
func (r *recordReader) files(v *[]File) {
	n := r.length(0x90, 0xdc)
	if *v != nil {
		r.fail()
	}
	for range n {
		var f File
		r.file(&f)
		if r.bad {
			return
		}
		*v = append(*v, f)
	}
}

func (r *recordReader) file(f *File) {
	for range r.members() {
		switch string(r.text()) {
		case "Path":
			readText(r, &f.Path)
		case "SHA256":
			r.exactly(f.SHA256[:])
		default:
			r.skip()
		}
	}
}

func (r *recordReader) truncation(v **Truncation) {
	if *v == nil {
		*v = new(Truncation)
	}
	t := *v
	for range r.members() {
		switch string(r.text()) {
		case "s":
			r.uint(&t.Sequence)
		case "b":
			r.exactly(t.Base[:])
		case "a":
			r.exactly(t.Backup[:])
		case "f":
			readText(r, &t.File)
		default:
			r.skip()
		}
	}
}

func (r *recordReader) credential(v **CredentialChange) {
	if *v == nil {
		*v = new(CredentialChange)
	}
	c := *v
	for range r.members() {
		switch string(r.text()) {
		case "n":
			r.uint(&c.Number)
		case "t":
			readInt(r, &c.Time)
		case "r":
			readInt(r, &c.Role)
		case "u":
			readInt(r, &c.Until)
		case "l":
			r.texts(&c.Limits)
		default:
			r.skip()
		}
	}
}

func (r *recordReader) egress(v **EgressChange) {
	if *v == nil {
		*v = new(EgressChange)
	}
	e := *v
	for range r.members() {
		switch string(r.text()) {
		case "a":
			readText(r, &e.Act)
		case "b":
			readText(r, &e.By)
		case "e":
			readText(r, &e.Entry)
		case "w":
			readText(r, &e.Why)
		case "n":
			readInt(r, &e.Bits)
		case "y":
			readInt(r, &e.Bytes)
		case "u":
			readInt(r, &e.Until)
		case "s":
			readInt(r, &e.UsedBits)
		case "t":
			readInt(r, &e.UsedBytes)
		case "r":
			r.uint(&e.Reserved)
		case "l":
			r.flag(&e.Alert)
		default:
			r.skip()
		}
	}
}

func (r *recordReader) private(p *Private) {
	for range r.members() {
		switch string(r.text()) {
		case "cl":
			readText(r, &p.Client)
		case "cd":
			r.exactly(p.ClientDigest[:])
		case "sp":
			r.bytes(&p.Spec)
		case "qf":
			readText(r, &p.QueryField)
		case "pl":
			r.bytes(&p.Payload)
		case "sa":
			r.exactly(p.Salt[:])
		case "rb":
			readInt(r, &p.RawBytes)
		case "dg":
			r.exactly(p.Released[:])
		case "sg":
			r.bytes(&p.Signature)
		default:
			r.skip()
		}
	}
}

func (r *recordReader) decision(d *Decision) {
	for range r.members() {
		switch string(r.text()) {
		case "n":
			r.uint(&d.Seq)
		case "h":
			r.exactly(d.Prev[:])
		case "t":
			readInt(r, &d.Time)
		case "k":
			readInt(r, &d.Kind)
		case "x":
			r.exactly(d.Context[:])
		case "a":
			readText(r, &d.Agent)
		case "ro":
			readInt(r, &d.Role)
		case "co":
			readText(r, &d.Controller)
		case "re":
			readText(r, &d.Reader)
		case "se":
			readText(r, &d.Session)
		case "sb":
			r.flag(&d.SessionBegins)
		case "sd":
			r.flag(&d.SessionByDelivery)
		case "sr":
			r.flag(&d.SessionRenews)
		case "sx":
			r.flag(&d.SessionEnds)
		case "e":
			r.uint(&d.Epoch)
		case "q":
			readText(r, &d.Query)
		case "su":
			readText(r, &d.Subscription)
		case "d":
			readText(r, &d.Delivery)
		case "i":
			readText(r, &d.Item)
		case "ca":
			readInt(r, &d.Category)
		case "at":
			readInt(r, &d.Attempt)
		case "rp":
			r.flag(&d.Repeat)
		case "v":
			readInt(r, &d.Verdict)
		case "c":
			readText(r, &d.Code)
		case "rs":
			readInt(r, &d.Reason)
		case "f":
			readText(r, &d.Field)
		case "ck":
			readInt(r, &d.Check)
		case "pr":
			readInt(r, &d.Price)
		case "lk":
			readInt(r, &d.Lack)
		case "uf":
			r.flag(&d.Unfunded)
		case "o":
			readText(r, &d.Outcome)
		case "an":
			r.texts(&d.Anomalies)
		case "fl":
			r.flag(&d.Flagged)
		case "ta":
			readInt(r, &d.Taint)
		case "ex":
			readInt(r, &d.Exposure)
		case "bn":
			readInt(r, &d.Nominal)
		case "bc":
			readInt(r, &d.Capacity)
		case "tm":
			r.flag(&d.Timing)
		case "b":
			r.balance(&d.Balance)
		case "rm":
			readInt(r, &d.Remaining)
		case "es":
			r.flag(&d.Escalation)
		case "j":
			readText(r, &d.Justification)
		case "jb":
			readInt(r, &d.JustificationBits)
		case "dl":
			readInt(r, &d.Deadline)
		case "rl":
			readInt(r, &d.Release)
		case "st":
			readInt(r, &d.Slot)
		case "so":
			readInt(r, &d.SlotBegan)
		case "sl":
			r.bytes(&d.Sealed)
		case "ra":
			r.bytes(&d.SealedRaw)
		case "rc":
			r.exactly(d.RawCommitment[:])
		case "pc":
			r.exactly(d.PayloadCommitment[:])
		case "ev":
			readText(r, &d.Event)
		case "tg":
			readText(r, &d.Target)
		case "no":
			readText(r, &d.Note)
		case "nt":
			readText(r, &d.Notice)
		case "pp":
			r.flag(&d.Prepaid)
		case "sc":
			readInt(r, &d.Scheduled)
		case "cg":
			r.texts(&d.Changes)
		case "ky":
			readText(r, &d.Key)
		case "xu":
			readInt(r, &d.SignedUntil)
		case "us":
			r.flag(&d.Unsealed)
		case "be":
			readInt(r, &d.Before)
		case "ct":
			readInt(r, &d.Count)
		case "fm":
			readText(r, &d.Family)
		case "ve":
			readText(r, &d.Versions)
		case "fi":
			r.files(&d.Files)
		case "tc":
			r.truncation(&d.Truncation)
		case "cr":
			r.credential(&d.Credential)
		case "eg":
			r.egress(&d.Egress)
		default:
			r.skip()
		}
	}
}
