package mailbox

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
)

const (
	maxBatch = 32 // messages that one command asks for
	maxTries = 3  // for a message, before it is skipped for a while
)

// choose marks the copied messages to keep, and returns the missing ones, the newest
// first. Messages without room are neither.
func choose(listed map[int64]entry, have map[int64]*copied, l copyLimits) (missing []entry) {
	room := l.all
	for _, m := range slices.SortedFunc(maps.Values(listed), func(a, b entry) int { return cmp.Compare(b.uid, a.uid) }) {
		size := min(m.size, l.message+1)
		held := have[m.uid]
		if held != nil {
			size = held.size
		}
		if room -= size; room < 0 {
			return missing
		}
		if held != nil {
			held.listed = true
		} else {
			missing = append(missing, m)
		}
	}
	return missing
}

// fetchAll fetches missing messages, and returns how many did not come. Messages that
// failed before come last and one at a time, so that an unavailable message does not
// block others.
func (c *Copier) fetchAll(s *session, validity int64, missing []entry) (left int, err error) {
	missing = slices.DeleteFunc(missing, func(m entry) bool { return c.failed[m.uid] >= maxTries })
	again := func(m entry) int { return min(1, c.failed[m.uid]) }
	slices.SortStableFunc(missing, func(a, b entry) int { return cmp.Compare(again(a), again(b)) })
	defer func() {
		if syncing := c.store.sync(); err == nil {
			err = syncing
		}
	}()
	for len(missing) > 0 {
		n, size, cut := 1, missing[0].size, again(missing[0]) > 0
		for !cut && n < min(len(missing), maxBatch) && again(missing[n]) == 0 && size+missing[n].size <= c.o.limits.message {
			size += missing[n].size
			n++
		}
		came, err := c.fetch(s, validity, missing[:n], cut || size > c.o.limits.message)
		if err != nil {
			return 0, err
		}
		left += n - came
		missing = missing[n:]
	}
	return left, nil
}

// fetch fetches messages, and returns how many came. A cut message is the first bytes
// of a large one.
func (c *Copier) fetch(s *session, validity int64, batch []entry, cut bool) (came int, err error) {
	wanted, set, section := map[int64]bool{}, []string{}, "BODY.PEEK[]"
	for _, m := range batch {
		wanted[m.uid] = true
		set = append(set, strconv.FormatInt(m.uid, 10))
	}
	most := c.o.limits.message + 1
	if cut {
		section += "<0." + strconv.FormatInt(most, 10) + ">"
	}
	if c.bytes > c.o.limits.all { // the server's sizes were wrong
		return 0, nil
	}
	defer func() {
		if errors.Is(err, errDisk) {
			return
		}
		for uid := range wanted {
			c.failed[uid]++
		}
	}()
	var size int64
	s.allow(2*most+maxChatter, transferred) // servers err about sizes, or say that each is 0
	_, err = s.command("UID FETCH "+strings.Join(set, ",")+" (UID "+section+")", fetching{
		most: most,
		body: func(r io.Reader) (err error) {
			size, err = c.store.write(r)
			return err
		},
		told: func(m entry) error {
			switch {
			case s.validity != validity:
				return errAnew
			case !m.body || !wanted[m.uid]:
				return nil
			}
			delete(wanted, m.uid)
			came++
			c.held++
			c.bytes += size
			return writing(disk.MoveUnsynced(c.store.draft(), filepath.Join(c.store.folder, newFolder, copyName(validity, m.uid))))
		},
	})
	if err == nil && s.validity != validity {
		err = errAnew
	}
	return came, err
}
