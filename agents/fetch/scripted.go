package fetch

import (
	"bytes"
	"context"
	"net/netip"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Route is the response of a scripted host.
type Route struct {
	Status      int
	Location    string
	ContentType string
	Encoding    string // of Body: gzip, or empty
	Body        []byte
	Error       guard.Code // instead of an answer
}

// Scripted is a network in a table: a resolver and a transport without a real network.
// It belongs to one goroutine.
type Scripted struct {
	// Routes are by canonical URL; others answer 404.
	Routes map[string]Route
	// Names have successive answers, of which the last repeats. A missing name has one
	// public address.
	Names map[string][][]netip.Addr
	// Contacted are the requested canonical URLs, in order.
	Contacted []string

	asked map[string]int
}

// Lookup implements [Resolver].
func (s *Scripted) Lookup(_ context.Context, name string) ([]netip.Addr, error) {
	answers := s.Names[name]
	if len(answers) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{93, 184, 216, 34})}, nil
	}
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	n := min(s.asked[name], len(answers)-1)
	s.asked[name]++
	return answers[n], nil
}

// Get implements [Transport].
func (s *Scripted) Get(_ context.Context, t guard.Target, _ []netip.Addr) (*Response, error) {
	s.Contacted = append(s.Contacted, t.String())
	route, ok := s.Routes[t.String()]
	switch {
	case !ok:
		return &Response{Status: 404}, nil
	case route.Error != "":
		return nil, route.Error
	}
	response := &Response{Status: route.Status, Location: route.Location, ContentType: route.ContentType, Received: int64(len(route.Body))}
	return response, response.readBody(bytes.NewReader(route.Body), route.Encoding)
}
