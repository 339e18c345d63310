package fetch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

func TestArchiveName(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://a.example":                "a.example/index.http",
		"https://a.example/":               "a.example/index.http",
		"https://a.example/x":              "a.example/x.http",
		"https://a.example/x/":             "a.example/x/index.http",
		"https://a.example/x?a=b/c":        "a.example/x@a=b%2Fc.http",
		"http://127.0.0.1:8080/x":          "127.0.0.1+8080/x.http",
		"https://a.example/../../x":        "a.example/../../x.http", // no name of a file system
		"https://a.example/x?../../../etc": "a.example/x@..%2F..%2F..%2Fetc.http",
	} {
		got := ArchiveName(targetOf(t, url))
		failIf(t, got != want, "%s: %s, want %s", url, got, want)
	}
}

// An archive answers what was saved, through the checks that a host's answer goes through, and 404 for all else.
func TestArchive(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte("packed"))
	_ = z.Close()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	archive := NewArchive(fstest.MapFS{
		"a.example/index.http":  file("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"),
		"a.example/open.http":   file("HTTP/1.1 200 OK\nContent-Type: text/html\n\n<p>to the end"),
		"a.example/chunks.http": file("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
		"a.example/gzip.http":   file("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n" + packed.String()),
		"a.example/moved.http":  file("HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\nContent-Length: 0\r\n\r\n"),
		"a.example/image.http":  file("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\nx"),
		"a.example/short.http":  file("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 50\r\n\r\nhello"),
		"a.example/broken.http": file("no response"),
	})
	f := Client{Policy: policyOf("a.example"), Resolver: archive, Transport: archive}
	for path, want := range map[string]any{
		"": "hello", "open": "<p>to the end", "chunks": "abc", "gzip": "packed", "nothing": StatusError(404), "../a.example/": StatusError(404),
		"moved": guard.HostDenied, "image": guard.BadContentType, "short": guard.ConnectFailed, "broken": guard.ConnectFailed,
	} {
		body, err := f.Fetch(t.Context(), targetOf(t, "https://a.example/"+path))
		wrong, fails := want.(error)
		failIf(t, fails && !errors.Is(err, wrong) || !fails && (err != nil || string(body.Bytes) != want), "%q: %q, %v, want %v", path, body.Bytes, err, want)
	}
}
