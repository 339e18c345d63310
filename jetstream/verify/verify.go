package verify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/note"
)

// Options are the inputs of a check.
type Options struct {
	// Keys are the public keys, in the form of a note's verifier key, one of
	// which must have signed. They are required, and must not come from the
	// file itself.
	Keys []string
	// Since are earlier checkpoints of the same journal, signed with one of the
	// keys: the file must continue each of them. A checkpoint of fewer
	// decisions than precede the file's first, or of more than its last, is an
	// error: the file says nothing about it.
	Since []Checkpoint
}

// Summary summarises a file.
type Summary struct {
	First, Last uint64 // numbers of decisions; the journal begins with 1
	From, To    time.Time
	Kinds       map[int]uint64 // how many decisions there are of each kind
	Channels    []Channel      // sorted
	Checkpoint  Checkpoint     // over Last
	Signed      []byte         // the same, as it was signed
}

// Channel counts the decisions of one channel.
type Channel struct {
	Controller string `json:"controller"`
	Reader     string `json:"reader"`
	Decisions  uint64 `json:"decisions"`
}

var (
	errNoKey = errors.New("a public key is needed")
	errSince = errors.New("the earlier checkpoint says nothing about this file")
)

// File checks a file. A problem of the file is a [*Fault]; any other error says
// that it could not be checked.
func File(r io.Reader, o Options) (Summary, error) {
	if len(o.Keys) == 0 {
		return Summary{}, errNoKey
	}
	known, err := verifiers(o.Keys)
	if err != nil {
		return Summary{}, err
	}
	f, err := openFrames(r)
	if err != nil {
		return Summary{}, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxBlock))
	if err != nil {
		return Summary{}, err
	}
	defer decoder.Close()
	unpack := &unpacker{zstd: decoder}
	c := &checker{keys: known, kinds: make(map[int]uint64), channels: make(map[string]uint64)}
	if err := c.begin(f, o); err != nil {
		return Summary{}, err
	}
	var room []byte
	for {
		kind, payload, offset, err := f.next(room[:0], c.next)
		if err == nil && kind == kindEnd {
			if err := f.end(); err != nil {
				return Summary{}, err
			}
			return c.end(payload, offset)
		}
		var w walk
		if err == nil {
			ok := false
			if w, ok = unpack.walk(payload, offset, c.next); kind != kindBlock || !ok {
				err = &Fault{Decision: c.next, Offset: offset, Within: -1, Reason: "no such frame is allowed there"}
			}
			room = payload
		}
		if err != nil && c.brokenLink != nil {
			err = &c.brokenLink.before
		}
		if err == nil {
			err = c.add(&w)
		}
		if err != nil {
			return Summary{}, err
		}
	}
}

// checker follows the decisions.
type checker struct {
	keys  note.Verifiers
	since []Checkpoint // not reached yet, by size
	first uint64
	next  uint64 // the expected number
	tree  []node

	head       Hash  // digest of the decision before
	at         Fault // fault to report if it was changed
	brokenLink *brokenLink
	times      [2]int64 // of the first and the last
	kinds      map[int]uint64
	channels   map[string]uint64 // by controller, zero byte, reader
}

// brokenLink is a decision without the digest of the one before: one of the two was
// changed. The next one shows which.
type brokenLink struct{ before, this Fault }

func (c *checker) begin(f *frames, o Options) error {
	kind, payload, offset, err := f.next(nil, 0)
	if err != nil {
		return err
	}
	h, ok := parseHead(payload)
	if kind != kindHead || !ok {
		return &Fault{Offset: offset, Within: -1, Reason: "the head cannot be read"}
	}
	if !slices.Contains(o.Keys, h.key) {
		return &Fault{Offset: offset, Within: -1, Reason: "the file says that another key has signed it"}
	}
	c.first, c.next, c.head = h.first, h.first, h.previous
	c.tree = splitSubtrees(h.first-1, h.subtrees)
	c.at = Fault{Offset: offset, Within: -1, Reason: "the digest of the decision before the first was changed"}
	c.since = slices.Clone(o.Since)
	slices.SortFunc(c.since, func(a, b Checkpoint) int { return cmp.Compare(a.Size, b.Size) })
	if len(c.since) > 0 && c.since[0].Size < h.first-1 {
		return fmt.Errorf("%w: it is of %d decisions, and the file begins with decision %d", errSince, c.since[0].Size, h.first)
	}
	return c.compare(offset)
}

const changed = "it was changed: the next decision names another digest"

// add takes the decisions of a block, and names the first that does not follow.
func (c *checker) add(w *walk) error {
	for w.next() {
		at := Fault{Decision: w.number, Offset: w.offset, Within: w.within, Reason: changed}
		follows := w.previous == c.head
		switch {
		case c.brokenLink != nil && follows:
			return &c.brokenLink.before
		case c.brokenLink != nil:
			return &c.brokenLink.this
		case !follows:
			c.brokenLink = &brokenLink{before: c.at, this: at}
		case w.time < c.times[1]:
			at.Reason = "its time is before that of the decision before"
			return &at
		}
		if w.number == c.first {
			c.times[0] = w.time
		}
		c.head, c.times[1], c.next, c.at = w.digest, w.time, w.number+1, at
		c.tree = push(c.tree, node{0, w.number - 1, w.digest})
		if err := c.compare(w.offset); err != nil {
			return err
		}
		if err := c.count(&w.decision); err != nil {
			return err
		}
	}
	switch {
	case w.fault != nil && c.brokenLink != nil:
		return &c.brokenLink.before
	case w.fault != nil:
		return w.fault
	}
	return nil
}

func (c *checker) count(d *decision) error {
	c.kinds[int(d.kind)]++
	if len(d.controller) > 0 && len(d.reader) > 0 {
		c.channels[string(d.controller)+"\x00"+string(d.reader)]++
	}
	if len(c.channels) > maxChannels {
		return fmt.Errorf("the file has more than %d channels", maxChannels)
	}
	return nil
}

// compare looks at the earlier checkpoints of the tree as it is.
func (c *checker) compare(offset int64) error {
	for len(c.since) > 0 && c.since[0].Size == c.next-1 {
		if c.since[0].Root != root(c.tree) {
			return &Fault{Offset: offset, Within: -1, Reason: fmt.Sprintf("the first %d decisions are not those of the earlier checkpoint: history was changed, or this is another mesh", c.next-1)}
		}
		c.since = c.since[1:]
	}
	return nil
}

// end compares everything with the checkpoint.
func (c *checker) end(payload []byte, offset int64) (Summary, error) {
	fault := func(number uint64, reason string) error {
		return &Fault{Decision: number, Offset: offset, Within: -1, Reason: reason}
	}
	if len(payload) < len(Hash{}) || c.next == c.first {
		return Summary{}, fault(0, "the end cannot be read, or there is nothing before it")
	}
	head, signed := Hash(payload[:len(Hash{})]), payload[len(Hash{}):]
	last := c.next - 1
	checkpoint, err := openCheckpoint(signed, c.keys)
	matches := err == nil && checkpoint.Size == last && checkpoint.Root == root(c.tree)
	switch {
	case c.brokenLink != nil && head == c.head:
		return Summary{}, &c.brokenLink.before
	case c.brokenLink != nil:
		return Summary{}, &c.brokenLink.this
	case err != nil:
		return Summary{}, fault(0, "no known key has signed the checkpoint")
	case checkpoint.Size > last:
		return Summary{}, fault(last+1, fmt.Sprintf("it is missing: the checkpoint is over %d decisions", checkpoint.Size))
	case checkpoint.Size < last:
		return Summary{}, fault(checkpoint.Size+1, fmt.Sprintf("it comes after the checkpoint, which covers %d decisions", checkpoint.Size))
	case head != c.head && !matches:
		return Summary{}, &c.at // the last
	case head != c.head:
		return Summary{}, fault(0, "the digest of the last decision was changed")
	case !matches:
		return Summary{}, fault(0, "the checkpoint is over other decisions")
	case len(c.since) > 0:
		return Summary{}, fmt.Errorf("%w: it is of %d decisions, and the file ends with decision %d", errSince, c.since[0].Size, last)
	}
	s := Summary{
		First: c.first, Last: last, From: time.Unix(0, c.times[0]).UTC(), To: time.Unix(0, c.times[1]).UTC(),
		Kinds: c.kinds, Checkpoint: checkpoint, Signed: slices.Clone(signed),
	}
	for names, n := range c.channels {
		controller, reader, _ := strings.Cut(names, "\x00")
		s.Channels = append(s.Channels, Channel{controller, reader, n})
	}
	slices.SortFunc(s.Channels, func(a, b Channel) int {
		return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Reader, b.Reader))
	})
	return s, nil
}
