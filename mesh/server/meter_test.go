package server

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const upgrade = "GET / HTTP/1.1\r\nHost: mesh.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"

// frame is a frame of WebSocket with a mask.
func frame(payload []byte, first byte, mask [4]byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < frameLength16:
		b = append(b, frameMasked|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, frameMasked|frameLength16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, frameMasked|frameLength64), uint64(n))
	}
	b = append(b, mask[:]...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// covers A-FLOODRESP, A-FRAME
func TestCostOfWhatIsRead(t *testing.T) {
	t.Parallel()
	ws := func(frames ...[]byte) []byte { return slices.Concat(frames...) }
	mask := [4]byte{0x0a, 0x0a, 7, 0}
	large := append([]byte("PUB a 5000\r\n"), make([]byte, 5000)...)
	for name, tt := range map[string]struct {
		read              []byte
		sealed, webSocket bool
		want              int
	}{
		"nothing":                       {nil, false, false, 0},
		"nothing, under TLS":            {nil, true, false, 0},
		"a part of a message":           {make([]byte, 5000), false, false, 5000},
		"a ping":                        {[]byte("PING\r\n"), false, false, lineBytes},
		"a small message":               {[]byte("PUB a 0\r\n\r\n"), false, false, 2 * lineBytes},
		"pings":                         {bytes.Repeat([]byte("PING\r\n"), 100), false, false, 100 * lineBytes},
		"a large message":               {large, false, false, len(large)},
		"a byte":                        {[]byte("P"), false, false, 1},
		"a byte, under TLS":             {[]byte("P"), true, false, lineBytes},
		"pings, under TLS":              {bytes.Repeat([]byte("PING\r\n"), 100), true, false, 100 * lineBytes},
		"pings in a frame":              {frame(bytes.Repeat([]byte("PING\r\n"), 100), 0x82, mask), false, true, 100 * lineBytes},
		"pings in a frame, under TLS":   {frame(bytes.Repeat([]byte("PING\r\n"), 100), 0x82, mask), true, true, 100 * lineBytes},
		"a message in a frame":          {frame([]byte("PUB a 0\r\n\r\n"), 0x82, mask), false, true, 2 * lineBytes},
		"a byte in each of ten frames":  {bytes.Repeat(frame([]byte("x"), 2, mask), 10), false, true, 10 * lineBytes},
		"empty frames":                  {bytes.Repeat(frame(nil, 0, mask), 10), false, true, 10 * lineBytes},
		"pings of WebSocket":            {bytes.Repeat(frame(nil, 0x89, mask), 10), false, true, 10 * lineBytes},
		"a large message in two frames": {ws(frame(large[:2000], 2, mask), frame(large[2000:], 0x80, mask)), false, true, len(large) + 16},
	} {
		m := meter{sealed: tt.sealed}
		if tt.webSocket {
			m.frames = &frames{}
			if _, _, ok := m.read([]byte(upgrade)); !ok {
				t.Fatal("the request is refused")
			}
		}
		if got, _, ok := m.read(slices.Clone(tt.read)); got != tt.want || !ok {
			t.Errorf("%s costs %d, not %d (%t)", name, got, tt.want, ok)
		}
	}
}

// What could be read in two ways is not read at all.
//
// covers A-FLOODRESP, A-FRAME
func TestFramesRefuseWhatIsNotOne(t *testing.T) {
	t.Parallel()
	mask := [4]byte{1, 2, 3, 4}
	with := func(header string) string { return strings.Replace(upgrade, "\r\n\r\n", "\r\n"+header+"\r\n\r\n", 1) }
	long := strings.Repeat("x", maxRequest-len(with("A: ")))
	for name, tt := range map[string]struct {
		bytes string
		ok    bool
	}{
		"a frame":                    {upgrade + string(frame([]byte("PING\r\n"), 0x82, mask)), true},
		"line feeds alone":           {"GET / HTTP/1.1\nHost: x\n\n" + string(frame([]byte("PING\r\n"), 0x82, mask)), true},
		"the longest request":        {with("A: " + long), true},
		"a longer request":           {with("A: x" + long), false},
		"a request without end":      {strings.Repeat("x", maxRequest+1), false},
		"no masks asked for":         {with("Nats-No-Masking: true"), false},
		"no masks, in other letters": {with("NATS-no-masking:true"), false},
		"another request":            {upgrade + upgrade, false},
		"a frame without a mask":     {upgrade + "\x82\x02ab", false},
		"a compressed frame":         {upgrade + string(frame([]byte("x"), 0xc2, mask)), false},
		"a reserved bit":             {upgrade + string(frame([]byte("x"), 0xa2, mask)), false},
		"the longest frame":          {upgrade + "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04", true},
		"a longer frame":             {upgrade + "\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04", false},
	} {
		if _, ok := (&frames{}).read([]byte(tt.bytes), &publications{}); ok != tt.ok {
			t.Errorf("%s: %t", name, ok)
		}
	}
}

// However a client cuts what it sends into frames, and the network these into
// pieces, each line is counted once.
//
// covers A-FLOODRESP, A-FRAME
func TestLinesInFramesAreCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := []byte(upgrade)
		lines, count := strings.Count(upgrade, "\n"), 0
		for _, payload := range rapid.SliceOfN(rapid.SliceOf(rapid.SampledFrom([]byte("P\n\r\x00\x82\xff"))), 0, 20).Draw(t, "payloads") {
			payload = bytes.Repeat(append(payload, '\n'), rapid.SampledFrom([]int{1, 30, 5000}).Draw(t, "times"))
			lines, count = lines+bytes.Count(payload, newline), count+1
			mask := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "mask"))
			sent = append(sent, frame(payload, rapid.SampledFrom([]byte{0x82, 2, 0x80, 0x89}).Draw(t, "first"), mask)...)
		}
		f, said := &frames{}, &publications{}
		for len(sent) > 0 {
			piece := sent[:rapid.IntRange(1, min(len(sent), 40_000)).Draw(t, "piece")]
			n, ok := f.read(piece, said)
			if !ok {
				t.Fatal("refused")
			}
			lines, count, sent = lines-n.lines, count-n.frames, sent[len(piece):]
		}
		if lines != 0 || count != 0 {
			t.Errorf("%d lines and %d frames were not counted", lines, count)
		}
	})
}

// The pieces that bytes come in change nothing, whatever they are.
//
// covers A-FLOODRESP, A-FRAME
func FuzzFrames(f *testing.F) {
	f.Add([]byte(upgrade), 3)
	f.Add(append([]byte(upgrade), frame([]byte("PING\r\n"), 0x82, [4]byte{1, 2, 3, 4})...), 80)
	f.Add(append([]byte(upgrade), frame(make([]byte, 300), 0x82, [4]byte{10, 10, 10, 10})...), 100)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		whole := &frames{}
		want, wantOK := whole.read(slices.Clone(b), &publications{})
		if len(b) == 0 {
			return
		}
		at = int(uint(at) % uint(len(b)))
		pieces, said := &frames{}, &publications{}
		got, ok := pieces.read(b[:at], said)
		if ok {
			var rest count
			rest, ok = pieces.read(b[at:], said)
			got.lines, got.frames = got.lines+rest.lines, got.frames+rest.frames
		}
		if ok != wantOK || ok && got != want {
			t.Errorf("%v %t in two pieces, %v %t whole", got, ok, want, wantOK)
		}
		if got.lines > len(b) || got.frames > len(b) {
			t.Errorf("%v in %d bytes", got, len(b))
		}
	})
}
