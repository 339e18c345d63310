package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// programs are what a copy of this program is, by its name. One that takenOver says is played
// already is none of them.
var (
	programs  = map[string]func(){"bcpmesh": main, "hostile": playHostile, "mailserver": playMail, "notes": playNotes}
	takenOver = func() bool { return false }
)

func TestMain(m *testing.M) {
	if !takenOver() {
		testscript.Main(tests{m}, programs)
	}
}

// tests are those of the package, where the process is none of its programs.
type tests struct{ *testing.M }

// Run runs them.
func (t tests) Run() int {
	bcptest.LeaveOut(
		"TestAccountsPush", "TestAnotherHistoryOnACluster", "TestAuditOfACluster", "TestBackupOfACluster", "TestCommandsOfDocumentsWork",
		"TestCommandsOfPeopleOnACluster", "TestCrash",
		"TestJournalsOfAClusterAreTheOperators", "TestKernelCrash", "TestKernelDocumentRuns", "TestKilledBetweenTurns", "TestMCPOverHTTP", "TestOwnCertificate",
		"TestRecordedActsAreAskedForOnce", "TestReplayOfErasedMessages", "TestTwoMeshesOnACluster", "TestUsageSurvivesKills",
	)
	bcptest.Parallel(6)
	return t.M.Run()
}

// What the fast forms of TestScripts leave out.
var (
	// slowScripts open keys under passphrases again and again, which the race detector
	// makes a matter of minutes.
	slowScripts = []string{"keys", "keysrotate", "keyssealed", "tls"}
	// nightlyScripts take half a minute of a core or more. The long form alone has them.
	nightlyScripts = []string{"keysrotate", "keyssealed"}
	// longScripts take more than a second or two. Only -short leaves them out.
	longScripts = []string{
		"accounts", "agents", "answer", "approvals", "approvalslayers", "approvalsterminal", "audit", "auditerase", "auditexport", "auditraw",
		"auditredecide", "backup", "command", "creds", "credsrevoke", "damage", "demo",
		"doctor", "ledger", "mcp", "metrics", "proposals", "publish", "query", "reader", "reload", "sandbox", "session", "status", "taint", "toolmcp", "traces", "up",
	}
)

// scripts are the files that TestScripts plays.
func scripts(t *testing.T) []string {
	t.Helper()
	files := must(filepath.Glob("testdata/script/*.txtar"))(t)
	for _, name := range slices.Concat(slowScripts, longScripts) {
		at := slices.Index(files, filepath.Join("testdata", "script", name+".txtar"))
		switch {
		case at < 0:
			t.Fatalf("there is no script %s", name)
		case bcptest.Fast() && slices.Contains(slowScripts, name), !bcptest.Long() && slices.Contains(nightlyScripts, name), testing.Short():
			files = slices.Delete(files, at, at+1)
		}
	}
	return files
}

// TestScripts runs the program as a person does. Each script tells one command.
func TestScripts(t *testing.T) {
	t.Parallel()
	playScripts(t, testscript.Params{
		Files:               scripts(t),
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Cmds:                scriptCommands,
		Setup: func(env *testscript.Env) error {
			// Under -race every process would sleep for a second at its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			examples, err := filepath.Abs("../../examples")
			env.Setenv("EXAMPLES", examples)
			env.Setenv("PYTHON", filepath.Join(filepath.Dir(examples), "agents", "python"))
			return err
		},
	})
}

// playScripts plays scripts until the test's deadline.
func playScripts(t *testing.T, p testscript.Params) { clitest.Play(t, p) }

var noError, failIf, stopIf = bcptest.NoError, bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }

// writeFiles writes files into a folder, with the folders above them.
func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		noError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// readFile returns what is in a file that has to be there.
func readFile(t testing.TB, name string) []byte {
	t.Helper()
	return must(os.ReadFile(name))(t)
}

// expect compares; what says what has the value.
func expect[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	bcptest.Expect(t, got, want, what, args...)
}
