package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// search goes through the worlds, nearest first.
type search struct {
	archive *archive
	cast    cast
	promise string // the only one that is looked at; empty for all
	most    int    // edges

	nodes []node
	seen  map[[16]byte]int32
	ways  [][2]int32 // from which world to which
	rests []int32
	edges int
	depth int  // of which all worlds were looked at
	whole bool // there are no more worlds
	found breach
	story string
	took  time.Duration
}

// node is how a world was reached first.
type node struct {
	parent int32
	by     action
}

// queued is a world whose successors have not been looked at.
type queued struct {
	node  int32
	world *world
}

func newSearch(r revert, c cast, promise string, most int) *search {
	return &search{archive: newArchive(r), cast: c, promise: promise, most: most, seen: make(map[[16]byte]int32)}
}

// run searches from the end of a path, until a promise is broken, the edges are used
// up or no world is left.
func (s *search) run(along []action) error {
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	w := s.archive.begin()
	s.nodes = append(s.nodes, node{parent: -1})
	for _, act := range along {
		next, err := s.cast.after(s.archive, w, act)
		if err != nil || next == nil {
			return fmt.Errorf("%s: %w", act, err)
		}
		s.add(next, act, int32(len(s.nodes)-1))
		w = next
	}
	if len(along) == 0 {
		s.seen[w.key(s.fences())] = 0
	}
	for level := []queued{{int32(len(s.nodes) - 1), w}}; len(level) > 0; s.depth++ {
		var below []queued
		for _, q := range level {
			more, err := s.expand(q)
			if err != nil {
				return fmt.Errorf("after\n%s%w", shortened(s.tell(q.node)), err)
			}
			if s.found.promise != "" || s.edges >= s.most {
				return nil
			}
			below = append(below, more...)
		}
		level = below
	}
	s.whole = true
	s.checkRest()
	return nil
}

// add notes a world that is reached, and whether for the first time.
func (s *search) add(w *world, by action, from int32) (n int32, first bool) {
	key := w.key(s.fences())
	n, seen := s.seen[key]
	if !seen {
		n = int32(len(s.nodes))
		s.seen[key] = n
		s.nodes = append(s.nodes, node{from, by})
		if w.rests() {
			s.rests = append(s.rests, n)
		}
	}
	return n, !seen
}

// expand looks at every edge from a world, and returns the worlds that are new.
func (s *search) expand(q queued) (below []queued, err error) {
	for _, act := range s.cast.actions(s.archive, q.world) {
		next, err := s.cast.after(s.archive, q.world, act)
		if err != nil {
			return nil, fmt.Errorf("     %s: %w", act, err)
		}
		if next == nil {
			continue
		}
		s.edges++
		n, first := s.add(next, act, q.node)
		s.ways = append(s.ways, [2]int32{q.node, n})
		if !first {
			continue
		}
		if broken, ok := next.check(s.promise); ok {
			s.report(broken, n)
			return nil, nil
		}
		if next.tip.wrong == nil {
			below = append(below, queued{n, next})
		}
	}
	return below, nil
}

// checkRest looks for the nearest world from which no way leads to rest.
func (s *search) checkRest() {
	if s.promise != "" && s.promise != comesToRest {
		return
	}
	backwards := make([][]int32, len(s.nodes))
	for _, way := range s.ways {
		backwards[way[1]] = append(backwards[way[1]], way[0])
	}
	saved := make([]bool, len(s.nodes))
	todo := slices.Clone(s.rests)
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !saved[n] {
			saved[n] = true
			todo = append(todo, backwards[n]...)
		}
	}
	if n := slices.Index(saved, false); n >= 0 {
		s.report(breach{comesToRest, "whatever happens next, somebody waits for ever"}, int32(n))
	}
}

// fences reports whether gateways and journal are the real ones.
func (s *search) fences() bool { return s.archive.revert == revert{} }

// path is how a world was reached.
func (s *search) path(n int32) []action {
	if n <= 0 {
		return nil
	}
	return append(s.path(s.nodes[n].parent), s.nodes[n].by)
}

// tell is the story of a world: what happened, one line each.
func (s *search) tell(n int32) string {
	var b strings.Builder
	w := s.archive.begin()
	for i, act := range s.path(n) {
		next, err := s.cast.after(s.archive, w, act)
		if err != nil || next == nil {
			fmt.Fprintf(&b, "%3d. %v\n", i+1, err)
			break
		}
		fmt.Fprintf(&b, "%3d. %s\n", i+1, act.tell(w, next))
		w = next
	}
	return b.String()
}

// report keeps what was found, as a story.
func (s *search) report(found breach, n int32) {
	s.found = found
	s.story = shortened(fmt.Sprintf("%s%5s%s\n%5s%s\n", s.tell(n), "", "broken: "+found.promise, "", found.how))
}

func (s *search) String() string {
	perEdge := time.Duration(0)
	if s.edges > 0 {
		perEdge = s.took / time.Duration(s.edges)
	}
	return fmt.Sprintf("%d edges to %d worlds with %d records, all to depth %d (whole: %t), in %s, %s an edge",
		s.edges, len(s.nodes), s.archive.made, s.depth, s.whole, s.took.Round(time.Millisecond), perEdge)
}

// shortened gives ids short names in the order in which they come up.
func shortened(story string) string {
	names := make(map[string]string)
	for {
		i := strings.Index(story, idMark)
		if i < 1 || len(story) < i+len(idMark)+idSize {
			return story
		}
		id := story[i-1 : i+len(idMark)+idSize]
		if names[id] == "" {
			names[id] = fmt.Sprintf("%c%d", id[0], len(names)+1)
		}
		story = strings.ReplaceAll(story, id, names[id])
	}
}
