package bcp

import "math"

// recordWriter writes the MessagePack map of a decision: members that are not
// empty, numbers in their shortest form. It is what the library would write,
// and a test holds it to that: the library finds out anew for every record
// which of the members are empty.
type recordWriter struct {
	b       []byte
	members int
}

func (w *recordWriter) key(k string) {
	w.members++
	w.b = append(append(w.b, 0xa0|byte(len(k))), k...)
}

func (w *recordWriter) putUint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		w.b = append(w.b, byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xcc, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xcd, 2, n)
	case n <= math.MaxUint32:
		w.putSize(0xce, 4, n)
	default:
		w.putSize(0xcf, 8, n)
	}
}

func (w *recordWriter) putInt(n int64) {
	switch {
	case n >= 0:
		w.putUint(uint64(n))
	case n >= -32:
		w.b = append(w.b, byte(n))
	case n >= math.MinInt8:
		w.b = append(w.b, 0xd0, byte(n))
	case n >= math.MinInt16:
		w.putSize(0xd1, 2, uint64(n))
	case n >= math.MinInt32:
		w.putSize(0xd2, 4, uint64(n))
	default:
		w.putSize(0xd3, 8, uint64(n))
	}
}

// putSize writes a code and the lowest bytes of n, the highest of them first.
func (w *recordWriter) putSize(code byte, bytes int, n uint64) {
	w.b = append(w.b, code)
	for i := bytes - 1; i >= 0; i-- {
		w.b = append(w.b, byte(n>>(8*i)))
	}
}

func (w *recordWriter) putText(s string) {
	switch n := len(s); {
	case n < 32:
		w.b = append(w.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xda, 2, uint64(n))
	default:
		w.putSize(0xdb, 4, uint64(n))
	}
	w.b = append(w.b, s...)
}

func (w *recordWriter) putBytes(b []byte) {
	switch n := len(b); {
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		w.putSize(0xc5, 2, uint64(n))
	default:
		w.putSize(0xc6, 4, uint64(n))
	}
	w.b = append(w.b, b...)
}

func (w *recordWriter) putLength(short byte, code byte, n int) {
	switch {
	case n < 16:
		w.b = append(w.b, short|byte(n))
	case n <= math.MaxUint16:
		w.putSize(code, 2, uint64(n))
	default:
		w.putSize(code+1, 4, uint64(n))
	}
}

// The members that are left out where they are empty.

func (w *recordWriter) flag(k string, v bool) {
	if v {
		w.key(k)
		w.b = append(w.b, 0xc3)
	}
}

func (w *recordWriter) bytes(k string, v []byte) {
	if len(v) > 0 {
		w.key(k)
		w.putBytes(v)
	}
}

func (w *recordWriter) digest(k string, v *Digest) {
	if !v.IsZero() {
		w.key(k)
		w.putBytes(v[:])
	}
}

func (w *recordWriter) texts(k string, v []string) {
	if len(v) == 0 {
		return
	}
	w.key(k)
	w.putLength(0x90, 0xdc, len(v))
	for _, s := range v {
		w.putText(s)
	}
}

func writeText[T ~string](w *recordWriter, k string, v T) {
	if v != "" {
		w.key(k)
		w.putText(string(v))
	}
}

func writeInt[T ~int | ~int64 | ~uint8](w *recordWriter, k string, v T) {
	if v != 0 {
		w.key(k)
		w.putInt(int64(v))
	}
}

func (w *recordWriter) balance(b *Balance) {
	nested := recordWriter{b: append(w.b, 0)}
	at := len(w.b)
	nested.key("s")
	nested.putInt(int64(b.Settled))
	writeInt(&nested, "r", b.Reserved)
	writeInt(&nested, "p", b.Pushed)
	writeInt(&nested, "c", b.SettledCapacity)
	writeInt(&nested, "d", b.ReservedCapacity)
	writeInt(&nested, "q", b.Cat2Queries)
	w.b = nested.b
	w.b[at] = 0x80 | byte(nested.members)
}

func (w *recordWriter) files(k string, files []File) {
	if len(files) == 0 {
		return
	}
	w.key(k)
	w.putLength(0x90, 0xdc, len(files))
	for i := range files {
		w.b = append(w.b, 0x82)
		w.putText("Path")
		w.putText(files[i].Path)
		w.putText("SHA256")
		w.putBytes(files[i].SHA256[:])
	}
}

// private writes the members of what is sealed, in the order of the type.
func (w *recordWriter) private(p *Private) {
	writeText(w, "cl", p.Client)
	w.digest("cd", &p.ClientDigest)
	w.bytes("sp", p.Spec)
	writeText(w, "qf", p.QueryField)
	w.bytes("pl", p.Payload)
	w.key("sa")
	w.putBytes(p.Salt[:])
	writeInt(w, "rb", p.RawBytes)
	w.digest("dg", &p.Released)
	w.bytes("sg", p.Signature)
}

func (w *recordWriter) credential(k string, c *CredentialChange) {
	if c == nil {
		return
	}
	w.key(k)
	nested := recordWriter{b: append(w.b, 0)}
	at := len(w.b)
	nested.key("n")
	nested.putUint(c.Number)
	nested.key("t")
	nested.putInt(c.Time)
	writeInt(&nested, "r", c.Role)
	writeInt(&nested, "u", c.Until)
	nested.texts("l", c.Limits)
	w.b = nested.b
	w.b[at] = 0x80 | byte(nested.members)
}

func (w *recordWriter) egress(k string, e *EgressChange) {
	if e == nil {
		return
	}
	w.key(k)
	nested := recordWriter{b: append(w.b, 0)}
	at := len(w.b)
	nested.key("a")
	nested.putText(string(e.Act))
	writeText(&nested, "b", e.By)
	writeText(&nested, "e", e.Entry)
	writeText(&nested, "w", e.Why)
	writeInt(&nested, "n", e.Bits)
	writeInt(&nested, "y", e.Bytes)
	writeInt(&nested, "u", e.Until)
	writeInt(&nested, "s", e.UsedBits)
	writeInt(&nested, "t", e.UsedBytes)
	if e.Reserved != 0 {
		nested.key("r")
		nested.putUint(e.Reserved)
	}
	nested.flag("l", e.Alert)
	w.b = nested.b
	w.b[at] = 0x80 | byte(nested.members)
}

func (w *recordWriter) truncation(k string, t *Truncation) {
	if t == nil {
		return
	}
	w.key(k)
	w.b = append(w.b, 0x84)
	w.putText("s")
	w.putUint(t.Sequence)
	w.putText("b")
	w.putBytes(t.Base[:])
	w.putText("a")
	w.putBytes(t.Backup[:])
	w.putText("f")
	w.putText(t.File)
}

// decision writes all members in the order of the type.
func (w *recordWriter) decision(d *Decision) {
	w.key("n")
	w.putUint(d.Seq)
	w.digest("h", &d.Prev)
	w.key("t")
	w.putInt(d.Time)
	w.key("k")
	w.putUint(uint64(d.Kind))
	w.key("x")
	w.putBytes(d.Context[:])
	writeText(w, "a", d.Agent)
	writeInt(w, "ro", d.Role)
	writeText(w, "co", d.Controller)
	writeText(w, "re", d.Reader)
	writeText(w, "se", d.Session)
	w.flag("sb", d.SessionBegins)
	w.flag("sd", d.SessionByDelivery)
	w.flag("sr", d.SessionRenews)
	w.flag("sx", d.SessionEnds)
	if d.Epoch != 0 {
		w.key("e")
		w.putUint(d.Epoch)
	}
	writeText(w, "q", d.Query)
	writeText(w, "su", d.Subscription)
	writeText(w, "d", d.Delivery)
	writeText(w, "i", d.Item)
	writeInt(w, "at", d.Attempt)
	writeInt(w, "ca", d.Category)
	w.flag("es", d.Escalation)
	w.flag("rp", d.Repeat)
	writeInt(w, "v", d.Verdict)
	w.flag("uf", d.Unfunded)
	writeText(w, "c", d.Code)
	writeText(w, "f", d.Field)
	writeInt(w, "rs", d.Reason)
	writeInt(w, "ck", d.Check)
	writeInt(w, "pr", d.Price)
	writeInt(w, "lk", d.Lack)
	writeText(w, "o", d.Outcome)
	w.texts("an", d.Anomalies)
	w.flag("fl", d.Flagged)
	writeInt(w, "ta", d.Taint)
	writeInt(w, "ex", d.Exposure)
	w.flag("tm", d.Timing)
	w.flag("pp", d.Prepaid)
	writeInt(w, "bn", d.Nominal)
	writeInt(w, "bc", d.Capacity)
	w.key("b")
	w.balance(&d.Balance)
	writeInt(w, "rm", d.Remaining)
	writeText(w, "j", d.Justification)
	writeInt(w, "jb", d.JustificationBits)
	writeInt(w, "dl", d.Deadline)
	writeInt(w, "rl", d.Release)
	writeInt(w, "st", d.Slot)
	writeInt(w, "so", d.SlotBegan)
	w.bytes("sl", d.Sealed)
	w.bytes("ra", d.SealedRaw)
	w.digest("rc", &d.RawCommitment)
	w.digest("pc", &d.PayloadCommitment)
	writeText(w, "ev", d.Event)
	writeText(w, "tg", d.Target)
	writeText(w, "no", d.Note)
	writeText(w, "nt", d.Notice)
	writeInt(w, "sc", d.Scheduled)
	w.texts("cg", d.Changes)
	writeText(w, "ky", d.Key)
	writeInt(w, "xu", d.SignedUntil)
	w.flag("us", d.Unsealed)
	writeInt(w, "be", d.Before)
	writeInt(w, "ct", d.Count)
	writeText(w, "fm", d.Family)
	writeText(w, "ve", d.Versions)
	w.files("fi", d.Files)
	w.truncation("tc", d.Truncation)
	w.credential("cr", d.Credential)
	w.egress("eg", d.Egress)
}
