package definition_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/definition"
)

// An error has the form of `check --json`.
//
// covers P1.2
func TestErrorAsJSON(t *testing.T) {
	t.Parallel()
	_, report := definition.Parse(files("agents/a.md", "---\nname: a\nmodel: 7\n---\n"))
	asJSON, err := json.Marshal(report.Errors[0])
	failIf(t, err != nil || string(asJSON) != `{"file":"agents/a.md","line":3,"column":8,"code":"wrong_type","key":"model","message":"expected text of 1 to 256 characters, got a whole number; put it in quotes to make it text"}`,
		"%s, %v", asJSON, err)
}

// covers P1.2
func TestFrontMatter(t *testing.T) {
	t.Parallel()
	tests := []struct{ content, prompt, code string }{
		{"---\nname: a\n---\nhello\n", "hello\n", ""},
		{"---\nname: a\n---\n", "", ""},
		{"---\nname: a\n---", "", ""},
		{"---\r\nname: a\r\n---\r\nhello\r\n", "hello\r\n", ""},
		{"--- \nname: a\n---\t\n---\n\n", "---\n\n", ""},
		{"---\nname: a\n--- # end\n---\n", "", definition.CodeForbiddenYAML},
		{"---\nname: a\n", "", definition.CodeFrontMatter},
		{"---", "", definition.CodeFrontMatter},
		{"", "", definition.CodeFrontMatter},
		{"\n---\nname: a\n---\n", "", definition.CodeFrontMatter},
		{"name: a\n", "", definition.CodeFrontMatter},
		{"---\n---\n", "", definition.CodeMissingKey},
		{"\ufeff---\nname: a\n---\n", "", definition.CodeEncoding},
		{"\xff\xfe-\x00", "", definition.CodeEncoding},
		{"---\nname: a\n---\n\xff", "", definition.CodeEncoding},
	}
	for _, tt := range tests {
		mesh, report := definition.Parse(files("agents/a.md", tt.content))
		if tt.code == "" {
			failIf(t, mesh == nil || mesh.Agents[0].Prompt != tt.prompt, "%q: %v", tt.content, report.Errors)
		} else if mesh != nil || !cmp.Equal(codes(report.Errors), []string{tt.code}) {
			t.Errorf("%q: %v, want %s", tt.content, report.Errors, tt.code)
		}
	}
}

// covers P1.2
func TestEmptyFolders(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]fstest.MapFS{
		"empty":     {},
		"mesh only": {"mesh.yaml": {Data: []byte("name: x\n")}},
		"readme":    {"README.md": {Data: []byte("# x\n")}, "agents/README.md": {Data: []byte("# x\n")}},
	} {
		mesh, report := definition.Load(folder)
		failIf(t, mesh != nil || !cmp.Equal(codes(report.Errors), []string{definition.CodeNoAgents}) || report.Errors[0].File != ".",
			"%s: %v", name, report.Errors)
	}
}

// An agent at the root is never left out without a word, and neither is a
// mesh.yaml under another name.
//
// covers P1.2
func TestNothingIsLeftOutSilently(t *testing.T) {
	t.Parallel()
	agent := "---\nname: a\n---\n"
	for content, want := range map[string]string{
		"\ufeff" + agent: definition.CodeEncoding,
		"\n" + agent:     definition.CodeFrontMatter,
		" " + agent:      definition.CodeFrontMatter,
	} {
		mesh, report := definition.Parse(files("a.md", content, "b.md", strings.Replace(agent, ": a", ": b", 1)))
		failIf(t, mesh != nil || !cmp.Equal(codes(report.Errors), []string{want}),
			"%q: %v, want %s", content, report.Errors, want)
	}
	mesh, report := definition.Load(fstest.MapFS{"a.md": {Data: []byte(agent)}, "mesh.yml": {Data: []byte("name: office\n")}})
	failIf(t, mesh == nil || !cmp.Equal(codes(report.Warnings), []string{definition.CodeIgnoredFile}), "mesh.yml: %v", report)
	for _, name := range []string{"agents/router.MD", "tools/mail.yml", "contracts/mail.JSON"} {
		mesh, report := definition.Load(fstest.MapFS{"agents/a.md": {Data: []byte(agent)}, name: {}})
		failIf(t, mesh == nil || !cmp.Equal(codes(report.Warnings), []string{definition.CodeIgnoredFile}), "%s: %v", name, report)
	}
}

// unreadable fails to open one file, or to list one folder.
type unreadable struct {
	fstest.MapFS
	name string
}

var errUnreadable = &fs.PathError{Op: "open", Path: "/secret/path", Err: fs.ErrPermission}

func (u unreadable) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, errUnreadable
	}
	return u.MapFS.Open(name)
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.name {
		return nil, errUnreadable
	}
	return u.MapFS.ReadDir(name)
}

func (u unreadable) Stat(name string) (fs.FileInfo, error) { return u.MapFS.Stat(name) }

// A folder that cannot be read whole gives no mesh, and the errors of the rest
// are shown all the same; what may be in the unreadable part is not missed.
//
// covers P1.2, P1.5
func TestUnreadable(t *testing.T) {
	t.Parallel()
	folder := func() fstest.MapFS {
		return fstest.MapFS{
			"agents/c.md": {Data: []byte(controller("c", "r", "max_category: 1, budget_bits: 9, subscriptions: [{id: s, "+boolSub+"}]"))},
			"agents/r.md": {Data: []byte(reader("r", "", "c"))},
			"agents/x.md": {Data: []byte("---\nname: X\n---\n")},
		}
	}
	for _, name := range []string{"agents/r.md", "agents", "."} {
		mesh, report := definition.Load(unreadable{folder(), name})
		if mesh != nil || !slices.Contains(codes(report.Errors), definition.CodeUnreadable) || strings.Contains(fmt.Sprint(report), "secret") ||
			slices.Contains(codes(report.Errors), definition.CodeNoCounterpart) {
			t.Errorf("%s: %v", name, report.Errors)
		}
		failIf(t, name == "agents/r.md" && !slices.Contains(codes(report.Errors), definition.CodeBadValue),
			"the errors of the other files are not shown: %v", report.Errors)
	}
	pipe := folder()
	pipe["agents/p.md"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	mesh, report := definition.Load(pipe)
	failIf(t, mesh != nil || !slices.Contains(codes(report.Errors), definition.CodeUnreadable), "a pipe: %v", report.Errors)
}

// Each limit admits what it names and refuses one more.
//
// covers P1.2, P1.3
func TestLimits(t *testing.T) {
	t.Parallel()
	pad := func(text string, length int) string { return text + strings.Repeat("x", length-len(text)) }
	agent := "---\nname: a\n---\n"
	manyFiles := func(n int) map[string][]byte {
		m := map[string][]byte{"mesh.yaml": nil}
		for i := range n - 1 {
			m[fmt.Sprintf("agents/a%d.md", i)] = fmt.Appendf(nil, "---\nname: a%d\n---\n", i)
		}
		return m
	}
	folder := func(extra int) map[string][]byte {
		m := map[string][]byte{"agents/a.md": []byte(agent)}
		page := make([]byte, 1<<20) // all are the same one
		for left := definition.MaxFolderBytes + extra - len(agent); left > 0; left -= len(page) {
			m[fmt.Sprintf("agents/%d.txt", left)] = page[:min(left, len(page))]
		}
		return m
	}
	words := func(n int) string {
		var b strings.Builder
		b.WriteString("vocabularies: {x: [")
		for i := range n {
			fmt.Fprintf(&b, "w%x,", i)
		}
		return b.String() + "]}\n"
	}
	tests := []struct {
		name     string
		at, past map[string][]byte
		code     string
	}{
		{"agent file", files("agents/a.md", pad(agent, definition.MaxFileBytes)), files("agents/a.md", pad(agent, definition.MaxFileBytes+1)), definition.CodeTooLarge},
		{"mesh file", files("agents/a.md", agent, "mesh.yaml", pad("#", definition.MaxMeshBytes)), files("agents/a.md", agent, "mesh.yaml", pad("#", definition.MaxMeshBytes+1)), definition.CodeTooLarge},
		{"files", manyFiles(definition.MaxFiles), manyFiles(definition.MaxFiles + 1), definition.CodeTooMany},
		{"folder", folder(0), folder(1), definition.CodeTooLarge},
		{"words", files("agents/a.md", agent, "mesh.yaml", words(definition.MaxVocabularyWords)), files("agents/a.md", agent, "mesh.yaml", words(definition.MaxVocabularyWords+1)), definition.CodeTooMany},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.at != nil {
				mesh, report := definition.Parse(tt.at)
				failIf(t, mesh == nil, "at the limit: %.300v", report.Errors)
			}
			mesh, report := definition.Parse(tt.past)
			failIf(t, mesh != nil || !slices.Contains(codes(report.Errors), tt.code), "past the limit: %.300v", report.Errors)
		})
	}
}

// Of thousands of errors the first thousand are kept, and the report says so.
//
// covers P1.2
func TestManyErrors(t *testing.T) {
	t.Parallel()
	text := "approvers: [" + strings.Repeat("X, ", 1001) + "]\n"
	_, report := definition.Parse(files("mesh.yaml", strings.Replace(text, "approvers", "nope", 1)+"vocabularies: {x: ["+strings.Repeat("a b, ", 2000)+"]}", "a.md", "---\nname: a\n---\n"))
	failIf(t, len(report.Errors) != 1000 || !slices.Contains(codes(report.Errors), definition.CodeTooMany),
		"%d errors", len(report.Errors))
}

// The digest is the one that sha256sum gives for the list of files.
//
// covers P1.5
func TestDigest(t *testing.T) {
	t.Parallel()
	mesh, _ := mustParse(t, "mesh.yaml", "name: x\n", "agents/b.md", "---\nname: b\n---\n", "agents/a.md", "---\nname: a\n---\n")
	var lines string
	for _, f := range []struct{ path, content string }{{"agents/a.md", "---\nname: a\n---\n"}, {"agents/b.md", "---\nname: b\n---\n"}, {"mesh.yaml", "name: x\n"}} {
		sum := sha256.Sum256([]byte(f.content))
		lines += hex.EncodeToString(sum[:]) + "  " + f.path + "\n"
	}
	expect(t, definition.Digest(mesh), sha256.Sum256([]byte(lines)), "digest")
	shuffled := *mesh
	shuffled.Files = slices.Clone(mesh.Files)
	slices.Reverse(shuffled.Files)
	expect(t, definition.Digest(&shuffled), definition.Digest(mesh), "the digest depends on the order of the files")
	changed, _ := mustParse(t, "mesh.yaml", "name: x\n", "agents/b.md", "---\nname: b\n---\n!", "agents/a.md", "---\nname: a\n---\n")
	failIf(t, definition.Digest(changed) == definition.Digest(mesh), "a changed prompt has the same digest")
	expect(t, definition.Digest(&bcp.Mesh{}), sha256.Sum256(nil), "no files have another digest than nothing")
}

// A message never carries what could steer a terminal, however the file is
// written.
//
// covers P2.5
func TestMessagesAreInert(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"\"a\\x1b[31m\": 1\n", "name: \"\\u202eevil\"\n", "replicas: \"\\x1b]0;x\\a\"\n", "\"" + strings.Repeat("k", 5000) + "\": 1\n",
		"name: " + strings.Repeat("N", 5000) + "\n", "\x1b[31m: 1\n", "name: [\x1b[31m\n", "name: \"\x9b\"\n", "vocabularies: {\"\\e\": [a]}\n", "\"\\u202e\": 1\n", "\u202e: 1\n",
	} {
		_, report := definition.Parse(files("mesh.yaml", text, "a.md", "---\nname: a\n---\n"))
		failIf(t, len(report.Errors) == 0, "%.40q: no error", text)
		for _, p := range report.Errors {
			line := p.String()
			failIf(t, len(line) > 1000 || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\u202e' }),
				"%.40q: %q", text, line)
		}
	}
}
