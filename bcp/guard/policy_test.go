package guard

import (
	"slices"
	"strings"
	"testing"
)

func policyOf(entries ...string) Policy {
	p, _ := ParsePolicy(entries)
	return p
}

// covers ALF-28, ALF-29, ALF-30, ALF-32, ALF-33, ALF-34, ALF-35, ALF-36, ALF-37, ALF-38, ALF-46
func TestPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url   string
		allow string
		want  Code
	}{
		{"https://api.corp.test/", "", DenyAll},
		{"https://api.corp.test/", "api.corp.test", ""},
		{"http://api.corp.test/", "api.corp.test", ""},
		{"https://other.corp.test/", "api.corp.test", HostDenied},
		{"https://xapi.corp.test/", "api.corp.test", HostDenied},
		{"https://api.corp.test.evil.test/", "api.corp.test", HostDenied},
		{"https://evil.test/?u=https://api.corp.test", "api.corp.test", HostDenied},
		{"https://api.corp.test/", "API.Corp.Test", ""},
		{"https://foo.corp.test/", "*.corp.test", ""},
		{"https://corp.test/", "*.corp.test", HostDenied},
		{"https://a.b.corp.test/", "*.corp.test", HostDenied},
		{"https://foocorp.test/", "*.corp.test", HostDenied},
		{"https://corp.test/", "a.test,corp.test,*.corp.test", ""},
		{"https://h.test:8443/", "h.test", PortDenied},
		{"http://h.test:443/", "h.test", PortDenied},
		{"https://h.test:8443/", "h.test:8443", ""},
		{"http://h.test:8443/", "h.test:8443", ""},
		{"https://h.test/", "h.test:8443", PortDenied},
		{"https://h.test/", "h.test:80", PortDenied},
		{"https://h.test/", "h.test:8443,h.test", ""},
		{"https://a.h.test:8443/", "*.h.test:8443", ""},
		{"https://a.b.h.test:8443/", "*.h.test:8443", HostDenied},
		{"https://bücher.test/", "xn--bcher-kva.test", ""},
		{"https://xn--bcher-kva.test/", "BÜCHER.test", ""},
		{"https://a.bücher.test/", "*.bücher.test", ""},
		{"http://127.0.0.1/", "127.0.0.1", ""},
		{"http://127.0.0.1/", "*.0.0.1", DenyAll},
		{"http://[2001:DB8::1]/", "[2001:db8::1]", ""},
		{"http://[::1]:8080/", "[::1]:8080", ""},
		{"http://[::1]/", "127.0.0.1", HostDenied},
		{"http://169.254.169.254/", "*.test,h.test", HostDenied},
	} {
		p := Policy{}
		if c.allow != "" {
			p = policyOf(strings.Split(c.allow, ",")...)
		}
		_, err := Check(c.url, p)
		failIf(t, codeOf(err) != c.want, "%s by %q: %q, want %q", c.url, c.allow, codeOf(err), c.want)
	}
}

// covers ALF-31, ALF-32, ALF-33
func TestEntries(t *testing.T) {
	t.Parallel()
	good := []string{"h.test", "*.h.test", "H.TEST", "localhost", "h.test:1", "h.test:65535", "*.h.test:8443", "127.0.0.1", "127.0.0.1:80", "[::1]", "[2001:DB8::1]:443", "bücher.test", "a_b.test", "xn--bcher-kva.test"}
	bad := []string{
		"", "*", "*.", "*.test", "**.h.test", "*.*.h.test", "h.*.test", "*h.test", "h.test:", "h.test:0", "h.test:00", "h.test:65536", "h.test:x", "h..test", ".h.test", "h.test.", "-h.test", "h-.test", "h test", " h.test",
		"h.test;g.test", "https://h.test", "h.test/", "u@h.test", "*.127.0.0.1", "127.1", "0x7f.1", "1.2.3.4.5", "::1", "[::1", "*.[::1]", "[::ffff:1.2.3.4]", "[0::1]", "xn--a.test", "ｈ.test", "h。test", "bu\u0308cher.test", strings.Repeat("a", 64) + ".test", "h\x00.test", "\xff",
	}
	_, invalid := ParsePolicy(slices.Concat(good, bad))
	failIf(t, !slices.Equal(invalid, bad), "not entries:\n%q, want\n%q", invalid, bad)
	for _, s := range good {
		expect(t, ParseEntry(s), nil, "%q", s)
	}
	for _, s := range bad {
		failIf(t, ParseEntry(s) == nil, "%q is an entry", s)
		_, err := Check("https://h.test/", policyOf(s))
		failIf(t, err == nil, "%q allows something", s)
	}
	for value, want := range map[string][]string{"": {}, ",,,": {}, " a.test , *.b.test ": {"a.test", "*.b.test"}, "a.test": {"a.test"}, "a b,,c": {"a b", "c"}} {
		got := SplitHosts(value)
		failIf(t, !slices.Equal(got, want), "%q: %q, want %q", value, got, want)
	}
}

// covers ALF-28, ALF-29
func TestZeroPolicyAllowsNothing(t *testing.T) {
	t.Parallel()
	target, err := ParseTarget("https://h.test/")
	noError(t, err)
	for _, p := range []Policy{{}, policyOf(), policyOf("*"), Policy{}.Narrow(policyOf("h.test")), policyOf("h.test").Narrow(Policy{}), policyOf("h.test").Narrow(policyOf())} {
		failIf(t, codeOf(p.Check(target)) != DenyAll || !p.DeniesAll() || p.NamesPort(target), "%+v: %v", p, p.Check(target))
	}
}

func TestNarrowAllowsWhatBothAllow(t *testing.T) {
	t.Parallel()
	p := policyOf("a.test", "b.test", "*.c.test").Narrow(policyOf("b.test", "x.c.test", "d.test"))
	for host, want := range map[string]Code{"a.test": HostDenied, "b.test": "", "x.c.test": "", "y.c.test": HostDenied, "d.test": HostDenied} {
		_, err := Check("https://"+host+"/", p)
		failIf(t, codeOf(err) != want, "%s: %q, want %q", host, codeOf(err), want)
	}
}

// A list names a port or it does not, and what narrows a list does not open an address that the list has without its port.
func TestNamesPort(t *testing.T) {
	t.Parallel()
	bare, ported := policyOf("127.0.0.1", "127.0.0.2"), policyOf("127.0.0.1:80", "127.0.0.1:8080")
	for _, c := range []struct {
		p    Policy
		url  string
		want bool
	}{
		{bare, "http://127.0.0.1/", false}, {bare, "http://127.0.0.2/", false}, {ported, "http://127.0.0.1:8080/", true}, {ported, "http://127.0.0.1/", true},
		{ported.Narrow(ported), "http://127.0.0.1/", true}, {bare.Narrow(ported), "http://127.0.0.1/", false}, {ported.Narrow(bare), "http://127.0.0.1/", false},
	} {
		target, err := Check(c.url, c.p)
		noError(t, err)
		expect(t, c.p.NamesPort(target), c.want, "%s by %+v", c.url, c.p)
	}
}

// covers ALF-46
func TestCodesHaveTexts(t *testing.T) {
	t.Parallel()
	for code, text := range codeTexts {
		failIf(t, code.Error() != text || !strings.Contains(text, " ") || string(code) == "", "%q: %q", code, text)
	}
	expect(t, Code("unknown").Error(), "unknown", "a word that is no code has a text")
}
