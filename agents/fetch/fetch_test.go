package fetch

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

const good = "https://good.test/"

func targetOf(t testing.TB, url string) guard.Target {
	t.Helper()
	target, err := guard.ParseTarget(url)
	stopIf(t, err != nil, "%s: %v", url, err)
	return target
}

func policyOf(entries ...string) func() guard.Policy {
	p, _ := guard.ParsePolicy(entries)
	return func() guard.Policy { return p }
}

func addressesOf(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func redirect(location string) Route { return Route{Status: 302, Location: location} }

var hello = Route{Status: 200, ContentType: "text/plain", Body: []byte("hello")}

// covers ALF-30, ALF-85, ALF-91, ALF-92, ALF-93, ALF-94
func TestHops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		routes    map[string]Route
		names     map[string][][]netip.Addr
		want      guard.Code
		contacted int
	}{
		{"page", map[string]Route{good: hello}, nil, "", 1},
		{"redirect", map[string]Route{good: redirect("/a"), good + "a": hello}, nil, "", 2},
		{"redirect to another host of the list", map[string]Route{good: redirect("https://cdn.good.test/"), "https://cdn.good.test/": hello}, nil, "", 2},
		{"redirect to a host that is not on the list", map[string]Route{good: redirect("https://evil.test/")}, nil, guard.HostDenied, 1},
		{"redirect without a scheme", map[string]Route{good: redirect("//evil.test/")}, nil, guard.HostDenied, 1},
		{"redirect to the metadata service", map[string]Route{good: redirect("http://169.254.169.254/latest/")}, nil, guard.HostDenied, 1},
		{"redirect to another port", map[string]Route{good: redirect("https://good.test:22/")}, nil, guard.PortDenied, 1},
		{"redirect to a file", map[string]Route{good: redirect("file:///etc/passwd")}, nil, guard.BadScheme, 1},
		{"redirect with a password", map[string]Route{good: redirect("https://u:p@good.test/")}, nil, guard.UserInfo, 1},
		{"redirect that is malformed", map[string]Route{good: redirect("https:evil.test")}, nil, guard.Malformed, 1},
		{"redirect down to http", map[string]Route{good: redirect("http://good.test/")}, nil, guard.Downgrade, 1},
		{"redirect to nowhere", map[string]Route{good: redirect("")}, nil, guard.NoLocation, 1},
		{"redirect to itself", map[string]Route{good: redirect("/")}, nil, guard.TooManyRedirects, 6},
		{"five redirects", map[string]Route{good: redirect("/1"), good + "1": redirect("/2"), good + "2": redirect("/3"), good + "3": redirect("/4"), good + "4": redirect("/5"), good + "5": hello}, nil, "", 6},
		{"status 300", map[string]Route{good: {Status: 300}}, nil, guard.BadStatus, 1},
		{"status 404", map[string]Route{}, nil, guard.BadStatus, 1},
		{"status 500", map[string]Route{good: {Status: 500, Body: []byte("x")}}, nil, guard.BadStatus, 1},
		{"network error", map[string]Route{good: {Error: guard.TLSFailed}}, nil, guard.TLSFailed, 1},
		{"no address", map[string]Route{good: hello}, map[string][][]netip.Addr{"good.test": {{}}}, guard.DNSFailed, 0},
		{"private address", map[string]Route{good: hello}, map[string][][]netip.Addr{"good.test": {addressesOf("10.0.0.5")}}, guard.PrivateAddress, 0},
		{"loopback", map[string]Route{good: hello}, map[string][][]netip.Addr{"good.test": {addressesOf("::1")}}, guard.PrivateAddress, 0},
		{"mapped loopback", map[string]Route{good: hello}, map[string][][]netip.Addr{"good.test": {addressesOf("::ffff:127.0.0.1")}}, guard.PrivateAddress, 0},
		{"mixed answer", map[string]Route{good: hello}, map[string][][]netip.Addr{"good.test": {addressesOf("93.184.216.34", "127.0.0.1")}}, guard.PrivateAddress, 0},
		{"rebinding between hops", map[string]Route{good: redirect("/b"), good + "b": hello}, map[string][][]netip.Addr{"good.test": {addressesOf("93.184.216.34"), addressesOf("127.0.0.1")}}, guard.PrivateAddress, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			world := &Scripted{Routes: c.routes, Names: c.names}
			f := Client{Policy: policyOf("good.test", "cdn.good.test"), Resolver: world, Transport: world}
			body, err := f.Fetch(t.Context(), targetOf(t, good))
			failIf(t, CodeOf(err) != c.want || len(world.Contacted) != c.contacted || err == nil && string(body.Bytes) != "hello",
				"%q, contacted %q, %q; want %q and %d", CodeOf(err), world.Contacted, body.Bytes, c.want, c.contacted)
			failIf(t, err != nil && (strings.Contains(err.Error(), "test") || c.want.Error() != err.Error() || body.Bytes != nil),
				"the error is not constant: %v", err)
		})
	}
}

// covers ALF-28, ALF-29, ALF-85
func TestZeroFetcherAllowsNothing(t *testing.T) {
	t.Parallel()
	world := &Scripted{Routes: map[string]Route{good: hello}}
	for _, f := range []Client{{}, {Resolver: world, Transport: world}, {Policy: policyOf(), Resolver: world, Transport: world}, {Policy: policyOf("good.test")}} {
		_, err := f.Fetch(t.Context(), targetOf(t, good))
		failIf(t, CodeOf(err) != guard.DenyAll, "%v", err)
	}
	f := Client{Policy: policyOf("good.test"), Resolver: world, Transport: world}
	_, err := f.Fetch(t.Context(), guard.Target{})
	failIf(t, CodeOf(err) != guard.Malformed, "no target: %v", err)
	failIf(t, len(world.Contacted) != 0, "contacted %q", world.Contacted)
}

// The policy is read at each hop, so that a change counts between two of them.
//
// covers ALF-83, ALF-84, ALF-89
func TestPolicyIsReadAtEachHop(t *testing.T) {
	t.Parallel()
	world := &Scripted{Routes: map[string]Route{good: redirect("/a"), good + "a": hello}}
	reads := 0
	f := Client{Resolver: world, Transport: world, Policy: func() guard.Policy {
		if reads++; reads > 1 {
			return guard.Policy{}
		}
		return policyOf("good.test")()
	}}
	_, err := f.Fetch(t.Context(), targetOf(t, good))
	failIf(t, CodeOf(err) != guard.DenyAll || len(world.Contacted) != 1, "%v, contacted %q", err, world.Contacted)
}

// A literal may be local if the list has it with its port, and then never the metadata service.
//
// covers ALF-30
func TestLiterals(t *testing.T) {
	t.Parallel()
	for url, c := range map[string]struct {
		allow string
		want  guard.Code
	}{
		"http://127.0.0.1:8080/":     {"127.0.0.1:8080", ""},
		"http://[::1]:8080/":         {"[::1]:8080", ""},
		"http://10.1.2.3:80/":        {"10.1.2.3:80", ""},
		"http://127.0.0.1/":          {"127.0.0.1", guard.PrivateAddress},
		"http://8.8.8.8/":            {"8.8.8.8", ""},
		"http://169.254.169.254:80/": {"169.254.169.254:80", guard.PrivateAddress},
		"http://[fd00:ec2::254]:80/": {"[fd00:ec2::254]:80", guard.PrivateAddress},
		"http://0.0.0.0:80/":         {"0.0.0.0:80", guard.PrivateAddress},
		"http://100.64.0.1:80/":      {"100.64.0.1:80", guard.PrivateAddress},
	} {
		target := targetOf(t, url)
		world := &Scripted{Routes: map[string]Route{target.String(): hello}}
		f := Client{Policy: policyOf(c.allow), Resolver: world, Transport: world}
		if _, err := f.Fetch(t.Context(), target); CodeOf(err) != c.want || (len(world.Contacted) > 0) != (c.want == "") {
			t.Errorf("%s: %v, contacted %q", url, err, world.Contacted)
		}
	}
	world := &Scripted{Routes: map[string]Route{good: hello}, Names: map[string][][]netip.Addr{"good.test": {addressesOf("10.1.0.1")}}}
	f := Client{Policy: policyOf("good.test"), Resolver: world, Transport: world, Addresses: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	_, err := f.Fetch(t.Context(), targetOf(t, good))
	failIf(t, err != nil, "a prefix of the operator: %v", err)
}

// covers ALF-86
func TestContentTypes(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"": true, "text/plain": true, "TEXT/HTML; charset=x": true, "text/markdown": true, "application/json": true, "application/ld+json": true, "application/xml": true, "application/xhtml+xml": true, "image/svg+xml": true, "application/x-ndjson": true, "application/yaml": true, "application/toml": true, "application/x-tar": false, "image/json": false, "/yaml": false,
		"application/octet-stream": false, "application/zip": false, "image/png": false, "application/javascript": false, "application/pdf": false, "text": false, "text/": false, "/json": false, ";": false, "+json": false,
	} {
		got := IsText(contentType, []byte("x"))
		failIf(t, got != want, "%q: %v", contentType, got)
	}
	failIf(t, IsText("", []byte("a\x00b")) || !IsText("", append(make([]byte, 0), strings.Repeat("a", headBytes)+"\x00"...)),
		"a body without a type is judged wrongly")
}

func TestCodes(t *testing.T) {
	t.Parallel()
	failIf(t, CodeOf(nil) != "" || CodeOf(errors.New("x")) != guard.ConnectFailed || CodeOf(StatusError(404)) != guard.BadStatus || !errors.Is(StatusError(404), guard.BadStatus),
		"errors have wrong codes")
}

// A link is the bytes that were served, and nothing else.
func TestResolveLink(t *testing.T) {
	t.Parallel()
	base := targetOf(t, "https://good.test/a/b")
	for link, want := range map[string]string{" c?x=1&amp;y=2 ": "https://good.test/a/c?x=1&y=2", "//other.test/": "https://other.test/", "\n/x\n": "https://good.test/x", "#top": "https://good.test/a/b", "/a b|c": "https://good.test/a%20b%7Cc"} {
		got, err := resolveLink(base, []byte(link))
		failIf(t, err != nil || got.String() != want, "%q: %s, %v", link, got, err)
	}
	for _, link := range []string{"javascript:x", "https://other test/", `/a\b`, "/100%", "/a\nb", "\xff", "mailto:a@b.test", "https:evil.test"} {
		_, err := resolveLink(base, []byte(link))
		failIf(t, err == nil, "%q is a link", link)
	}
}

func must[T any](v T, err error) T { return bcptest.Must(v, err) }

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
