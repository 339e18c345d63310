package guard

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"
)

// Random keys are not taken for names, and nearly all those whose base64url has a sign of its own are taken for random.
//
// covers ALF-67
func TestRandomKeysAreNoNames(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	source, key := rand.NewChaCha8([32]byte{1}), make([]byte, 48)
	camel, path, random, urls := 0, 0, 0, 0
	for range keys {
		_, _ = source.Read(key) // never fails
		text := base64.RawStdEncoding.EncodeToString(key)
		if isCamelCase(text) {
			camel++
		}
		if isPathOfWords(text) {
			path++
		}
		if text = base64.RawURLEncoding.EncodeToString(key); strings.ContainsAny(text, "-_") {
			urls++
			if !looksRandom(text) {
				random++
			}
		}
	}
	failIf(t, camel+path > 0 || random*500 > urls,
		"of %d keys %d look like an identifier, %d like a path; of %d in base64url %d do not look random", keys, camel, path, urls, random)
}

func TestEntropy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text   string
		tenths int64
		want   bool
	}{
		{"abcd", 20, true}, {"abcd", 21, false}, {"aabb", 10, true}, {"aabb", 11, false}, {"aaaa", 0, true}, {"aaaa", 1, false}, {"hunter2", 25, true}, {"s3cr3t", 25, false},
		{strings.Repeat("ab", 1000), 10, true}, {strings.Repeat("ab", 1000), 11, false}, {"", 0, true},
	} {
		expect(t, entropyAtLeast(c.text, c.tenths), c.want, "%.20q: %d tenths", c.text, c.tenths)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"testRSA2048PrivateKey": "test|RSA|2048|Private|Key", "HTTPServer": "HTTP|Server", "snake_case-1": "snake|_|case|-|1", "x9K": "x|9|K", "ABC": "ABC", "": "",
	} {
		var parts []string
		for rest := text; rest != ""; {
			var p part
			p, rest = nextPart(rest)
			parts = append(parts, p.text)
		}
		expect(t, strings.Join(parts, "|"), want, "%s", text)
	}
}
