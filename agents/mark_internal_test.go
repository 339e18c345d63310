package agents

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func bearing(mark string) *nats.Msg { return &nats.Msg{Header: nats.Header{bcp.MarkHeader: {mark}}} }

// A mark is kept as it came, in the file too, where another process finds it. What is no
// mark replaces none, and a message that is large shows none.
//
// covers P11.7
func TestMarksAreKept(t *testing.T) {
	t.Parallel()
	creds := filepath.Join(t.TempDir(), "main.creds")
	k := markStore{log: hclog.NewNullLogger()}
	k.open(creds)
	got, there := k.shown(nil)[bcp.MarkHeader]
	failIf(t, !there || got[0] != "", "it shows %q, %t, and has none", got, there)
	longest := strings.Repeat("a", maxMark)
	k.keepFrom(bearing(longest))
	for _, none := range []string{"", longest + "a", "a b", "é", "a\nb"} {
		k.keepFrom(bearing(none))
	}
	k.keepFrom(&nats.Msg{})
	bcptest.Expect(t, k.shown(make([]byte, maxMarked)).Get(bcp.MarkHeader), longest, "it shows")
	if got := k.shown(make([]byte, maxMarked+1)); got != nil {
		t.Errorf("a message of more than %d bytes shows %v", maxMarked, got)
	}
	k.write()
	next := markStore{log: hclog.NewNullLogger()}
	next.open(creds)
	bcptest.Expect(t, next.shown(nil).Get(bcp.MarkHeader), longest, "the next process shows")
	noError(t, os.WriteFile(creds+markSuffix, []byte("no mark"), 0o600))
	damaged := markStore{log: hclog.NewNullLogger()}
	damaged.open(creds)
	bcptest.Expect(t, damaged.shown(nil).Get(bcp.MarkHeader), "", "of a damaged file it shows")
}

// A mark that no file can be written for lasts as long as the process.
//
// covers P11.7
func TestMarkWithoutAFile(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	k := markStore{log: hclog.New(&hclog.LoggerOptions{Output: &said, Level: hclog.Warn})}
	k.open(filepath.Join(t.TempDir(), "missing", "main.creds"))
	k.keepFrom(bearing("abc"))
	k.write()
	failIf(t, !strings.Contains(said.String(), "the mark is kept in memory alone"), "it says %q", said.String())
	bcptest.Expect(t, k.shown(nil).Get(bcp.MarkHeader), "abc", "it shows")
}
