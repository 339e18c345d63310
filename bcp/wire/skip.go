package wire

// SkipMsgpack returns what follows the first MessagePack value of b, and whether there is
// one of at most depth levels. It refuses floats, extensions, and lengths beyond what b
// holds, so it goes before a library that allocates what a length announces. It is for the
// gateway's own records, which are not limited to [MaxDepth].
func SkipMsgpack(b []byte, depth int) (rest []byte, ok bool) {
	if len(b) == 0 || depth == 0 {
		return nil, false
	}
	code := b[0]
	b = b[1:]
	size, values := 0, 0 // bytes, and values, that follow
	switch {
	case code <= 0x7f, code >= 0xe0, code == 0xc0, code == 0xc2, code == 0xc3: // small numbers, nil, booleans
	case code <= 0x8f:
		values = 2 * int(code&0x0f)
	case code <= 0x9f:
		values = int(code & 0x0f)
	case code <= 0xbf:
		size = int(code & 0x1f)
	case code >= 0xcc && code <= 0xcf: // unsigned
		size = 1 << (code - 0xcc)
	case code >= 0xd0 && code <= 0xd3: // signed
		size = 1 << (code - 0xd0)
	case code >= 0xc4 && code <= 0xc6: // binary
		size, b = msgpackLength(b, 1<<(code-0xc4))
	case code >= 0xd9 && code <= 0xdb: // text
		size, b = msgpackLength(b, 1<<(code-0xd9))
	case code == 0xdc, code == 0xdd: // list
		values, b = msgpackLength(b, 2<<(code-0xdc))
	case code == 0xde, code == 0xdf: // map
		values, b = msgpackLength(b, 2<<(code-0xde))
		values *= 2
	default: // floats and extensions have no place in a record
		return nil, false
	}
	if size < 0 || values < 0 || size > len(b) || values > len(b) {
		return nil, false
	}
	b = b[size:]
	for range values {
		if b, ok = SkipMsgpack(b, depth-1); !ok {
			return nil, false
		}
	}
	return b, true
}

// msgpackLength reads a length of n bytes, -1 where they are not there.
func msgpackLength(b []byte, n int) (int, []byte) {
	if len(b) < n {
		return -1, nil
	}
	size := 0
	for _, c := range b[:n] {
		size = size<<8 | int(c)
	}
	return size, b[n:]
}
