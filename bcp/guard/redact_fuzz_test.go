package guard

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// pieces are what random texts are made of: what rules begin, go on and end with.
var pieces = append([]string{
	" ", " ", "\n", "\t", "=", ":", " = ", ": ", "\"", "'", "`", "\\", "\\\"", "\\n", "/", "-", "_", ".", "@", "[", "]", "(", ")", "{", "&", ",", ";", "\r\n", "a", "A", "0", "z9",
	"word", "the value is ", "KEY", "API_KEY", "password", "token", "secretKey", "x-api-key", "Authorization", "Bearer", "Basic", "bearer ", "hunter2", "x9K!mfa2", "abc123",
	"ghp_", "sk-", "sk-ant-", "AKIA", "AIza", "eyJ", "glpat-", "SG.", "SU", "SK", "xoxb-", "hf_", "npm_", "://", "http://u:p4ss@h", "Q~", ":AA", "-us1", ".atlasv1.", "pat",
	"aaaaaaaaaaaaaaaaaaaa", "0123456789abcdef", "Zz9+Zz9+Zz9+Zz9+", "ABCDEFGHIJKLMNOP", "a1B2c3D4e5F6g7H8i9", "dXNlcjpwYXNzd29yZDEy",
	"-----BEGIN", " PRIVATE KEY-----", " RSA", "-----END", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ",
	"[REDACTED:", "[REDACTED:dotenv]", "[REDACTED:hex-blob]", "dotenv]", "\u200b", "\u00ad", "\ufeff", "\x1b", "\u00a0", "\u3000", "é", "世", "\xff", "\xe2\x80", "\U000e0041",
	"KEY=\"-----BEGIN", "DB_PASSWORD=", "TOKEN='", "password: ", "api_key=\"", "Authorization: Bearer ", "camelCaseWords", "/usr/lib/some/path", "ssh-ed25519-cert-v01@openssh.com",
}, worstLines...)

func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

func TestRandomTexts(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		text := randomText(rng, 1+rng.IntN(25))
		for _, set := range []Set{All, Keys, Seed} {
			got := Redact(text, set)
			if want := oracleRedact(text, set); got != want {
				t.Fatalf("%d %v\n in   %q\n got  %q\n want %q", seed, set, text, got, want)
			}
			if again := Redact(got, set); again != got {
				t.Fatalf("%d %v twice\n in    %q\n once  %q\n twice %q", seed, set, text, got, again)
			}
		}
	}
}

// minLook is the smallest limits.quote: the line that begins a private key is in view whole.
const minLook = len(anchorBeginText) + maxPEMLabel + len(anchorEndText)

func TestStreamIsWhole(t *testing.T) {
	for seed := range uint64(10000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		text := randomText(rng, 1+rng.IntN(200))
		l := limits{quote: minLook + rng.IntN(30), block: 64 + rng.IntN(200)}
		l.line = l.quote + 30 + rng.IntN(200)
		l.chunk = l.line + 2*l.block + l.quote + 200 + rng.IntN(400)
		set := Set(rng.IntN(3))
		want := redactWithin(text, set, l)
		var got strings.Builder
		s := newStream(&got, set, l)
		var splits []int
		most := 1 + rng.IntN(300)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rng.IntN(most))
			splits = append(splits, n)
			if _, err := s.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Fatalf("%d %v %+v %v\n in   %q\n got  %q\n want %q", seed, set, l, splits, text, got.String(), want)
		}
	}
}
