package state_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// game is what may happen in worlds W, by actions A.
type game[W any, A fmt.Stringer] interface {
	begin() W
	// actions are all that may happen now.
	actions(W) []A
	// after is the world after an action; it is false if nothing happens.
	after(W, A) (W, bool)
	// key is the same for two worlds that differ in nothing that matters.
	key(W) [16]byte
	// rests reports whether nothing is left to do.
	rests(W) bool
	// ends reports whether nothing can happen any more, since something is wrong.
	ends(W) bool
	// check returns the promises that are broken.
	check(W) []breach
}

// search goes through the worlds, nearest first.
type search[W any, A fmt.Stringer] struct {
	game    game[W, A]
	promise string // the only one that is looked at; empty for all
	most    int    // edges

	nodes []node[A]
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
type node[A any] struct {
	parent int32
	by     A
}

// queued is a world whose successors have not been looked at.
type queued[W any] struct {
	node  int32
	world W
}

func newSearch[W any, A fmt.Stringer](g game[W, A], promise string, most int) *search[W, A] {
	return &search[W, A]{game: g, promise: promise, most: most, seen: make(map[[16]byte]int32)}
}

// run searches from the end of a path, until a promise is broken, the edges are used
// up or no world is left.
func (s *search[W, A]) run(along []A) {
	began := time.Now()
	defer func() { s.took = time.Since(began) }()
	w := s.game.begin()
	s.nodes = append(s.nodes, node[A]{parent: -1})
	for _, act := range along {
		next, happens := s.game.after(w, act)
		if !happens {
			panic(act.String())
		}
		s.add(next, act, int32(len(s.nodes)-1))
		w = next
	}
	if len(along) == 0 {
		s.seen[s.game.key(w)] = 0
	}
	for level := []queued[W]{{int32(len(s.nodes) - 1), w}}; len(level) > 0; s.depth++ {
		var below []queued[W]
		for _, q := range level {
			below = append(below, s.expand(q)...)
			if s.found.promise != "" || s.edges >= s.most {
				return
			}
		}
		level = below
	}
	s.whole = true
	s.checkRest()
}

// add notes a world that is reached, and whether for the first time.
func (s *search[W, A]) add(w W, by A, from int32) (n int32, first bool) {
	key := s.game.key(w)
	n, seen := s.seen[key]
	if !seen {
		n = int32(len(s.nodes))
		s.seen[key] = n
		s.nodes = append(s.nodes, node[A]{from, by})
		if s.game.rests(w) {
			s.rests = append(s.rests, n)
		}
	}
	return n, !seen
}

// expand looks at every edge from a world, and returns the worlds that are new.
func (s *search[W, A]) expand(q queued[W]) (below []queued[W]) {
	defer func() {
		if wrong := recover(); wrong != nil {
			panic(fmt.Sprintf("after\n%s%v", shortened(s.tell(q.node)), wrong))
		}
	}()
	for _, act := range s.game.actions(q.world) {
		next, happens := s.game.after(q.world, act)
		if !happens {
			continue
		}
		s.edges++
		n, first := s.add(next, act, q.node)
		s.ways = append(s.ways, [2]int32{q.node, n})
		if !first {
			continue
		}
		for _, broken := range s.game.check(next) {
			if s.promise == "" || broken.promise == s.promise {
				s.report(broken, n)
				return nil
			}
		}
		if !s.game.ends(next) {
			below = append(below, queued[W]{n, next})
		}
	}
	return below
}

// checkRest looks for the nearest world from which no way leads to rest.
func (s *search[W, A]) checkRest() {
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

// path is how a world was reached.
func (s *search[W, A]) path(n int32) []A {
	if n <= 0 {
		return nil
	}
	return append(s.path(s.nodes[n].parent), s.nodes[n].by)
}

// tell is the story of a world: what happened, one line each.
func (s *search[W, A]) tell(n int32) string {
	var b strings.Builder
	for i, act := range s.path(n) {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, act)
	}
	return b.String()
}

// report keeps what was found, as a story.
func (s *search[W, A]) report(found breach, n int32) {
	s.found = found
	s.story = shortened(fmt.Sprintf("%s%5s%s\n%5s%s\n", s.tell(n), "", "broken: "+found.promise, "", found.how))
}

func (s *search[W, A]) String() string {
	perEdge := time.Duration(0)
	if s.edges > 0 {
		perEdge = s.took / time.Duration(s.edges)
	}
	return fmt.Sprintf("%d edges to %d worlds, all to depth %d (whole: %t), in %s, %s an edge",
		s.edges, len(s.nodes), s.depth, s.whole, s.took.Round(time.Millisecond), perEdge)
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
