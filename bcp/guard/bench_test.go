package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readAll returns the files that match, joined and repeated up to about 8 MB.
func readAll(b *testing.B, patterns ...string) string {
	b.Helper()
	var text strings.Builder
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			b.Fatalf("%s: no files (%v)", pattern, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				b.Fatal(err)
			}
			text.Write(data)
		}
	}
	return strings.Repeat(text.String(), 1+(8<<20)/text.Len())
}

func logText() string {
	var b strings.Builder
	for i := 0; b.Len() < 8<<20; i++ {
		fmt.Fprintf(&b, "2026-11-22T21:%02d:%02d.%06dZ INFO gateway: query accepted controller=main reader=web-%d id=q_%x bits=%d.%d rtt=%dms url=https://docs.example.com/a/%d?page=%d\n",
			i/60%60, i%60, i*7919%1000000, i%50, uint32(i*2654435761), i%97, i%10, i%300, i%1000, i%7)
	}
	return b.String()
}

func mailText() string {
	var b strings.Builder
	for i := 0; b.Len() < 8<<20; i++ {
		fmt.Fprintf(&b, "From: Ann <ann%d@corp.test>\nDate: Sun, 22 Nov 2026 21:16:18 +0100\nSubject: access for the new machine\n\n"+
			"Hello,\n\nthe password for the staging database is in the file that I sent you last week; please do not forward it.\n"+
			"For the API you need this key: ghp_%036d, and the one of the provider is sk-ant-api03-%040d.\n"+
			"The environment is\n\n    DB_PASSWORD=hunter%d\n    API_URL=https://bob:s3cr3t%d@db.corp.test/main\n\nRegards\nAnn\n\n", i, i, i, i, i)
	}
	return b.String()
}

var worstLines = []string{
	"KEY=", "A_", "-eyJ", "eyJaaaaaaaaa.", "Bearer ", "Bearer a1b2c3d4 ", "-----BEGIN A PRIVATE KEY-----", "-----END A PRIVATE KEY-----\n", "\u200b", ":", "://", "://a:b",
	"://a@", "password=", "password: ", "password: aB3$xY9! ", "token : ", "sk-", "sk-ant-", "AIza", "AIza-", "glpat-", "xoxb-", "Q~", "1Q~", ":AA", "1:AA", "12345678:AA", "-us1", "a-us1",
	".atlasv1.", "pat1", "patpat", "ab.c", "0123456789abcdef", "SU", "SUAA ", "SK0", "cio", "[REDACTED:", "[REDACTED:a]", "KEY='", "KEY=\"a ", "KEY=\"a KEY='b ", "A=\"-----BEGIN",
	"KEY=\"-----BEGIN", "Authorization: Bearer ", "authorization=basic ", "/", "-", "a/", "Ab/", "aZ0_", "AKIA", "AKIAAAAAAAAAAAAAAAAA ", "\\", "\"", "a\"", "=", "==", "A=", "API=x ", "secret\\\"",
	"A_KEY=x ", "\xff", "é", "key-", "-key: ", "hf_", "ghp_aaaaaaaaaaaaaaaaaaaa ", "ghp_aaaaaaaaaaaaaaaaaaaa", "zZ9+", "zZ9-", "password=1aB$", "secret=\"1aBc$", "token=a1/", "password=1.2.", "api_key=Abc1Def2", "a\n", "\n", "\u00ad", "a\u200b", "sk-\u200b",
}

func BenchmarkRedact(b *testing.B) {
	inputs := []struct{ name, text string }{
		{"prose", readAll(b, "../*.md", "../../docs/*.md", "../../*.md")},
		{"code", readAll(b, "../*.go", "../../mesh/*.go", "../../cmd/bcpmesh/*.go")},
		{"log", logText()},
		{"mail-with-secrets", mailText()},
	}
	for _, set := range []Set{All, Keys} {
		for _, in := range inputs {
			b.Run(set.String()+"/"+in.name, func(b *testing.B) {
				b.SetBytes(int64(len(in.text)))
				for b.Loop() {
					Find(in.text, set)
				}
			})
		}
	}
}

func BenchmarkRedactWorst(b *testing.B) {
	for _, piece := range worstLines {
		b.Run(fmt.Sprintf("%.20q", piece), func(b *testing.B) {
			text := strings.Repeat(piece, (1<<20)/len(piece))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Redact(text, All)
			}
		})
	}
}
