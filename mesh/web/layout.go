package web

import (
	"cmp"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// layout orders the two columns of the topology and the channels between them, so that
// few lines cross. It is deterministic.
type layout struct {
	readers, controllers []bcp.AgentName
	channels             []*channel
}

// sweeps is how often each column is ordered by the other.
const sweeps = 8

func layOut(channels []*channel) layout {
	l := layout{channels: slices.Clone(channels)}
	readers, controllers := map[bcp.AgentName][]bcp.AgentName{}, map[bcp.AgentName][]bcp.AgentName{}
	for _, c := range channels {
		readers[c.key.Reader] = append(readers[c.key.Reader], c.key.Controller)
		controllers[c.key.Controller] = append(controllers[c.key.Controller], c.key.Reader)
	}
	for name := range readers {
		l.readers = append(l.readers, name)
	}
	for name := range controllers {
		l.controllers = append(l.controllers, name)
	}
	slices.Sort(l.readers)
	slices.Sort(l.controllers)
	for range sweeps {
		order(l.controllers, controllers, l.readers)
		order(l.readers, readers, l.controllers)
	}
	left, right := positions(l.readers), positions(l.controllers)
	slices.SortStableFunc(l.channels, func(a, b *channel) int {
		// Both columns are as high as the picture.
		high := func(c *channel) int {
			return (2*left[c.key.Reader]+1)*len(l.controllers) + (2*right[c.key.Controller]+1)*len(l.readers)
		}
		return cmp.Or(cmp.Compare(high(a), high(b)), cmp.Compare(left[a.key.Reader], left[b.key.Reader]),
			cmp.Compare(right[a.key.Controller], right[b.key.Controller]))
	})
	return l
}

// order sorts a column by the mean place of each one's peers, then by name.
func order(column []bcp.AgentName, peers map[bcp.AgentName][]bcp.AgentName, other []bcp.AgentName) {
	places := positions(other)
	sum := func(name bcp.AgentName) (total, n int) {
		for _, peer := range peers[name] {
			total += places[peer]
		}
		return total, len(peers[name])
	}
	slices.SortFunc(column, func(a, b bcp.AgentName) int {
		sumA, nA := sum(a)
		sumB, nB := sum(b)
		return cmp.Or(cmp.Compare(sumA*nB, sumB*nA), cmp.Compare(a, b))
	})
}

func positions(column []bcp.AgentName) map[bcp.AgentName]int {
	places := make(map[bcp.AgentName]int, len(column))
	for i, name := range column {
		places[name] = i
	}
	return places
}
