package guard

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// codeOf returns the code of an error; empty for nil.
func codeOf(err error) Code {
	var code Code
	if err != nil && !errors.As(err, &code) {
		return Code("no code: " + err.Error())
	}
	return code
}

// covers ALF-39, ALF-40, ALF-47
func TestParseTargetIsCanonical(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://api.corp.test":                   "https://api.corp.test/",
		"HTTPS://API.Corp.Test/A":                 "https://api.corp.test/A",
		"http://h.test:80/":                       "http://h.test/",
		"https://h.test:443":                      "https://h.test/",
		"https://h.test:80/":                      "https://h.test:80/",
		"https://h.test?q=1":                      "https://h.test/?q=1",
		"https://h.test#x":                        "https://h.test/",
		"https://h.test/a#secret":                 "https://h.test/a",
		"https://h.test?@evil.test/":              "https://h.test/?@evil.test/",
		"https://h.test/é?ü":                      "https://h.test/%C3%A9?%C3%BC",
		"https://h.test/%41%c3%bc":                "https://h.test/%41%c3%bc",
		"https://h.test/a/../b":                   "https://h.test/a/../b",
		"https://bücher.test/":                    "https://xn--bcher-kva.test/",
		"https://BÜCHER.test/":                    "https://xn--bcher-kva.test/",
		"https://faß.test/":                       "https://xn--fa-hia.test/",
		"https://XN--BCHER-KVA.test/":             "https://xn--bcher-kva.test/",
		"https://a_b.test/":                       "https://a_b.test/",
		"http://127.0.0.1:8080/":                  "http://127.0.0.1:8080/",
		"http://[2001:DB8::1]/":                   "http://[2001:db8::1]/",
		"http://[::1]:8080/x":                     "http://[::1]:8080/x",
		"http://h.test:65535/":                    "http://h.test:65535/",
		"http://" + strings.Repeat("a", 63) + "/": "http://" + strings.Repeat("a", 63) + "/",
	} {
		target, err := ParseTarget(text)
		failIf(t, err != nil || target.String() != want, "%s: %q, %v", text, target, err)
	}
}

// covers ALF-41, ALF-42, ALF-43, ALF-44, ALF-45, ALF-46, ALF-47
func TestParseTargetRefuses(t *testing.T) {
	t.Parallel()
	for code, texts := range map[Code][]string{
		BadScheme: {
			"file:///etc/passwd", "ftp://api.corp.test/", "data:text/html,x", "javascript:alert(1)", "javascript://api.corp.test/%0aalert(1)", "gopher://h.test/",
			"feed:https://h.test/", "tel:1", "blob:https://h.test/", "ws://h.test/", "http+unix://x/", "localhost:80", "mailto:a@b.test", "HTTPX://h.test/",
		},
		Malformed: {
			"", "x", "https", "https:", "https:/", "https://", "https:h.test", "https:/h.test", "https:////h.test/", "//h.test/", "/x", "?x", "#x", "https://?x", "https://:443/", "1https://h.test/",
			"not a url", " https://h.test/", "https://h.test/\n", "https://h.test /", "https://h.te\tst/", "https://\x7fh.test/", "https://h.test/\x00", "https://h.test/\xff",
			`https://h.test\@evil.test/`, `https:\\h.test/`, "https://h.test/<x>", `https://h.test/"`, "https://h.test/{x}", "https://h.test/a|b", "https://h.test/^", "https://h.test`/",
			"https://h.test%2eevil.test/", "https://h%74.test/", "https://h.test/%", "https://h.test/%2", "https://h.test/%zz", "https://h.test/#%",
			"https://h.test:/", "https://h.test:0/", "https://h.test:00443/", "https://h.test:65536/", "https://h.test:443:443/", "https://h.test:+443/", "https://h.test:４４３/", "https://h.test:4 43/",
			"https://h..test/", "https://.h.test/", "https://h.test./", "https://h.test../", "https://-h.test/", "https://h-.test/", "https://h.test,evil.test/", "https://*.h.test/", "https://(h).test/", "https://h~.test/",
			"https://" + strings.Repeat("a", 64) + ".test/", "https://" + strings.Repeat("a.", 127) + "/",
			"https://xn--a.test/", "https://xn--.test/", "https://xn--abc-.test/", "https://\u202eh.test/", "https://h.test／x/", "https://u＠h.test/", "https://h.test\u3000/", "https://h.test\u00a0/",
			"https://[::1/", "https://[]/", "https://[h.test]/", "https://[::1]h.test/", "https://[v1.x]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%1]/", "https://::1/", "https://[127.0.0.1]/",
		},
		UserInfo:     {"https://u@h.test/", "https://u:p@h.test/", "https://:@h.test/", "https://h.test:443@evil.test/", "https://h.test@evil.test@h.test/", "https://h.test@/"},
		NotCanonical: {"https://ｈ.test/", "https://h。test/", "https://h\u00ad.test/", "https://h\u200b.test/", "https://h.te\u017ft/", "https://\u212aelvin.test/", "https://bu\u0308cher.test/", "https://h.test\ufeff/", "http://１２７.0.0.1/", "http://[0:0:0:0:0:0:0:1]/", "http://[2001:db8:0::1]/"},
		AmbiguousAddress: {
			"http://0/", "http://127.1/", "http://2130706433/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.1/", "http://0x7f000001/", "http://127.0.0.0x1/", "http://1.2.3.4.5/", "http://1.2.3.256/",
			"http://h.123/", "http://h.0x/", "http://[::ffff:127.0.0.1]/", "http://[0:0:0:0:0:ffff:7f00:1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::1.2.3.4]/",
		},
	} {
		for _, text := range texts {
			target, err := ParseTarget(text)
			failIf(t, codeOf(err) != code || !target.IsZero() || target.String() != "",
				"%+q: %q, %q, want %s", text, codeOf(err), target, code)
			failIf(t, len(text) > len("https") && strings.Contains(err.Error(), text), "%+q: the error quotes it: %v", text, err)
		}
	}
}

func TestZeroTargetIsNone(t *testing.T) {
	t.Parallel()
	var zero Target
	failIf(t, !zero.IsZero() || zero.String() != "", "the zero value is a target")
	_, err := zero.Resolve("https://h.test/")
	failIf(t, codeOf(err) != Malformed, "the zero value resolves references")
	all, _ := ParsePolicy([]string{"h.test"})
	expect(t, codeOf(all.Check(zero)), Malformed, "a policy allows the zero value")
	price, n := ComposedPrice(zero)
	failIf(t, price != 0 || n != 0, "the zero value has a price")
}

// covers ALF-94
func TestResolve(t *testing.T) {
	t.Parallel()
	base, err := ParseTarget("https://h.test:8443/a/b?q=1")
	noError(t, err)
	for reference, want := range map[string]string{
		"":                           "https://h.test:8443/a/b?q=1",
		"#x":                         "https://h.test:8443/a/b?q=1",
		"?y=2":                       "https://h.test:8443/a/b?y=2",
		"c":                          "https://h.test:8443/a/c",
		"./c":                        "https://h.test:8443/a/c",
		"../c":                       "https://h.test:8443/c",
		"../../../c":                 "https://h.test:8443/c",
		"/c/./d/../e":                "https://h.test:8443/c/e",
		"..":                         "https://h.test:8443/",
		"c/":                         "https://h.test:8443/a/c/",
		"/x?u=../y":                  "https://h.test:8443/x?u=../y",
		"//other.test/x":             "https://other.test/x",
		"http://other.test":          "http://other.test/",
		"/é":                         "https://h.test:8443/%C3%A9",
		"https://evil.test#@h.test/": "https://evil.test/",
	} {
		got, err := base.Resolve(reference)
		failIf(t, err != nil || got.String() != want, "%q: %q, %v; want %s", reference, got, err, want)
	}
	for reference, want := range map[string]Code{
		"https:evil.test": Malformed, "javascript:x": BadScheme, `\\evil.test`: Malformed, "//u@h.test": UserInfo, "/a b": Malformed, "///x": Malformed, "a:b": BadScheme, "/%": Malformed, "//": Malformed,
	} {
		got, err := base.Resolve(reference)
		failIf(t, codeOf(err) != want, "%q: %q, %q; want %s", reference, got, codeOf(err), want)
	}
}

// checkTarget checks what holds for every URL that is accepted.
func checkTarget(t bcptest.TB, text string) {
	target, err := ParseTarget(text)
	if err != nil {
		failIf(t, !target.IsZero(), "%+q: a refused URL has a target", text)
		return
	}
	again, err := ParseTarget(target.String())
	failIf(t, err != nil || again != target, "%+q: %q does not read back: %v", text, target, err)
	for _, form := range []string{target.String(), text} {
		u, err := url.Parse(form)
		if err != nil {
			if form == text && !isASCII(text) {
				continue // a spelling that net/url does not know
			}
			t.Errorf("%+q: net/url: %v", form, err)
			continue
		}
		port := u.Port()
		if port == "" {
			port = strconv.Itoa(int(defaultPort(u.Scheme == "https")))
		}
		name := target.Name()
		if a, ok := target.Address(); ok {
			name = a.String()
		}
		if !strings.EqualFold(u.Scheme, target.Scheme()) || isASCII(u.Hostname()) && !strings.EqualFold(u.Hostname(), name) || port != strconv.Itoa(int(target.Port())) || u.User != nil {
			t.Errorf("%+q: net/url reads %s %s %s, and we %s %s %d", form, u.Scheme, u.Hostname(), port, target.Scheme(), name, target.Port())
		}
		failIf(t, form != text && u.RequestURI() != target.RequestURI() && !strings.HasPrefix(target.RequestURI(), "//"),
			"%+q: net/url asks for %q, and we for %q", form, u.RequestURI(), target.RequestURI())
	}
}

func TestTargetIsReadAlike(t *testing.T) {
	t.Parallel()
	pieces := []string{"http", "https", ":", "//", "/", "h.test", "127.0.0.1", "[::1]", "@", ":80", ":443", "8443", "?", "#", "%41", "%", "é", "ü", "xn--", "bcher-kva", ".", "-", "_", "..", "\\", "A", "0x7f", "。", "ſ", " ", "a=b", "&"}
	rapid.Check(t, func(t *rapid.T) {
		checkTarget(t, "https://"+strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, "pieces"), ""))
	})
}

// An accepted URL is read the same by net/url, and its canonical form reads back.
func FuzzTarget(f *testing.F) {
	for _, text := range []string{"https://h.test/a?b#c", "http://[::1]:8080/", "https://bücher.test:8443/é", "HTTP://127.0.0.1", "https://h.test//x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkTarget(t, text) })
}
