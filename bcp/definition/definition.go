package definition

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	meshFile    = "mesh.yaml"
	agentFolder = "agents"
	agentSuffix = ".md"
	// A file of the folder has the tools of one service.
	serviceFolder = "tools"
	serviceSuffix = ".yaml"
	// A file of the folder is a contract of roles.
	contractFolder = "contracts"
	contractSuffix = ".json"
	// misspelt is read by other tools, and would be missed without a word.
	misspelt = "mesh.yml"

	byteOrderMark = "\xef\xbb\xbf"
)

// Site is where a mesh runs, as [Site.Load] asks it. A function says in words for people why
// something cannot be had there, which is an error of the definitions; nil looks at nothing.
type Site struct {
	// Model is what every agent that the mesh runs uses, whatever its definition names; empty
	// changes nothing.
	Model string
	Find  func(command []string, sandbox bcp.Sandbox) error // the program of a command: CodeNoCommand
	Open  func(bcp.Model) error                             // the model of an agent: CodeNoModel
	Read  func(tool, path string) error                     // what a tool of an agent reads: CodeNoFile
	Key   func(place, of string) error                      // of a mailbox or an MCP server: CodeNoFile
}

// Load reads the folder and returns its mesh, or nil and all its errors. It
// reads mesh.yaml, agents/*.md, tools/*.yaml, contracts/*.json and *.md at the root, and nothing else;
// files whose names begin with a dot are left alone. What it found is decided by
// [Parse].
func Load(fsys fs.FS) (*bcp.Mesh, Report) { return Site{}.Load(fsys) }

// Load is [Load] where the mesh runs.
func (s Site) Load(fsys fs.FS) (*bcp.Mesh, Report) {
	b := builder{site: s}
	files, total := map[string][]byte{}, 0
	for _, name := range list(fsys, &source{path: ".", report: &b.report}) {
		content, err := readBounded(fsys, name, fileLimit(name)+1)
		if err != nil {
			(&source{path: name, report: &b.report}).errorf(position{}, CodeUnreadable, "", "the file cannot be read: %s", reason(err))
			continue
		}
		files[name] = content
		if total += len(content); len(files) > MaxFiles || total > MaxFolderBytes {
			break // which is refused
		}
	}
	// What cannot be read may be what the others refer to: their own errors are shown, and
	// nothing that depends on the whole.
	b.incomplete = !b.report.OK()
	mesh := b.parse(files)
	return mesh, b.report
}

// Parse decides on files that somebody else read: content by path inside the
// folder. It has no effects, keeps nothing of the maps, and returns a mesh only
// where the report has no error.
func Parse(files map[string][]byte) (*bcp.Mesh, Report) {
	b := builder{}
	return b.parse(files), b.report
}

// parse reads what it is given. There is no mesh where it is incomplete, and nothing is
// said about what is not there.
func (b *builder) parse(files map[string][]byte) *bcp.Mesh {
	whole := &source{path: ".", report: &b.report}
	if len(files) > MaxFiles {
		whole.errorf(position{}, CodeTooMany, "", "expected at most %d files, got %d", MaxFiles, len(files))
		return nil
	}
	names := slices.Sorted(maps.Keys(files))
	hasFolder := slices.ContainsFunc(names, func(name string) bool { return path.Dir(name) == agentFolder })
	total := 0
	for _, content := range files {
		total += len(content)
	}
	if total > MaxFolderBytes {
		whole.errorf(position{}, CodeTooLarge, "", "expected at most %d MiB in all files", MaxFolderBytes>>20)
		return nil
	}
	for _, name := range names {
		s := &source{path: name, report: &b.report}
		content, atRoot := files[name], path.Dir(name) == "."
		read := (*builder).readMesh
		of := slices.IndexFunc(folders, func(f folder) bool { return f.dir == path.Dir(name) && strings.HasSuffix(name, f.suffix) })
		switch {
		case name == meshFile:
		case of < 0:
			s.warnf(position{}, CodeIgnoredFile, "", "only %s, %s/*%s, %s/*%s and %s/*%s are read", meshFile, agentFolder, agentSuffix, serviceFolder, serviceSuffix, contractFolder, contractSuffix)
			continue
		case folders[of].suffix == agentSuffix && (atRoot || path.Base(name) == "README.md") && !looksLikeAgent.Match(content):
			continue
		case atRoot && hasFolder:
			s.warnf(position{}, CodeIgnoredFile, "", "not read, since there is a folder %s: move the file there", agentFolder)
			continue
		default:
			read = folders[of].read
		}
		if !checkContent(s, content) {
			b.incomplete = true
			continue
		}
		checkSecrets(s, content)
		read(b, s, content)
	}
	mesh := b.build(whole)
	b.report.sort()
	if !b.report.OK() || b.incomplete {
		return nil
	}
	return mesh
}

// Digest returns the SHA-256 over the files that the mesh was read from: over
// the lines that `sha256sum mesh.yaml agents/*.md tools/*.yaml contracts/*.json` prints, sorted by path.
func Digest(mesh *bcp.Mesh) [sha256.Size]byte {
	files := slices.SortedFunc(slices.Values(mesh.Files), func(a, b bcp.File) int { return cmp.Compare(a.Path, b.Path) })
	var lines []byte
	for _, f := range files {
		lines = fmt.Appendf(lines, "%x  %s\n", f.SHA256, f.Path)
	}
	return sha256.Sum256(lines)
}

// list returns the names of the files that count, sorted.
func list(fsys fs.FS, whole *source) []string {
	var names []string
	for _, of := range folders {
		entries, err := fs.ReadDir(fsys, of.dir)
		if err != nil && (of.dir == "." || !errors.Is(err, fs.ErrNotExist)) {
			whole.errorf(position{}, CodeUnreadable, "", "the folder %s cannot be read: %s", quote(of.dir), reason(err))
			continue
		}
		for _, e := range entries {
			switch name := path.Join(of.dir, e.Name()); {
			case e.IsDir() || strings.HasPrefix(e.Name(), "."):
			case strings.HasSuffix(name, of.suffix) || name == meshFile || name == misspelt:
				names = append(names, name)
			case slices.Contains(of.meant, strings.ToLower(path.Ext(name))):
				s := &source{path: name, report: whole.report}
				s.warnf(position{}, CodeIgnoredFile, "", "not read: files of this folder end with %s", of.suffix)
			}
		}
	}
	slices.Sort(names)
	return names
}

// folder is one with files of definitions, the suffix of these, the extensions, in lower case, of files that somebody
// probably meant for it, and what reads one.
type folder struct {
	dir, suffix string
	meant       []string
	read        func(*builder, *source, []byte)
}

var folders = []folder{
	{".", agentSuffix, nil, (*builder).readAgent},
	{agentFolder, agentSuffix, []string{".md", ".markdown", ".yaml", ".yml"}, (*builder).readAgent},
	{serviceFolder, serviceSuffix, []string{".yaml", ".yml"}, (*builder).readService}, // .json is bcpmesh wrap's
	{contractFolder, contractSuffix, []string{".json", ".yaml", ".yml"}, (*builder).readContract},
}

// readBounded reads at most limit bytes of a regular file: a pipe or a device
// would block the loader.
func readBounded(fsys fs.FS, name string, limit int) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	return content, errors.Join(err, f.Close())
}

var errNotRegular = errors.New("it is not a regular file")

// reason says in constant words why a file cannot be read.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, errNotRegular):
		return errNotRegular.Error()
	default:
		return "input or output failed"
	}
}

func fileLimit(name string) int {
	if name == meshFile {
		return MaxMeshBytes
	}
	return MaxFileBytes
}

// checkContent refuses what is wrong with a file as a whole.
func checkContent(s *source, content []byte) bool {
	switch limit := fileLimit(s.path); {
	case strings.ContainsFunc(s.path, isControl) || strings.Contains(s.path, "\n") || !utf8.ValidString(s.path):
		s.path = quote(s.path)
		s.errorf(position{}, CodeEncoding, "", "expected a file name without control characters")
	case len(content) > limit:
		s.errorf(position{}, CodeTooLarge, "", "expected at most %d KiB", limit>>10)
	case bytes.HasPrefix(content, []byte(byteOrderMark)) || bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")):
		s.errorf(position{1, 1}, CodeEncoding, "", "expected UTF-8 without a byte order mark")
	default:
		return checkUTF8(s, content)
	}
	return false
}

func checkUTF8(s *source, content []byte) bool {
	for at, r := range string(content) {
		if r == utf8.RuneError && !bytes.HasPrefix(content[at:], []byte("\ufffd")) {
			s.errorf(placeOf(content, at), CodeEncoding, "", "expected UTF-8")
			return false
		}
	}
	return true
}

// placeOf returns the position of a byte of a text.
func placeOf(text []byte, at int) position {
	before := text[:min(at, len(text))]
	return position{bytes.Count(before, []byte("\n")) + 1, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1}
}

// looksLikeAgent tells an agent from other Markdown. What is only in the
// way of its front matter, such as a byte order mark, is an error to report
// rather than a reason to leave an agent out.
var looksLikeAgent = regexp.MustCompile(`\A\x{FEFF}?[ \t\r\n]*---[ \t\r]*(\n|\z)`)

// isFence reports whether a line is "---", perhaps with white space after it.
func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r\n")) == "---" }

// splitFrontMatter returns the YAML between the two "---" lines and what
// comes after the second, byte for byte.
func splitFrontMatter(content []byte) (front, body []byte, ok bool) {
	first, rest, found := bytes.Cut(content, []byte("\n"))
	if !found || !isFence(first) {
		return nil, nil, false
	}
	read := 0
	for line := range bytes.Lines(rest) {
		if isFence(line) {
			return rest[:read], rest[read+len(line):], true
		}
		read += len(line)
	}
	return nil, nil, false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
