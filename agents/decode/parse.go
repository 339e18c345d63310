package decode

import (
	"io"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"
)

const (
	maxSource = 4 << 20         // bytes of HTML that are parsed
	maxTags   = 150_000         // of them: what begins with <. A node takes about 300 bytes
	parseTime = 5 * time.Second // a hundred times what the largest document takes
)

// Loss is what a document lost on its way.
type Loss struct {
	Cut     bool // what came after a limit was not read
	TooDeep bool // what was nested too deep, and what came after it, was left out
	Complex bool // style sheets were too costly to apply: text that they hide may be among the visible
}

// maxMade bounds what is allocated for a document while it is parsed, in bytes: the parser copies each formatting element that
// is still open where its block ended into each block that follows, so that 80 KB become a gigabyte.
const maxMade = 128 << 20

// parsing is held while a document is parsed: hostile ones take their memory one after the other.
var parsing sync.Mutex

// allocated is how much this process has ever allocated, in bytes: by others too.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// parse returns the tree of a document within the bounds.
func parse(source string) (root *html.Node, loss Loss) {
	if len(source) > maxSource {
		source, loss.Cut = strings.ToValidUTF8(source[:maxSource], ""), true
	}
	at := 0
	for range maxTags {
		i := strings.IndexByte(source[at:], '<')
		if i < 0 {
			at = len(source)
			break
		}
		at += i + 1
	}
	if i := strings.IndexByte(source[at:], '<'); i >= 0 {
		source, loss.Cut = source[:at+i], true
	}
	parsing.Lock()
	defer parsing.Unlock()
	for r := (&reader{source: source, until: time.Now().Add(parseTime)}); ; r.at, r.full = 0, false {
		root, err := html.Parse(r)
		switch {
		case err != nil && loss.TooDeep:
			return &html.Node{Type: html.DocumentNode}, loss
		case err != nil:
			loss.TooDeep = true
			r.source, r.known = source[:max(0, strings.LastIndexByte(source[:r.last], '<'))], 0 // which ends before what was too deep
		case r.full && !r.late && size(root) < maxMade/2: // others made it, or it is garbage: up to here it is known what is made
			r.known = r.at
		default:
			loss.Cut = loss.Cut || r.full || r.late
			return root, loss
		}
	}
}

// size is about how much memory a tree takes, in bytes.
func size(root *html.Node) (n int) {
	for node := range root.Descendants() {
		n += 112 + len(node.Data) + 48*len(node.Attr)
	}
	return n
}

// reader reads a source for a time, and while not too much is made of it. What comes later is cut.
type reader struct {
	source     string
	at, last   int // where the next and the last read begin
	known      int // up to here it is read whatever is allocated
	until      time.Time
	begun      uint64 // what had been allocated there
	full, late bool
}

func (r *reader) Read(p []byte) (n int, err error) {
	made := allocated()
	if r.at <= r.known {
		r.begun = made
	}
	r.full, r.late = r.full || made-r.begun > maxMade, r.late || time.Now().After(r.until)
	if r.full || r.late || r.at == len(r.source) {
		return 0, io.EOF
	}
	r.last = r.at
	piece := r.source[r.at:min(len(r.source), r.at+1<<10)]
	if end := strings.IndexByte(piece, '>'); end >= 0 { // a tag alone may copy megabytes of attributes
		piece = piece[:end+1]
	}
	n = copy(p, piece)
	r.at += n
	return n, nil
}
