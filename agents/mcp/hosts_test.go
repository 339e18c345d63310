package mcp_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tailscale/hujson"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/agents/mcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

var server = mcp.HostEntry{Name: "bcpmesh", Command: "/opt/bcpmesh", Args: []string{"mcp", "--creds", `/home/a "b"/main.creds`}}

func hostCalled(t testing.TB, name string) mcp.Host {
	t.Helper()
	h, ok := mcp.FindHost(name)
	stopIf(t, !ok, "there is no host %s", name)
	return h
}

// What is added stands where a person would put it, and nothing else changes.
func TestAdd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ host, before, after string }{
		"no file":    {"cursor", "", "{\n  \"mcpServers\": {\n    \"bcpmesh\": {\n      \"command\": \"/opt/bcpmesh\",\n"},
		"empty":      {"cursor", " \n", " \n{\n  \"mcpServers\": {\n"},
		"no servers": {"gemini", "{\n    \"theme\": \"dark\" // mine\n}\n", "{\n    \"theme\": \"dark\",\n    \"mcpServers\": {\n        \"bcpmesh\": {\n            \"command\": "},
		"others":     {"claude-code", "{\"mcpServers\": {\n\t\"a\": {}\n}}", "{\"mcpServers\": {\n\t\"a\": {},\n\t\"bcpmesh\": {\n"},
		"trailing":   {"vscode", "{\n  \"servers\": {\n    \"a\": {}, // of a\n  },\n}", "{\n  \"servers\": {\n    \"a\": {},\n    \"bcpmesh\": {\n      \"type\": \"stdio\",\n"},
		"replaced":   {"cursor", "{\"mcpServers\": {\"bcpmesh\": {\"command\": \"old\"}, \"b\": 1}}", "{\"mcpServers\": {\"bcpmesh\": {\n"},
	} {
		got, err := hostCalled(t, c.host).Add([]byte(c.before), server)
		failIf(t, err != nil || !strings.HasPrefix(string(got), c.after) || strings.Contains(c.before, "// mine") && !strings.Contains(string(got), "// mine"),
			"%s: %v\n%s\nwant\n%s", name, err, got, c.after)
	}
}

// What is not understood is not touched.
func TestRefused(t *testing.T) {
	t.Parallel()
	cursor := hostCalled(t, "cursor")
	for _, content := range []string{
		`{"mcpServers": {`, `[]`, `{"mcpServers": []}`, `{"mcpServers": {}, "mcpServers": {"a": 1}}`, `{"mcpServers": {"bcpmesh": 1, "bcpmesh": 2}}`,
		`{"mcpServers": {"bcpmesh": 1, "\u0062cpmesh": 2}}`, "\xef\xbb\xbf{}", `{} {}`, strings.Repeat(" ", mcp.MaxHostFile+1),
	} {
		want := mcp.ErrHostSyntax
		if len(content) > mcp.MaxHostFile {
			want = mcp.ErrHostSize
		}
		got, err := cursor.Add([]byte(content), server)
		failIf(t, !errors.Is(err, want) || got != nil, "%.60s: %v", content, err)
		_, found, err := cursor.Remove([]byte(content), "bcpmesh")
		failIf(t, !errors.Is(err, want) || found, "%.60s: removed %t, %v", content, found, err)
	}
	_, err := cursor.Add(bytes.Repeat([]byte("\n"), mcp.MaxHostFile), server)
	failIf(t, err != nil, "a file of the largest size: %v", err)
}

// drawJSON makes an object as people write it: comments, commas behind the last, tabs.
func drawJSON(t *rapid.T, key string) string {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\n\t", "\r\n  ", " // why, \"so\"\n", " /* } , { */ ", "\n    "})
	var object func(depth int, names []string) string
	value := func(depth int) string {
		if depth > 0 && rapid.Bool().Draw(t, "deeper") {
			return object(depth-1, []string{"x", "y", "bcpmesh"})
		}
		return rapid.SampledFrom([]string{"1", `"}"`, `"a\"//b"`, "[1, [2], {}]", "null", "true"}).Draw(t, "value")
	}
	object = func(depth int, names []string) string {
		var b strings.Builder
		b.WriteString("{")
		n := rapid.IntRange(0, len(names)).Draw(t, "members")
		for i := range n {
			v := value(depth)
			if names[i] == key {
				v = object(depth, []string{"a", "b", "c"})
			}
			b.WriteString(space.Draw(t, "s") + `"` + names[i] + `"` + space.Draw(t, "s") + ":" + space.Draw(t, "s") + v + space.Draw(t, "s"))
			if i < n-1 || rapid.Bool().Draw(t, "comma") {
				b.WriteString(",")
			}
		}
		b.WriteString(space.Draw(t, "s") + "}")
		return b.String()
	}
	names := []string{"other", key, "more"}
	return space.Draw(t, "s") + object(2, names) + space.Draw(t, "s")
}

// checkAdded holds a change to its promises: what was there is there, in its order and
// without a gap but where something was put in; a host reads the server; once is as good
// as twice; and what is taken out leaves what was there, but for empty braces.
func checkAdded(t bcptest.TB, h mcp.Host, key string, before []byte) {
	after, err := h.Add(before, server)
	if err != nil {
		return
	}
	if again, err := h.Add(after, server); err != nil || !bytes.Equal(again, after) {
		t.Errorf("added twice to %q: %v\n%s", before, err, again)
	}
	plain, err := hujson.Standardize(bytes.Clone(after))
	if err != nil {
		t.Errorf("%q became %q: %v", before, after, err)
		return
	}
	var read, servers map[string]json.RawMessage
	var entry struct {
		Command string
		Args    []string
	}
	failIf(t, json.Unmarshal(plain, &read) != nil || json.Unmarshal(read[key], &servers) != nil || json.Unmarshal(servers["bcpmesh"], &entry) != nil || entry.Command != server.Command || !slices.Equal(entry.Args, server.Args),
		"%q became %q", before, after)
	if _, had, err := h.Remove(before, server.Name); had || err != nil {
		return // it was replaced
	}
	prefix := 0
	for prefix < len(before) && before[prefix] == after[prefix] {
		prefix++
	}
	failIf(t, !bytes.HasSuffix(after, before[prefix:]), "%q became %q", before, after)
	rest, found, err := h.Remove(after, server.Name)
	failIf(t, err != nil || !found, "%q: not taken out: %v", after, err)
	failIf(t, len(servers) > 1 && !bytes.Equal(rest, before), "%q is left as %q", before, rest)
	if _, found, err := h.Remove(rest, server.Name); found || err != nil {
		t.Errorf("%q: taken out twice: %t, %v", after, found, err)
	}
}

func TestAnyJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h, _ := mcp.FindHost("cursor")
		text := drawJSON(t, "mcpServers")
		checkAdded(t, h, "mcpServers", []byte(text))
		if _, err := h.Add([]byte(text), server); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// FuzzHostFile: of any file that is taken, what was there stays.
func FuzzHostFile(f *testing.F) {
	for _, seed := range []string{"", " ", "\v", "{}", `{"mcpServers":{}}`, `{"mcpServers":{"a":1,},}`, "{//\n}", `{"mcpServers":{"bcpmesh":{}}}`, `{"a":1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		h, _ := mcp.FindHost("cursor")
		checkAdded(t, h, "mcpServers", content)
	})
}

// Each host has a file of its own in each place.
func TestHosts(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	place := mcp.HostPlace{OS: "linux", Home: "/h", Config: "/h/.config", Project: "/p"}
	for _, h := range mcp.Hosts() {
		file := h.File(place)
		failIf(t, !filepath.IsAbs(file) || seen[file] || h.Title == "", "%+v: %s", h, file)
		seen[file] = true
	}
	file := hostCalled(t, "claude-desktop").File(mcp.HostPlace{OS: "darwin", Home: "/h", Config: "/c"})
	failIf(t, file != "/h/Library/Application Support/Claude/claude_desktop_config.json", "%v", file)
	_, ok := mcp.FindHost("nobody")
	failIf(t, ok, "there is a host called nobody")
}
