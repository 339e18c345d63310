package agents

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// What a tool did is known after a restart, for a day. A line that was being written when
// the process died was told to nobody, and is dropped.
//
// covers P11.1
func TestOutcomesAreKept(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "outcomes")
	o, err := OpenOutcomes(name)
	noError(t, err)
	done := outcome{ID: "c1", Result: []byte(`{"ok":true}`)}
	noError(t, errors.Join(o.remember("k1", done), o.remember("k2", outcome{Error: "no"}), o.Close()))
	failIf(t, o.remember("k3", done) == nil, "what is not on the disk is remembered")
	_, known := o.find("k3")
	failIf(t, known, "what is not on the disk is told")
	b, err := os.ReadFile(name)
	noError(t, err)
	old := strings.ReplaceAll(string(b[:strings.IndexByte(string(b), '\n')+1]), "k1", "old")
	old = strings.Replace(old, `"time":"`+time.Now().UTC().Format("2006"), `"time":"2001`, 1)
	noError(t, os.WriteFile(name, []byte(string(b)+old+`{"key":"half`), 0o600))
	if o, err = OpenOutcomes(name); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.Close() }()
	got, known := o.find("k1")
	failIf(t, !known || string(got.Result) != `{"ok":true}`, "got %+v, %t", got, known)
	got, known = o.find("k2")
	failIf(t, !known || got.Error != "no", "got %+v, %t", got, known)
	for _, key := range []string{"old", "half", ""} {
		_, known := o.find(key)
		failIf(t, known, "%q is known", key)
	}
	noError(t, os.WriteFile(name+"2", []byte("something else\n"), 0o600))
	_, err = OpenOutcomes(name + "2")
	failIf(t, err == nil, "another file is taken for one of outcomes")
	b, err = os.ReadFile(name + "2")
	failIf(t, err != nil || string(b) != "something else\n", "another file is written over: %s, %v", b, err)
}

// Without a file outcomes are known as long as the process lives.
//
// covers P11.1
func TestOutcomesInMemory(t *testing.T) {
	t.Parallel()
	var o Outcomes
	noError(t, errors.Join(o.remember("k1", outcome{Error: "no"}), o.Close()))
	got, known := o.find("k1")
	failIf(t, !known || got.Error != "no", "got %+v, %t", got, known)
}

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf
