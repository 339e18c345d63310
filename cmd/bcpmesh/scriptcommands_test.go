package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bcpmesh/bcpmesh/cmd/internal/clitest"
	"github.com/bcpmesh/bcpmesh/mesh/meshtest"
)

// scriptCommands are what our scripts can do beyond testscript's own commands.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"exitcode": clitest.Exitcode,
	"waitfile": waitfileCommand,
	"jsonenv":  jsonenvCommand,
	"until":    untilCommand,
	"gather":   gatherCommand,
	"damage":   damageCommand,
	"fetch":    fetchCommand,
	"collect":  collectCommand,
	"site":     siteCommand,
	"witness":  witnessCommand,
}

// scriptTimeout is how long a script waits for anything.
const scriptTimeout = 45 * time.Second

// waitfileCommand is `waitfile FILE…`: each file comes into being.
func waitfileCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: waitfile FILE…")
	}
	deadline := time.Now().Add(scriptTimeout)
	for _, name := range args {
		for {
			if _, err := os.Stat(ts.MkAbs(name)); err == nil {
				break
			}
			if time.Now().After(deadline) {
				ts.Fatalf("%s did not come into being", name)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// damageCommand is `damage flip|cut|remove PATTERN`: of each file that matches, a
// bit in the middle is turned, the second half is cut off, or all of it.
func damageCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage flip|cut|remove PATTERN")
	}
	names, err := filepath.Glob(ts.MkAbs(args[1]))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("no file matches %s", args[1])
	}
	for _, name := range names {
		content, err := os.ReadFile(name)
		ts.Check(err)
		half := len(content) / 2
		switch args[0] {
		case "flip":
			content[half] ^= 1
			ts.Check(os.WriteFile(name, content, 0o600))
		case "cut":
			ts.Check(os.WriteFile(name, content[:half], 0o600))
		case "remove":
			ts.Check(os.Remove(name))
		default:
			ts.Fatalf("damage %s: no such damage", args[0])
		}
	}
}

// untilCommand is `until PATTERN COMMAND…`: the command is run again and again
// until a line of its stdout matches, whatever its exit code is. Between them it waits for
// three times as long as the command took, a second at most: processes that ask take most of a core else.
func untilCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND…")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(scriptTimeout); time.Now().Before(deadline); {
		begin := time.Now()
		if _ = ts.Exec(args[1], args[2:]...); pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		time.Sleep(min(3*time.Since(begin), time.Second))
	}
	ts.Fatalf("stdout did not come to match %q", args[0])
}

// gatherCommand is `gather COUNT COMMAND…`: the command is run again and again until its
// runs have so many lines of stdout together, which are stdout then. So nothing gets lost
// that is shown once, in whichever run it comes.
func gatherCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gather COUNT COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	var all strings.Builder
	for deadline := time.Now().Add(scriptTimeout); strings.Count(all.String(), "\n") < want; {
		if time.Now().After(deadline) {
			ts.Fatalf("less than %d lines came:\n%s", want, all.String())
		}
		ts.Check(ts.Exec(args[1], args[2:]...))
		all.WriteString(ts.ReadFile("stdout"))
	}
	_, err = io.WriteString(ts.Stdout(), all.String())
	ts.Check(err)
}

// jsonenvCommand is `jsonenv VAR FILE PATH`: the variable gets the value at a
// path such as 0.query_id in a JSON file, which may be stdout. Of a URL,
// VAR_HOST gets host and port.
func jsonenvCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jsonenv VAR FILE PATH")
	}
	var value any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &value))
	for key := range strings.SplitSeq(args[2], ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				ts.Fatalf("no element %s", key)
			}
			value = v[i]
		default:
			ts.Fatalf("nothing at %s", key)
		}
	}
	text, ok := value.(string)
	if number, isNumber := value.(float64); isNumber {
		text, ok = strconv.FormatFloat(number, 'f', -1, 64), true
	}
	if !ok {
		ts.Fatalf("%s is neither text nor number", args[2])
	}
	ts.Setenv(args[0], text)
	if _, host, found := strings.Cut(text, "://"); found {
		host, _, _ = strings.Cut(host, "/")
		ts.Setenv(args[0]+"_HOST", host)
	}
}

// fetchCommand is `fetch STATUS URL FILE`: the file gets what a GET returns
// with this status.
func fetchCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fetch STATUS URL FILE")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: scriptTimeout}
	response, err := client.Get(args[1])
	ts.Check(err)
	content, err := io.ReadAll(response.Body)
	ts.Check(errors.Join(err, response.Body.Close()))
	if got := strconv.Itoa(response.StatusCode); got != args[0] {
		ts.Fatalf("%s: status %s, not %s: %s", args[1], got, args[0], content)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), content, 0o600))
}

// siteCommand is `site VAR DIR`: a web server with the files of a folder is at the URL in the variable, until the script
// ends.
func siteCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: site VAR DIR")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(ts.MkAbs(args[1]))))
	ts.Setenv(args[0], server.URL)
	ts.Defer(server.Close)
}

// witnessCommand is `witness VAR NAME LOG FILE`: a witness of the log whose key is in the file LOG is at the URL in the
// variable, until the script ends; VARKEY and FILE get its key.
func witnessCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: witness VAR NAME LOG FILE")
	}
	w, err := meshtest.NewWitness(args[1], strings.TrimSpace(ts.ReadFile(args[2])))
	ts.Check(err)
	server := httptest.NewServer(w)
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
	ts.Setenv(args[0]+"KEY", w.Key)
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), []byte(w.Key+"\n"), 0o600))
}

// collectCommand is `collect VAR FILE`: a collector of traces is at the URL in the
// variable, until the script ends. What it gets is in the file, headers first.
func collectCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: collect VAR FILE")
	}
	file, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(file, "%s %s %s\n", r.Method, r.URL, r.Header.Get("X-Token"))
		_, _ = io.Copy(file, r.Body)
	}))
	ts.Setenv(args[0], collector.URL)
	ts.Defer(func() {
		collector.Close()
		_ = file.Close() // the script has read it
	})
}
