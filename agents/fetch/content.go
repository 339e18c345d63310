package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const (
	// MaxExchange is how many bytes go over the wire for one hop at most, in both directions: a connection with more is cut.
	MaxExchange = maxWire + 1<<20

	// MaxBody is how many bytes a body has at most, unpacked.
	MaxBody = 8 << 20

	maxWire  = 2 << 20 // bytes of a body on the wire
	maxRatio = 100     // unpacked to packed, beyond freeUnpacked
	// freeUnpacked is the size to which any body may unpack.
	freeUnpacked = 64 << 10
	headBytes    = 1 << 10 // of a body without a type that are inspected
)

// mediaType returns the type and subtype of a Content-Type, in lower case and without parameters, whose semicolon may be
// missing. Of several, it is the first.
func mediaType(contentType string) string {
	media := strings.TrimSpace(contentType)
	if end := strings.IndexAny(media, "; \t,"); end >= 0 {
		media = media[:end]
	}
	return strings.ToLower(media)
}

// IsText reports whether a body is text by its type: text, JSON and its lines, XML, YAML and TOML. Without a type it is,
// unless its first KiB has a zero byte. Nothing else is guessed from the bytes.
func IsText(contentType string, body []byte) bool {
	media := mediaType(contentType)
	if media == "" && strings.TrimSpace(contentType) == "" {
		return bytes.IndexByte(body[:min(len(body), headBytes)], 0) < 0
	}
	kind, subtype, _ := strings.Cut(media, "/")
	switch {
	case kind == "", subtype == "":
		return false
	case kind == "text", strings.HasSuffix(subtype, "+json"), strings.HasSuffix(subtype, "+xml"), strings.HasSuffix(subtype, "+yaml"):
		return true
	}
	return kind == "application" && slices.Contains([]string{"json", "jsonl", "ndjson", "x-ndjson", "xml", "yaml", "x-yaml", "toml"}, subtype)
}

// readBody reads the body of a response from the wire, if its status has one that is of use.
func (r *Response) readBody(wire io.Reader, encoding string) (err error) {
	if r.Status >= 200 && r.Status <= 299 && r.Status != http.StatusNoContent {
		r.Body, err = readBody(wire, encoding, r.ContentType)
	}
	return err
}

// readBody reads a body from the wire, unpacks it and judges its type. The error has a code.
func readBody(wire io.Reader, encoding, contentType string) ([]byte, error) {
	if media := mediaType(contentType); media != "" && !IsText(contentType, nil) {
		return nil, guard.BadContentType
	}
	counted := &countingReader{r: io.LimitReader(wire, maxWire+1)}
	body, err := unpack(counted, encoding)
	switch {
	case counted.n > maxWire:
		return nil, guard.TooLarge
	case err != nil:
		return nil, err
	case !IsText(contentType, body):
		return nil, guard.BadContentType
	}
	return body, nil
}

// unpack decodes the one encoding that was requested.
func unpack(wire *countingReader, encoding string) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity", "none", "utf-8": // as browsers read what is no encoding
		body, err := io.ReadAll(wire)
		if err != nil {
			return nil, guard.ConnectFailed
		}
		return body, nil
	case "gzip", "x-gzip":
	default:
		return nil, guard.BadContentType
	}
	z, err := gzip.NewReader(wire)
	if err != nil {
		if errors.Is(err, io.EOF) && wire.n == 0 {
			return nil, nil
		}
		return nil, guard.ConnectFailed
	}
	var body bytes.Buffer
	part := make([]byte, 32<<10)
	for {
		n, err := z.Read(part)
		body.Write(part[:n])
		if body.Len() > MaxBody || body.Len() > freeUnpacked && int64(body.Len()) > maxRatio*wire.n {
			return nil, guard.TooLarge
		}
		switch {
		case errors.Is(err, io.EOF):
			return body.Bytes(), nil
		case err != nil:
			return nil, guard.ConnectFailed
		}
	}
}

// countingReader counts bytes read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
