package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/netip"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Archive is a network of saved responses: a [Resolver] and a [Transport] without a
// real network. It may be used concurrently.
type Archive struct{ fsys fs.FS }

// NewArchive returns the archive in a folder. The response of a URL, with status line,
// header and body as sent by a host, is in the file named by [ArchiveName]; a missing
// file answers 404.
func NewArchive(folder fs.FS) *Archive { return &Archive{folder} }

// ArchiveName returns the file name of a URL: the host with its port, and the path of the
// request, plus index if it ends with a slash. A query follows an @. The colon of a port
// is a plus sign, since not all systems allow colons.
func ArchiveName(t guard.Target) string {
	path, query, asked := strings.Cut(t.RequestURI(), "?")
	if strings.HasSuffix(path, "/") {
		path += "index"
	}
	if asked {
		path += "@" + strings.ReplaceAll(query, "/", "%2F")
	}
	return strings.ReplaceAll(t.Authority(), ":", "+") + path + ".http"
}

// Lookup implements [Resolver]: every name has one public address.
func (a *Archive) Lookup(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{93, 184, 216, 34})}, nil
}

// Get implements [Transport].
func (a *Archive) Get(_ context.Context, t guard.Target, _ []netip.Addr) (*Response, error) {
	raw, err := fs.ReadFile(a.fsys, ArchiveName(t))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return &Response{Status: 404}, nil
	case err != nil:
		return nil, guard.ConnectFailed
	}
	response := &Response{Received: int64(len(raw))}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return response, guard.ConnectFailed
	}
	defer answer.Body.Close()
	response.Status, response.Location, response.ContentType = answer.StatusCode, answer.Header.Get("Location"), answer.Header.Get("Content-Type")
	return response, response.readBody(answer.Body, answer.Header.Get("Content-Encoding"))
}

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
	// Names have successive answers, each of which is taken out when it was given, but the last,
	// which repeats. A missing name has one public address.
	Names map[string][][]netip.Addr
	// Contacted are the requested canonical URLs, in order.
	Contacted []string
}

// Lookup implements [Resolver].
func (s *Scripted) Lookup(_ context.Context, name string) ([]netip.Addr, error) {
	answers := s.Names[name]
	if len(answers) == 0 {
		return []netip.Addr{netip.AddrFrom4([4]byte{93, 184, 216, 34})}, nil
	}
	if len(answers) > 1 {
		s.Names[name] = answers[1:]
	}
	return answers[0], nil
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
