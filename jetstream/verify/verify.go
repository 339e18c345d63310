package verify

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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
	// Run calls task once with each number from 0 to n-1, in any order and
	// possibly concurrently, and returns when all calls have. One of the tasks
	// reads. The result does not depend on the order. nil: sequentially.
	Run func(n int, task func(int))
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
	Controller, Reader string
	Decisions          uint64
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
	if o.Run == nil {
		o.Run = func(n int, task func(int)) {
			for i := range n {
				task(i)
			}
		}
	}
	f, err := openFrames(r)
	if err != nil {
		return Summary{}, err
	}
	c := &checker{keys: known, kinds: make(map[int]uint64), channels: make(map[string]uint64)}
	if err := c.begin(f, o); err != nil {
		return Summary{}, err
	}
	// While the blocks of one batch are checked, the next is read.
	var batches [2]batch
	batches[0].load(f, c.next)
	for i := 0; ; i++ {
		current, following := &batches[i%2], &batches[(i+1)%2]
		o.Run(current.n+1, func(i int) {
			switch {
			case i > 0:
				current.blocks[i-1].check()
			case !current.last():
				following.load(f, current.due)
			}
		})
		for i := range current.n {
			if err := c.add(&current.blocks[i]); err != nil {
				return Summary{}, err
			}
		}
		switch {
		case current.err != nil && c.brokenLink != nil:
			return Summary{}, &c.brokenLink.before
		case current.err != nil:
			return Summary{}, current.err
		case current.last():
			if err := f.end(); err != nil {
				return Summary{}, err
			}
			return c.end(current.end, current.endAt)
		}
	}
}

// batch is some consecutive blocks, and what ends the file after them, if it does.
type batch struct {
	blocks [blocksAtOnce]block
	n      int
	due    uint64 // after the blocks
	end    []byte // payload of the last frame
	endAt  int64
	err    error
}

// load reads the blocks from the decision due on.
func (b *batch) load(f *frames, due uint64) {
	for b.n, b.due = 0, due; b.n < len(b.blocks) && !b.last(); {
		next := &b.blocks[b.n]
		kind, payload, offset, err := f.next(next.payload[:0], b.due)
		switch {
		case err != nil:
			b.err = err
		case kind == kindEnd:
			b.end, b.endAt = payload, offset
		case kind == kindBlock && next.load(payload, offset, b.due):
			b.due += uint64(next.count)
			b.n++
		default:
			b.err = &Fault{Decision: b.due, Offset: offset, Within: -1, Reason: "no such frame is allowed there"}
		}
	}
}

// last reports whether no block follows.
func (b *batch) last() bool { return b.end != nil || b.err != nil }

// checker follows the decisions from block to block.
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

	channels map[string]uint64
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

// add takes the results of a block.
func (c *checker) add(b *block) error {
	// An earlier checkpoint within the block is compared on the way.
	passes := len(c.since) > 0 && c.since[0].Size < b.first+b.decisions
	if b.fault != nil || !b.follow || passes || c.brokenLink != nil || b.begin.previous != c.head || b.begin.time < c.times[1] {
		if err := c.addEach(b); err != nil {
			return err
		}
	} else {
		c.take(&b.begin, b.offset)
		c.take(&b.end, b.offset)
		for _, n := range b.nodes {
			c.tree = push(c.tree, n)
		}
	}
	for kind, n := range b.kinds {
		if n > 0 {
			c.kinds[kind] += n
		}
	}
	for channel, n := range b.channels {
		c.channels[channel] += *n
	}
	b.channels = nil
	if len(c.channels) > maxChannels {
		return fmt.Errorf("the file has more than %d channels", maxChannels)
	}
	return nil
}

// addEach takes the decisions of a block one by one, and names the first that
// does not follow.
func (c *checker) addEach(b *block) error {
	w := b.walk()
	defer w.end()
	for w.next() {
		at := Fault{Decision: w.number, Offset: b.offset, Within: w.within, Reason: changed}
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
		c.take(&w.decision, b.offset)
		c.tree = push(c.tree, node{0, w.number - 1, w.digest})
		if err := c.compare(b.offset); err != nil {
			return err
		}
	}
	switch {
	case b.fault != nil && c.brokenLink != nil:
		return &c.brokenLink.before
	case b.fault != nil:
		return b.fault
	}
	return nil
}

// take makes a decision the one before the next.
func (c *checker) take(d *decision, offset int64) {
	if d.number == c.first {
		c.times[0] = d.time
	}
	c.head, c.times[1], c.next = d.digest, d.time, d.number+1
	c.at = Fault{Decision: d.number, Offset: offset, Within: d.within, Reason: changed}
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
