package facts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/agents/mailbox"
)

const shipped = "../mail"

// shippedRaw returns the bytes of the shipped messages in mailbox order.
func shippedRaw(t testing.TB) [][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(shipped, "[cn]*", "*.example"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	var raws [][]byte
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raws = append(raws, raw)
	}
	return raws
}

func shippedMail(t testing.TB) []*mailbox.Message {
	t.Helper()
	var messages []*mailbox.Message
	for _, raw := range shippedRaw(t) {
		messages = append(messages, mailbox.Parse(raw, mailbox.Limits{}))
	}
	return messages
}

// Facts of any mail are in range, and what is repeated of it is bounded text.
//
// covers BCP-18, A-CRASH
func FuzzExtract(f *testing.F) {
	for _, raw := range shippedRaw(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := mailbox.Parse(raw, mailbox.Limits{MaxMessageBytes: 1 << 16, MaxParts: 20, MaxDepth: 5, MaxTextBytes: 4096, MaxAttachmentText: 1024})
		f := Extract(m)
		if f.Confidence < 1 || f.Confidence > 5 || len(f.Actions) > maxActions || len(f.KeySentence) > maxSentenceBytes ||
			!utf8.ValidString(f.KeySentence) || !slices.Contains(Kinds(), f.Kind) {
			t.Errorf("facts out of range: %+v", f)
		}
		if in, ok := FindInjection(m); ok && (in.Cue == "" || in.Place == "" || len(in.Text) > maxInjectionBytes || !utf8.ValidString(in.Text)) {
			t.Errorf("injection out of range: %+v", in)
		}
	})
}
