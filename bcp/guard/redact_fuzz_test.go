package guard

import (
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// worstLines are what rules begin and nearly match with, which costs most.
var worstLines = []string{
	"KEY=", "A_", "-eyJ", "eyJaaaaaaaaa.", "Bearer ", "Bearer a1b2c3d4 ", "-----BEGIN A PRIVATE KEY-----", "-----END A PRIVATE KEY-----\n", "\u200b", ":", "://", "://a:b",
	"://a@", "password=", "password: ", "password: aB3$xY9! ", "token : ", "sk-", "sk-ant-", "AIza", "AIza-", "glpat-", "xoxb-", "Q~", "1Q~", ":AA", "1:AA", "12345678:AA", "-us1", "a-us1",
	".atlasv1.", "pat1", "patpat", "ab.c", "0123456789abcdef", "SU", "SUAA ", "SK0", "cio", "[REDACTED:", "[REDACTED:a]", "KEY='", "KEY=\"a ", "KEY=\"a KEY='b ", "A=\"-----BEGIN",
	"KEY=\"-----BEGIN", "Authorization: Bearer ", "authorization=basic ", "/", "-", "a/", "Ab/", "aZ0_", "AKIA", "AKIAAAAAAAAAAAAAAAAA ", "\\", "\"", "a\"", "=", "==", "A=", "API=x ", "secret\\\"",
	"A_KEY=x ", "\xff", "é", "key-", "-key: ", "hf_", "ghp_aaaaaaaaaaaaaaaaaaaa ", "ghp_aaaaaaaaaaaaaaaaaaaa", "zZ9+", "zZ9-", "password=1aB$", "secret=\"1aBc$", "token=a1/", "password=1.2.", "api_key=Abc1Def2", "a\n", "\n", "\u00ad", "a\u200b", "sk-\u200b",
}

// pieces are what random texts are made of: what rules begin, go on and end with.
var pieces = append([]string{
	" ", " ", "\n", "\t", "=", ":", " = ", ": ", "\"", "'", "`", "\\", "\\\"", "\\n", "/", "-", "_", ".", "@", "[", "]", "(", ")", "{", "&", ",", ";", "\r\n", "a", "A", "0", "z9",
	"word", "the value is ", "KEY", "API_KEY", "password", "token", "secretKey", "x-api-key", "Authorization", "Bearer", "Basic", "bearer ", "hunter2", "x9K!mfa2", "abc123",
	"ghp_", "sk-", "sk-ant-", "AKIA", "AIza", "eyJ", "glpat-", "SG.", "SU", "SK", "xoxb-", "hf_", "npm_", "://", "http://u:p4ss@h", "Q~", ":AA", "-us1", ".atlasv1.", "pat",
	"aaaaaaaaaaaaaaaaaaaa", "0123456789abcdef", "Zz9+Zz9+Zz9+Zz9+", "ABCDEFGHIJKLMNOP", "a1B2c3D4e5F6g7H8i9", "dXNlcjpwYXNzd29yZDEy",
	"-----BEGIN", " PRIVATE KEY-----", " RSA", "-----END", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQ",
	"[REDACTED:", "[REDACTED:dotenv]", "[REDACTED:hex-blob]", "dotenv]", "\u200b", "\u00ad", "\ufeff", "\x1b", "\u00a0", "\u3000", "é", "世", "\xff", "\xe2\x80", "\U000e0041",
	"curl ", " -u ", " --user=", "user:p4ssw0rd", "login me ", "machine h ", "password ", "?sig=", "&X-Amz-Signature=", "\"auth\": \"", "_auth=", "：", "＝", "4*Max", "KEY=\"-----BEGIN", "DB_PASSWORD=", "TOKEN='", "password: ", "api_key=\"", "Authorization: Bearer ", "camelCaseWords", "/usr/lib/some/path", "ssh-ed25519-cert-v01@openssh.com",
}, worstLines...)

func randomText(rng *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pieces[rng.IntN(len(pieces))])
	}
	return b.String()
}

// checkRedaction checks what holds for every text: the oracle agrees, a second time changes nothing, and what is found lies
// in the text in order.
func checkRedaction(t *testing.T, text string) {
	t.Helper()
	for _, set := range []Set{All, Keys, Seed} {
		got := Redact(text, set)
		want := oracleRedact(text, set)
		stopIf(t, got != want, "%s\n in   %+q\n got  %+q\n want %+q", set, text, got, want)
		again := Redact(got, set)
		stopIf(t, again != got, "%s twice\n in    %+q\n once  %+q\n twice %+q", set, text, got, again)
		end := 0
		for _, f := range Find(text, set) {
			stopIf(t, f.Start < end || f.End <= f.Start || f.End > len(text) || !isKind(f.Kind),
				"%s: %+q: %+v after %d", set, text, f, end)
			end = f.End
		}
	}
}

// covers ALF-48, ALF-69
func TestRandomTexts(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		checkRedaction(t, randomText(rng, 1+rng.IntN(25)))
	}
}

// slowest is how long 64 KiB may take: a hundred times what the worst text takes, and far less than one that takes time
// quadratic in its length.
const slowest = 5 * time.Second

// Redaction is what the oracle says, applied twice it is the same, every split of a stream gives the bytes of the whole, and
// repeating a text makes nothing slow.
func FuzzRedact(f *testing.F) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		f.Add(randomText(rng, 1+rng.IntN(20)))
	}
	for _, line := range worstLines {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		checkRedaction(t, text)
		want := Redact(text, All)
		step := 1 + len(text)/16
		for i := 0; i <= len(text); i += step {
			var got strings.Builder
			s := NewStream(&got, All)
			for _, part := range []string{text[:i], text[i:]} {
				_, err := io.WriteString(s, part)
				noError(t, err)
			}
			if err := s.Close(); err != nil || got.String() != want {
				t.Fatalf("%+q divided at %d: %+q, want %+q (%v)", text, i, got.String(), want, err)
			}
		}
		if text != "" {
			start := time.Now()
			Redact(strings.Repeat(text, 1+(64<<10)/len(text)), All)
			took := time.Since(start)
			stopIf(t, took > slowest, "%+q: repeated it takes %s", text, took)
		}
	})
}

// However a text is divided, a stream writes what the whole gives.
func TestStreamIsWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		text := randomText(rng, 1+rng.IntN(200))
		set := Set(rng.IntN(3))
		want := Redact(text, set)
		var got strings.Builder
		s := NewStream(&got, set)
		var splits []int
		most := 1 + rng.IntN(300)
		for rest := text; rest != ""; {
			n := min(len(rest), 1+rng.IntN(most))
			splits = append(splits, n)
			_, err := s.Write([]byte(rest[:n]))
			noError(t, err)
			rest = rest[n:]
		}
		noError(t, s.Close())
		stopIf(t, got.String() != want, "%d %v %v\n in   %q\n got  %q\n want %q", seed, set, splits, text, got.String(), want)
	}
}
