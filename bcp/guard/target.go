package guard

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Target is a parsed URL: what is dialled and asked for. A request is built from its fields, so that no second parser can
// read the URL differently. [ParseTarget] and [Target.Resolve] alone make one; the zero value is no target.
type Target struct {
	https bool
	host  host
	port  uint16
	path  string // with its query, in ASCII, from the first slash on
}

// Scheme returns http or https.
func (t Target) Scheme() string {
	if t.https {
		return "https"
	}
	return "http"
}

// IsZero reports whether t is the zero value.
func (t Target) IsZero() bool { return t.port == 0 }

// Port returns the port to dial.
func (t Target) Port() uint16 { return t.port }

// RequestURI returns the path and the query as they stand in the request.
func (t Target) RequestURI() string { return t.path }

// Authority returns the host, with its port if that is not the scheme's own: the value of the Host header.
func (t Target) Authority() string {
	if t.port == defaultPort(t.https) {
		return t.host.String()
	}
	return t.host.String() + ":" + strconv.Itoa(int(t.port))
}

// String returns the canonical URL. ParseTarget reads it back to the same target. The zero value gives the empty string.
func (t Target) String() string {
	if t.IsZero() {
		return ""
	}
	return t.Scheme() + "://" + t.Authority() + t.path
}

// Origin returns scheme, host and port, which is what two targets share that one server answers.
func (t Target) Origin() string { return t.Scheme() + "://" + t.Authority() }

func defaultPort(https bool) uint16 {
	if https {
		return 443
	}
	return 80
}

// ParseTarget reads a URL, strictly: what programs read differently is refused, and nothing is repaired. The scheme is http
// or https in any case; the host is a name of letters, digits, hyphens and underscores, an internationalised name in its
// own spelling, or a canonical IP literal; the port has no leading zero. A fragment is dropped, and bytes of path and query
// that are not ASCII are percent-encoded.
//
// The error is a [Code]. ParseTarget takes any bytes, and time linear in them.
func ParseTarget(url string) (Target, error) {
	if !utf8.ValidString(url) || !wellSpelled(url) {
		return Target{}, Malformed
	}
	word, rest, ok := strings.Cut(url, ":")
	if !ok || !scheme.MatchString(word) {
		return Target{}, Malformed
	}
	var t Target
	switch strings.ToLower(word) {
	case "http":
	case "https":
		t.https = true
	default:
		return Target{}, BadScheme
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok {
		return Target{}, Malformed
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if authority == "" {
		return Target{}, Malformed
	}
	if strings.Contains(authority, "@") {
		return Target{}, UserInfo
	}
	name, port, ok := cutPort(authority)
	if !ok {
		return Target{}, Malformed
	}
	if t.port = port; port == 0 {
		t.port = defaultPort(t.https)
	}
	var err error
	if t.host, err = parseHost(name); err != nil {
		return Target{}, err
	}
	t.path = encodePath(path)
	return t, nil
}

// wellSpelled reports whether a URL has only bytes that may stand in one, and a percent sign only before two hex digits. Pages
// have many URLs: one expression for both took ten times as long.
func wellSpelled(url string) bool {
	return !strings.ContainsFunc(url, func(c rune) bool { return c <= ' ' || c == 0x7f || strings.ContainsRune("\\\"<>^{|}`", c) }) &&
		strings.Count(url, "%") == len(percentEncoded.FindAllStringIndex(url, -1))
}

func isHex(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }

// scheme is the spelling of the scheme of a URL.
var scheme = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z+.-]*$`)

// cutPort splits an authority before its port: 1 to 65535 without a leading zero, or 0 if there is none.
func cutPort(authority string) (name string, port uint16, ok bool) {
	i := strings.LastIndexByte(authority, ':')
	if i < 0 || strings.IndexByte(authority[i:], ']') >= 0 {
		return authority, 0, true
	}
	n, err := strconv.ParseUint(authority[i+1:], 10, 16)
	return authority[:i], uint16(n), err == nil && authority[i+1] != '0'
}

// encodePath makes path and query what the request line holds.
func encodePath(path string) string {
	if path == "" {
		return "/"
	}
	var b strings.Builder
	if path[0] != '/' {
		b.WriteByte('/')
	}
	for _, c := range []byte(path) {
		if c < utf8.RuneSelf {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Resolve reads a reference that a document at t makes, such as the Location of a redirect or a link: an absolute URL, or
// one relative to t (RFC 3986, 5.2). A relative path loses its dot segments; nothing else is repaired.
//
// The error is a [Code]. The result may have another scheme, host and port than t: it is checked like any URL.
func (t Target) Resolve(reference string) (Target, error) {
	if t.IsZero() {
		return Target{}, Malformed
	}
	reference, _, _ = strings.Cut(reference, "#")
	if word, _, ok := strings.Cut(reference, ":"); ok && scheme.MatchString(word) {
		return ParseTarget(reference)
	}
	base, query, asked := strings.Cut(t.path, "?")
	switch {
	case strings.HasPrefix(reference, "//"):
		return ParseTarget(t.Scheme() + ":" + reference)
	case reference == "":
		if asked {
			base += "?" + query
		}
		return ParseTarget(t.Origin() + base)
	case reference[0] == '?':
		return ParseTarget(t.Origin() + base + reference)
	}
	path, query, asked := strings.Cut(reference, "?")
	if path[0] != '/' {
		path = base[:strings.LastIndexByte(base, '/')+1] + path
	}
	path = withoutDots(path)
	if asked {
		path += "?" + query
	}
	return ParseTarget(t.Origin() + path)
}

// withoutDots removes the segments . and .. of an absolute path.
func withoutDots(path string) string {
	var kept []string
	segments := strings.Split(path[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".":
		case "..":
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
		default:
			kept = append(kept, s)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}
