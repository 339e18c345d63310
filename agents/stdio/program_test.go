package stdio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/process"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

func TestMain(m *testing.M) {
	bcptest.Parallel(8)
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 45 * time.Second

var urgent = bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "urgent", Type: bcp.TypeBoolean}}}

// program is a shell script that answers; its folder is $HERE, where a run leaves a line
// in the file runs.
func program(t *testing.T, script string) (p *stdio.Program, folder string, log *bcptest.Log) {
	t.Helper()
	folder, log = t.TempDir(), &bcptest.Log{}
	logger := hclog.New(&hclog.LoggerOptions{Output: log})
	p = &stdio.Program{
		Command: []string{"sh", "-c", "echo run >> $HERE/runs; " + script},
		Env:     []string{"PATH=" + os.Getenv("PATH"), "HERE=" + folder},
		Timeout: patience, Output: process.NewOutput(logger), Logger: logger,
	}
	p.PauseFor(time.Millisecond)
	return p, folder, log
}

func runs(t *testing.T, folder string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, "runs"))
	bcptest.NoError(t, err)
	return bytes.Count(b, []byte("\n"))
}

func query(spec bcp.Spec) agents.Query {
	return agents.Query{Query: bcp.Query{Type: bcp.TypeQuery, QueryID: "q1", Controller: "main", Spec: spec}}
}

// A program reads the query as the gateway wrote it, in one line and nothing behind it,
// and has the environment that it was given and no other.
//
// covers P7.5
func TestProgramReadsTheQuery(t *testing.T) {
	t.Parallel()
	p, folder, _ := program(t, `cat > $HERE/query; env > $HERE/env; echo '{"urgent": true}'`)
	q := query(urgent)
	q.Attempt, q.LastDetail = 2, "urgent: expected true or false"
	answer, err := p.Answer(t.Context(), q)
	bcptest.StopIf(t, err != nil || string(answer.(jsontext.Value)) != `{"urgent": true}`, "%s, %v", answer, err)
	const want = `{"type":"bcp_query","query_id":"q1","controller":"main","category":1,"fields":[{"name":"urgent","type":"boolean"}],` +
		`"attempt":2,"last_detail":"urgent: expected true or false"}` + "\n"
	if got, err := os.ReadFile(filepath.Join(folder, "query")); err != nil || string(got) != want {
		t.Errorf("it read %s (%v), want %s", got, err, want)
	}
	got, err := os.ReadFile(filepath.Join(folder, "env"))
	for line := range strings.Lines(string(got)) {
		switch name, _, _ := strings.Cut(line, "="); name {
		case "PATH", "HERE", "PWD", "OLDPWD", "SHLVL", "_": // the last are the shell's own
		default:
			t.Errorf("it has %q (%v)", line, err)
		}
	}
}

// A program that does not know says so in one exact way. A field of that name is asked
// about like any other.
//
// covers P3.9
func TestNotEnoughInformation(t *testing.T) {
	t.Parallel()
	field := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "not_enough_information", Type: bcp.TypeBoolean}}}
	for _, c := range []struct {
		printed string
		spec    bcp.Spec
		unknown bool
	}{
		{`{"not_enough_information": true}`, urgent, true},
		{" {\n\"not_enough_information\" :true}\r\n", urgent, true},
		{`{"not_enough_information": false}`, urgent, false},
		{`{"not_enough_information": true, "urgent": true}`, urgent, false},
		{`{"not_enough_information": true}`, field, false},
	} {
		answer, err := stdio.ParseAnswer([]byte(c.printed), c.spec)
		_, unknown := answer.(agents.NotEnoughInformation)
		failIf(t, err != nil || unknown != c.unknown, "%q: %v, %v", c.printed, answer, err)
	}
}

// A whole number is one however a model spells it; a fraction is none.
//
// covers P2.2
func TestWholeNumbersOfAnswers(t *testing.T) {
	t.Parallel()
	for printed, want := range map[string]string{`{"n": 12.0}`: `{"n": 12}`, "\ufeff{\"n\":1.2e1}": `{"n":12}`, `{"n":12.5}`: "", `{"n":1e99}`: "", `{"n":null}`: ""} {
		answer, err := stdio.ParseAnswer([]byte(printed), urgent)
		bcptest.FailIf(t, (err == nil) != (want != "") || err == nil && fmt.Sprint(answer) != want, "%q: %v, %v", printed, answer, err)
	}
}

// Each way to fail has a reason of ours, is tried again where that can help, and leaves
// no answer: a Reader that is broken never says that it does not know.
//
// covers P3.9
func TestProgramFails(t *testing.T) {
	t.Parallel()
	long := func(n int) string { // an answer of n bytes
		return fmt.Sprintf(`printf '{"a":"'; head -c %d /dev/zero | tr '\0' x; printf '"}'`, n-len(`{"a":""}`))
	}
	for name, c := range map[string]struct {
		script, reason string
	}{
		"exit code":   {`echo '{"urgent": true}'; exit 7`, "exit status 7"},
		"killed":      {`kill -9 $$`, "signal: killed"},
		"half":        {`printf '{"urgent": tr'; kill -9 $$`, "signal: killed"},
		"nothing":     {`true`, "it printed no answer"},
		"garbage":     {`echo attacker words`, "its answer is not one well-formed JSON object: "},
		"two":         {`echo '{"urgent": true}'; echo '{"urgent": false}'`, "its answer is not one well-formed JSON object: "},
		"twice a key": {`echo '{"urgent": true, "urgent": false}'`, "its answer is not one well-formed JSON object: "},
		"no object":   {`echo '[true]'`, "its answer is not a JSON object"},
		"too long":    {long(stdio.MaxAnswer + 1), "its answer is longer than 64 KiB"},
		"without end": {`while :; do echo flood; done`, "its answer is longer than 64 KiB"},
		"as may be":   {long(stdio.MaxAnswer), ""},
		"not there":   {"", "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, folder, log := program(t, c.script)
			tries := 3
			if c.script == "" {
				p.Command, tries = []string{"no-such-program"}, 1
			}
			answer, err := p.Answer(t.Context(), query(urgent))
			if c.reason == "" {
				bcptest.FailIf(t, err != nil || len(answer.(jsontext.Value)) != stdio.MaxAnswer, "%v", err)
				return
			}
			var failed *stdio.RunError
			bcptest.FailIf(t, !errors.As(err, &failed) || answer != nil || !strings.HasPrefix(failed.Reason, c.reason),
				"%v, %v", answer, err)
			if c.script != "" {
				bcptest.Expect(t, runs(t, folder), tries, "it ran")
			}
			if text := log.String(); strings.Count(text, "gave no answer") != tries || strings.Contains(text, "attacker") {
				t.Errorf("it was said: %s", text)
			}
		})
	}
}

// What went wrong is told to the next run, which may do better.
func TestProgramIsRunAgain(t *testing.T) {
	t.Parallel()
	p, folder, _ := program(t, `cat > $HERE/query; if grep -q '"attempt":1,"last_detail":"exit status 3"' $HERE/query; then echo '{"urgent": false}'; else exit 3; fi`)
	answer, err := p.Answer(t.Context(), query(urgent))
	bcptest.FailIf(t, err != nil || string(answer.(jsontext.Value)) != `{"urgent": false}` || runs(t, folder) != 2,
		"%v, %v", answer, err)
}

// A program that is late is killed with everything that it started, and is not run
// again; what it prints after that is nobody's answer.
func TestProgramIsLate(t *testing.T) {
	t.Parallel()
	p, folder, _ := program(t, `trap '' TERM INT; sleep 1000 > $HERE/held & cat; sleep 1000; echo '{"urgent": true}'`)
	p.Timeout = 500 * time.Millisecond
	held := filepath.Join(folder, "held")
	bcptest.NoError(t, syscall.Mkfifo(held, 0o600))
	gone := make(chan error, 1)
	go func() { // what it started holds the other end
		file, err := os.Open(held)
		if err == nil {
			defer file.Close()
			_, err = io.Copy(io.Discard, file)
		}
		gone <- err
	}()
	answer, err := p.Answer(t.Context(), query(urgent))
	var failed *stdio.RunError
	bcptest.FailIf(t, !errors.As(err, &failed) || answer != nil || failed.Reason != "no answer within 500ms", "%v, %v", answer, err)
	bcptest.Expect(t, runs(t, folder), 1, "it ran")
	select {
	case err := <-gone:
		bcptest.FailIf(t, err != nil, "%v", err)
	case <-time.After(patience):
		t.Error("what it started is there")
	}
}

// When the context ends, the program does, too.
func TestProgramEndsWithItsContext(t *testing.T) {
	t.Parallel()
	p, folder, _ := program(t, `mkfifo $HERE/f 2>/dev/null; cat $HERE/f`)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	go func() {
		defer cancel(over)
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			if _, err := os.Stat(filepath.Join(folder, "f")); err == nil {
				return
			}
		}
	}()
	answer, err := p.Answer(ctx, query(urgent))
	failIf(t, !errors.Is(err, over) || answer != nil, "%v, %v", answer, err)
}

// FuzzAnswer reads any bytes as what a program printed: it is one well-formed object, or
// an error in whose text nothing of them is.
//
// covers P2.2
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{``, `{}`, ` {"a":true} `, `{"not_enough_information":true}`, `[]`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}", `{} {}`, `null`} {
		f.Add([]byte(seed))
	}
	known := map[string]bool{}
	f.Fuzz(func(t *testing.T, printed []byte) {
		answer, err := stdio.ParseAnswer(printed, urgent)
		var failed *stdio.RunError
		switch value := answer.(type) {
		case jsontext.Value:
			bcptest.StopIf(t, err != nil || value.Kind() != '{' || wire.Check(value) != nil,
				"%q is the answer %q, %v", printed, value, err)
		case agents.NotEnoughInformation:
			bcptest.StopIf(t, !bytes.Contains(printed, []byte("not_enough_information")), "%q says that it does not know", printed)
		default:
			bcptest.StopIf(t, !errors.As(err, &failed), "%q: %v", printed, err)
			// Texts come from a short list, whatever was printed.
			if known[failed.Reason] = true; len(known) > 64 {
				t.Fatalf("%d reasons, among them %q", len(known), failed.Reason)
			}
		}
	})
}
