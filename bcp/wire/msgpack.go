package wire

// MsgpackKind is the kind of a MessagePack value. The zero value is one that no message and
// no record has: an extension, or the byte that begins nothing.
type MsgpackKind uint8

// The kinds.
const (
	MsgpackNil   MsgpackKind = 1
	MsgpackBool  MsgpackKind = 2 // 0 or 1
	MsgpackUint  MsgpackKind = 3
	MsgpackInt   MsgpackKind = 4 // of a signed form
	MsgpackFloat MsgpackKind = 5
	MsgpackText  MsgpackKind = 6
	MsgpackBytes MsgpackKind = 7
	MsgpackArray MsgpackKind = 8
	MsgpackMap   MsgpackKind = 9
)

// msgpackForms are the heads of each kind: of one byte from fix on, for numbers below, and
// of a code before a number of 1, 2, 4 or 8 bytes, 0 where there is no such form.
var msgpackForms = [...]struct {
	fix   byte
	below uint64
	codes [4]byte
}{
	MsgpackNil:   {fix: 0xc0, below: 1},
	MsgpackBool:  {fix: 0xc2, below: 2},
	MsgpackUint:  {below: 0x80, codes: [4]byte{0xcc, 0xcd, 0xce, 0xcf}},
	MsgpackInt:   {codes: [4]byte{0xd0, 0xd1, 0xd2, 0xd3}}, // and one byte from leastFix on
	MsgpackFloat: {codes: [4]byte{2: 0xca, 3: 0xcb}},
	MsgpackText:  {fix: 0xa0, below: 32, codes: [4]byte{0xd9, 0xda, 0xdb}},
	MsgpackBytes: {codes: [4]byte{0xc4, 0xc5, 0xc6}},
	MsgpackArray: {fix: 0x90, below: 16, codes: [4]byte{1: 0xdc, 2: 0xdd}},
	MsgpackMap:   {fix: 0x80, below: 16, codes: [4]byte{1: 0xde, 2: 0xdf}},
}

// leastFix is the least number below zero that one byte holds.
const leastFix = -32

// msgpackCodes are the kinds of all first bytes, and how many bytes of a number follow.
var msgpackCodes = func() (all [256]struct {
	kind  MsgpackKind
	width uint8
}) {
	for kind, form := range msgpackForms {
		for i := range form.below {
			all[form.fix+byte(i)].kind = MsgpackKind(kind)
		}
		for i, code := range form.codes {
			if code != 0 {
				all[code].kind, all[code].width = MsgpackKind(kind), 1<<i
			}
		}
	}
	for n := leastFix; n < 0; n++ {
		all[byte(n)].kind = MsgpackInt
	}
	return all
}()

// AppendMsgpack appends the head of a value in its shortest form: a number, or the length
// of what has to follow. Below zero n is the bits of an int64. It writes no float.
func AppendMsgpack(dst []byte, kind MsgpackKind, n uint64) []byte {
	negative := kind == MsgpackInt && int64(n) < 0
	switch {
	case negative && int64(n) >= leastFix:
		return append(dst, byte(n))
	case kind == MsgpackInt && !negative:
		kind = MsgpackUint
	}
	form := &msgpackForms[kind]
	if n < form.below {
		return append(dst, form.fix|byte(n))
	}
	for i, code := range form.codes {
		bits := 8 << i
		if code == 0 || !negative && n>>bits != 0 || negative && int64(n)>>(bits-1) != -1 {
			continue
		}
		dst = append(dst, code)
		for bits > 0 {
			bits -= 8
			dst = append(dst, byte(n>>bits))
		}
		break
	}
	return dst
}

// MsgpackTruth is the number of a boolean.
func MsgpackTruth(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// MsgpackHead reads the head that b begins with, and its size, which is 0 where it is cut
// off. The number is of as many bits as it has, with its sign.
func MsgpackHead(b []byte) (kind MsgpackKind, n uint64, size int) {
	if len(b) == 0 {
		return 0, 0, 0
	}
	code := msgpackCodes[b[0]]
	kind, size = code.kind, 1+int(code.width)
	switch {
	case size > len(b):
		return kind, 0, 0
	case size == 1 && kind == MsgpackInt:
		return kind, uint64(int8(b[0])), 1
	case size == 1:
		return kind, uint64(b[0] - msgpackForms[kind].fix), 1
	}
	for _, c := range b[1:size] {
		n = n<<8 | uint64(c)
	}
	if kind == MsgpackInt {
		unused := 64 - 8*code.width
		n = uint64(int64(n<<unused) >> unused)
	}
	return kind, n, size
}

// SkipMsgpack returns what follows the first MessagePack value of b, and whether there is
// one of at most depth levels. It refuses floats, extensions, and lengths beyond what b
// holds, so it goes before a library that allocates what a length announces. It is for the
// gateway's own records, which are not limited to [MaxDepth].
func SkipMsgpack(b []byte, depth int) (rest []byte, ok bool) {
	kind, n, size := MsgpackHead(b)
	if size == 0 || depth == 0 || kind == 0 || kind == MsgpackFloat {
		return nil, false
	}
	b = b[size:]
	values := uint64(0)
	switch kind {
	case MsgpackText, MsgpackBytes:
		if n > uint64(len(b)) {
			return nil, false
		}
		return b[n:], true
	case MsgpackArray:
		values = n
	case MsgpackMap:
		values = 2 * n
	}
	if values > uint64(len(b)) {
		return nil, false
	}
	for range values {
		if b, ok = SkipMsgpack(b, depth-1); !ok {
			return nil, false
		}
	}
	return b, true
}
