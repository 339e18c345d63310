package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A request for WebSocket, and its answer: those of RFC 6455, 1.3.
const (
	request = "GET / HTTP/1.1\r\nHost: mesh.example\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	response = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)

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
		"a byte in each of ten frames":  {bytes.Repeat(frame([]byte("P"), 2, mask), 10), false, true, 10 * lineBytes},
		"empty frames":                  {bytes.Repeat(frame(nil, 0, mask), 10), false, true, 10 * lineBytes},
		"pings of WebSocket":            {bytes.Repeat(frame(nil, 0x89, mask), 10), false, true, 10 * lineBytes},
		"a large message in two frames": {ws(frame(large[:2000], 2, mask), frame(large[2000:], 0x80, mask)), false, true, len(large) + 16},
	} {
		m := meter{sealed: tt.sealed, said: speech{begun: true}}
		if tt.webSocket {
			m.frames = &frames{}
		}
		if got, _, ok := m.read(slices.Clone(tt.read)); got != tt.want || !ok {
			t.Errorf("%s costs %d, not %d (%t)", name, got, tt.want, ok)
		}
	}
}

type client struct {
	io.Reader
	hears bytes.Buffer
}

func (c *client) Write(b []byte) (int, error) { return c.hears.Write(b) }

// covers A-FRAME, A-FWD
func TestRequestForWebSocket(t *testing.T) {
	t.Parallel()
	with := func(header string) string { return strings.Replace(request, "\r\n\r\n", "\r\n"+header+"\r\n\r\n", 1) }
	long := strings.Repeat("x", maxRequest-len(with("A: ")))
	for name, tt := range map[string]struct {
		says string
		ok   bool
	}{
		"a request":               {request, true},
		"line feeds alone":        {strings.ReplaceAll(request, "\r", ""), true},
		"the longest request":     {with("A: " + long), true},
		"a longer request":        {with("A: x" + long), false},
		"no end":                  {strings.Repeat("x", maxRequest+1), false},
		"nothing":                 {"", false},
		"of another path":         {strings.Replace(request, "GET / ", "GET /leafnode ", 1), false},
		"of another method":       {strings.Replace(request, "GET", "POST", 1), false},
		"another protocol":        {strings.Replace(request, "Upgrade: websocket", "Upgrade: h2c", 1), false},
		"without an upgrade":      {strings.Replace(request, "keep-alive, Upgrade", "keep-alive", 1), false},
		"of another version":      {strings.Replace(request, ": 13", ": 8", 1), false},
		"without a key":           {strings.Replace(request, "-Key", "-Kay", 1), false},
		"a key that is too short": {strings.Replace(request, "dGhl", "", 1), false},
		"a body":                  {with("Content-Length: 1") + "x", false},
		"a body in chunks":        {with("Transfer-Encoding: chunked"), false},
		"words that do not wait":  {request + "\x82", false},
		"two requests":            {request + request, false},
	} {
		c := &client{Reader: strings.NewReader(tt.says)}
		err := upgrade(c)
		want := response
		if !tt.ok {
			want = refused4
		}
		if (err == nil) != tt.ok || c.hears.String() != want || err != nil && !errors.Is(err, errRequest) {
			t.Errorf("%s: %v, %q", name, err, &c.hears)
		}
	}
}

// What could be read in two ways is not read at all.
//
// covers A-FLOODRESP, A-FRAME
func TestFramesRefuseWhatIsNotOne(t *testing.T) {
	t.Parallel()
	mask := [4]byte{1, 2, 3, 4}
	for name, tt := range map[string]struct {
		bytes string
		ok    bool
	}{
		"a frame":                 {string(frame([]byte("PING\r\n"), 0x82, mask)), true},
		"a frame of text":         {string(frame([]byte("PING\r\n"), 0x81, mask)), true},
		"a request":               {request, false},
		"a frame without a mask":  {"\x82\x02ab", false},
		"a compressed frame":      {string(frame([]byte("x"), 0xc2, mask)), false},
		"a reserved bit":          {string(frame([]byte("x"), 0xa2, mask)), false},
		"a reserved kind":         {string(frame([]byte("x"), 0x83, mask)), false},
		"a reserved kind, beyond": {string(frame([]byte("x"), 0x8b, mask)), false},
		"the longest ping":        {string(frame(make([]byte, maxControl), 0x89, mask)), true},
		"a longer ping":           {string(frame(make([]byte, maxControl+1), 0x89, mask)), false},
		"a part of a ping":        {string(frame(nil, 0x09, mask)), false},
		"the longest frame":       {"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x01\x02\x03\x04", true},
		"a longer frame":          {"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00\x01\x02\x03\x04", false},
	} {
		if _, _, ok := (&frames{}).read([]byte(tt.bytes)); ok != tt.ok {
			t.Errorf("%s: %t", name, ok)
		}
	}
}

// A client's pings are answered, and its end, after which nothing is read; and nothing
// else of these reaches the server.
//
// covers A-FRAME
func TestControlFrames(t *testing.T) {
	t.Parallel()
	mask := [4]byte{1, 2, 3, 4}
	f := &frames{}
	data, n, ok := f.read(slices.Concat(
		frame([]byte("PI"), 0x02, mask), frame([]byte("PUB a 99\r\n"), 0x89, mask), frame([]byte("NG\r\n"), 0x80, mask),
		frame([]byte("x"), 0x8a, mask), frame([]byte("\x03\xe8bye"), 0x88, mask), frame([]byte("PING\r\n"), 0x82, mask)))
	if string(data) != "PING\r\n" || n != 5 || !ok || !f.ended || string(f.answers) != "\x8a\x0aPUB a 99\r\n\x88\x02\x03\xe8" {
		t.Errorf("%q, %d, %t, answers %q", data, n, ok, f.answers)
	}
}

// covers A-FRAME
func TestFramesOfTheServer(t *testing.T) {
	t.Parallel()
	for size, head := range map[int]string{
		0: "\x82\x00", 125: "\x82\x7d", 126: "\x82\x7e\x00\x7e", 1<<16 - 1: "\x82\x7e\xff\xff", 1 << 16: "\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00",
	} {
		if got := string(appendFrame(nil, frameBinary, make([]byte, size))); got != head+strings.Repeat("\x00", size) {
			t.Errorf("%d bytes begin with %q", size, got[:len(head)])
		}
	}
}

// However a client cuts what it sends into frames, and the network these into
// pieces, all of it arrives, and each line and frame costs what it should.
//
// covers A-FLOODRESP, A-FRAME
func TestLinesInFramesAreCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var sent, want []byte
		count := 0
		for _, payload := range rapid.SliceOfN(rapid.SliceOf(rapid.SampledFrom([]byte("P\n\r\x00\x82\xff"))), 0, 20).Draw(t, "payloads") {
			payload = bytes.Repeat(append(payload, '\n'), rapid.SampledFrom([]int{1, 30, 5000}).Draw(t, "times"))
			count, want = count+1, append(want, payload...)
			mask := [4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "mask"))
			sent = append(sent, frame(payload, rapid.SampledFrom([]byte{0x82, 2, 0x80, 1}).Draw(t, "first"), mask)...)
		}
		f, got := &frames{}, []byte(nil)
		for len(sent) > 0 {
			piece := sent[:rapid.IntRange(1, min(len(sent), 40_000)).Draw(t, "piece")]
			data, n, ok := f.read(piece)
			if !ok {
				t.Fatal("refused")
			}
			count, got, sent = count-n, append(got, data...), sent[len(piece):]
		}
		if count != 0 || !bytes.Equal(got, want) {
			t.Errorf("%d frames were not counted; %d bytes of %d", count, len(got), len(want))
		}
	})
}

// The pieces that bytes come in change nothing, whatever they are.
//
// covers A-FLOODRESP, A-FRAME
func FuzzFrames(f *testing.F) {
	f.Add(frame([]byte("PING\r\n"), 0x82, [4]byte{1, 2, 3, 4}), 8)
	f.Add(frame(make([]byte, 300), 0x82, [4]byte{10, 10, 10, 10}), 100)
	f.Add(append(frame([]byte("x"), 0x89, [4]byte{}), frame(nil, 0x88, [4]byte{})...), 3)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		whole := &frames{}
		want, wantN, wantOK := whole.read(slices.Clone(b))
		if len(b) == 0 {
			return
		}
		at = int(uint(at) % uint(len(b)))
		pieces := &frames{}
		first, n, ok := pieces.read(slices.Clone(b[:at]))
		got := slices.Clone(first)
		if ok && !pieces.ended {
			var rest []byte
			var m int
			rest, m, ok = pieces.read(slices.Clone(b[at:]))
			got, n = append(got, rest...), n+m
		}
		if ok != wantOK || ok && (n != wantN || !bytes.Equal(got, want) || !bytes.Equal(pieces.answers, whole.answers) || pieces.ended != whole.ended) {
			t.Errorf("%q %d %t in two pieces, %q %d %t whole", got, n, ok, want, wantN, wantOK)
		}
		if wantN > len(b) || len(want) > len(b) {
			t.Errorf("%d bytes in %d frames of %d bytes", len(want), wantN, len(b))
		}
	})
}
