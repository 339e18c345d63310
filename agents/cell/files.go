package cell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// filesName is the name of all these tools in a definition.
const filesName = "files"

// The names of the tools.
const (
	listName   = "files_list"
	searchName = "files_search"
	readName   = "files_read"
)

type listArguments struct {
	Folder *int `json:"folder"`
	After  *int `json:"after"`
}

const listSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"folder":{"type":"integer","minimum":1,"description":"The number of a folder. Without it: the folders that there are."},` +
	`"after":{"type":"integer","minimum":1,"description":"The number of the last entry of the listing that is to go on."}}}`

type searchArguments struct {
	Text   string `json:"text"`
	Folder *int   `json:"folder"`
}

const searchSchema = `{"type":"object","additionalProperties":false,"required":["text"],"properties":{` +
	`"text":{"type":"string","minLength":1,"maxLength":100,"description":"A phrase, in any case. It is looked for in names and in lines."},` +
	`"folder":{"type":"integer","minimum":1,"description":"The number of a folder. Without it: all of them."}}}`

type readArguments struct {
	File int  `json:"file"`
	Part *int `json:"part"`
}

const readSchema = `{"type":"object","additionalProperties":false,"required":["file"],"properties":{` +
	`"file":{"type":"integer","minimum":1,"description":"The number of a file that was listed or found."},` +
	`"part":{"type":"integer","minimum":1,"description":"A long file has parts of 100,000 characters. 1 if it is left out."}}}`

// Tools returns the tools of one conversation, by which a model reads text files in folders that a definition names.
//
// A model names a file by its number in the list, never by a path. Names and contents are untrusted: a whole result is
// one text with source file, in which each name is quoted, on one line.
func (f folders) Tools() []llm.Executable {
	d := &desk{folders: f}
	for i := range f {
		d.numbers.Of(entry{i, ".", true})
	}
	return []llm.Executable{
		tool.New(listName, llm.Constant("List a folder of files. Each entry has a number, by which other tools know it."), listSchema, guard.File, &d.mu, d.list),
		tool.New(searchName, llm.Constant("Search files for a phrase."), searchSchema, guard.File, &d.mu, d.search),
		tool.New(readName, llm.Constant("Read a text file."), readSchema, guard.File, &d.mu, d.read),
	}
}

const (
	maxFile    = 1 << 20 // bytes of a file that is read
	maxEntries = 200_000 // names in one folder; beyond it, none is listed
	pageLength = 200     // entries of one listing

	maxDepth   = 32     // nesting of folders that one search enters
	maxVisits  = 20_000 // entries that one search visits
	maxMatches = 50     // files in the result of one search
	maxLines   = 3      // of one file in the result of one search
	maxShown   = 200    // code points of a matching line
	// searchTime is how long one search takes.
	searchTime = 20 * time.Second
)

// maxSearched is how many bytes one search reads.
const maxSearched int64 = 64 << 20

// folders are the folders of an agent. They are safe for concurrent use.
type folders []declared

// declared is a folder of a definition.
type declared struct {
	folderFS
	name string // the last part of its path
}

type folderFS interface {
	fs.StatFS
	io.Closer
}

// openFolders opens folders. The caller calls Close. The error names the folder, and is for the operator.
func openFolders(paths []string) (folders, error) {
	f := folders{}
	for _, p := range paths {
		opened, err := disk.OpenFolder(p)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("files: %w", err), f.Close())
		}
		f = append(f, declared{opened, filepath.Base(p)})
	}
	return f, nil
}

// Close closes the folders.
func (f folders) Close() error {
	var errs []error
	for _, d := range f {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// entry is a file or folder that a conversation can name.
type entry struct {
	folder int // of folders
	path   string
	isDir  bool
}

// desk is the state of one conversation. Its calls run one at a time.
type desk struct {
	folders

	mu      sync.Mutex
	numbers tool.Numbers[entry] // the declared folders come first
}

// entry returns the entry with a number.
func (d *desk) entry(number int, isDir bool) (entry, error) {
	e, err := d.numbers.Find(number)
	if err == nil && e.isDir != isDir {
		err = tool.UnknownNumber
	}
	return e, err
}

func (d *desk) quote(e entry) string {
	return tool.Quote(path.Join(d.folders[e.folder].name, e.path))
}

// row is the line of an entry.
func (d *desk) row(e entry, info fs.FileInfo) string {
	if e.isDir {
		return fmt.Sprintf("%d folder %s", d.numbers.Of(e), d.quote(e))
	}
	return fmt.Sprintf("%d file %s, %d bytes, %s", d.numbers.Of(e), d.quote(e), info.Size(), info.ModTime().UTC().Format(time.DateOnly))
}

// children returns the entries of a folder, sorted by name. Symbolic links, devices and the like are left out.
func (d *desk) children(ctx context.Context, in entry) ([]entry, error) {
	var children []entry
	for e, err := range disk.Entries(d.folders[in.folder], in.path, maxEntries) {
		switch {
		case ctx.Err() != nil:
			return nil, tool.TimedOut
		case err != nil:
			return nil, tool.ReadFailure(err)
		case e.IsDir() || e.Type().IsRegular():
			children = append(children, entry{in.folder, path.Join(in.path, e.Name()), e.IsDir()})
		}
	}
	slices.SortFunc(children, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	return children, nil
}

// list is files_list.
func (d *desk) list(ctx context.Context, a listArguments) (string, error) {
	if a.Folder == nil {
		if a.After != nil {
			return "", tool.BadArguments
		}
		var b strings.Builder
		for _, e := range d.numbers.Shown[:len(d.folders)] {
			b.WriteString(d.row(e, nil) + "\n")
		}
		return b.String(), nil
	}
	in, err := d.entry(*a.Folder, true)
	if err != nil {
		return "", err
	}
	children, err := d.children(ctx, in)
	if err != nil {
		return "", err
	}
	all := len(children)
	if a.After != nil {
		after, err := d.numbers.Find(*a.After)
		if err != nil || path.Dir(after.path) != in.path {
			return "", tool.UnknownNumber
		}
		i, found := slices.BinarySearchFunc(children, after.path, func(e entry, p string) int { return strings.Compare(e.path, p) })
		if found {
			i++
		}
		children = children[i:]
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Folder %d %s has %d entries.\n", *a.Folder, d.quote(in), all)
	last := 0
	for _, e := range children[:min(len(children), pageLength)] {
		info, err := d.folders[e.folder].Stat(e.path)
		if err != nil || info.IsDir() != e.isDir {
			continue // it went while we looked
		}
		b.WriteString(d.row(e, info) + "\n")
		last = d.numbers.Of(e)
	}
	if len(children) > pageLength && last > 0 {
		fmt.Fprintf(&b, "There are more after %d.\n", last)
	}
	return b.String(), nil
}

// read is files_read.
func (d *desk) read(ctx context.Context, a readArguments) (string, error) {
	e, err := d.entry(a.File, false)
	if err != nil {
		return "", err
	}
	text, err := d.text(ctx, e)
	if err != nil {
		return "", err
	}
	part := tool.Number(a.Part)
	shown, parts, err := text.Part(part)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("File %d %s, part %d of %d:\n\n%s", a.File, d.quote(e), part, parts, shown), nil
}

// text returns the contents of a file: UTF-8 without a zero byte.
func (d *desk) text(ctx context.Context, e entry) (tool.Text, error) {
	f, err := d.folders[e.folder].Open(e.path)
	if err != nil {
		return "", tool.ReadFailure(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.IsDir() {
		return "", tool.Gone
	}
	read, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case ctx.Err() != nil:
		return "", tool.TimedOut
	case err != nil:
		return "", tool.Unreadable
	case len(read) > maxFile:
		return "", tool.TooLarge
	}
	content := strings.TrimPrefix(string(read), "\ufeff")
	if !utf8.ValidString(content) || strings.IndexByte(content, 0) >= 0 {
		return "", tool.NotText
	}
	return tool.NewText(content), nil
}

// search is files_search.
func (d *desk) search(ctx context.Context, a searchArguments) (string, error) {
	phrase, err := tool.Phrase(a.Text, maxShown/2)
	if err != nil {
		return "", err
	}
	from := d.numbers.Shown[:len(d.folders)]
	if a.Folder != nil {
		in, err := d.entry(*a.Folder, true)
		if err != nil {
			return "", err
		}
		from = []entry{in}
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	s := search{desk: d, phrase: phrase}
	for queue := slices.Clone(from); len(queue) > 0 && !s.stopped; queue = queue[1:] {
		queue = append(queue, s.searchFolder(ctx, queue[0])...)
	}
	switch {
	case s.stopped:
		s.found.WriteString("The search stopped at a limit before it had seen everything.\n")
	case s.matches == 0:
		s.found.WriteString("Nothing was found.\n")
	}
	if s.skipped > 0 {
		s.found.WriteString(strconv.Itoa(s.skipped) + " files or folders could not be searched: too large, too deep, not text, or unreadable.\n")
	}
	return s.found.String(), nil
}

// search is one search.
type search struct {
	*desk
	phrase                   string
	found                    strings.Builder
	visits, matches, skipped int
	read                     int64
	stopped                  bool
}

// searchFolder searches the entries of a folder, and returns its folders.
func (s *search) searchFolder(ctx context.Context, in entry) (folders []entry) {
	children, err := s.children(ctx, in)
	if err != nil {
		s.skipped++
	}
	for _, e := range children {
		if s.visits++; s.visits > maxVisits || s.matches == maxMatches || s.read >= maxSearched || ctx.Err() != nil {
			s.stopped = true
			return nil
		}
		s.look(ctx, e)
		switch {
		case !e.isDir:
		case strings.Count(e.path, "/") >= maxDepth:
			s.skipped++
		default:
			folders = append(folders, e)
		}
	}
	return folders
}

// look shows an entry if its name or a line of it has the phrase. It searches both as the
// model reads them, so that a search does not reveal redacted text.
func (s *search) look(ctx context.Context, e entry) {
	matches := tool.Contains(string(tool.NewText(path.Base(e.path))), s.phrase)
	info, err := s.folders[e.folder].Stat(e.path)
	if err != nil || info.IsDir() != e.isDir {
		return // it went while we looked
	}
	var lines []string
	if !e.isDir {
		s.read += min(info.Size(), maxFile)
		text, err := s.text(ctx, e)
		if err != nil {
			s.skipped++
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			if number++; tool.Contains(line, s.phrase) {
				lines = append(lines, fmt.Sprintf("  line %d: %s", number, tool.Quote(strings.TrimRight(tool.Around(line, s.phrase, maxShown), "\n"))))
				if len(lines) == maxLines {
					break
				}
			}
		}
	}
	if !matches && len(lines) == 0 {
		return
	}
	s.matches++
	s.found.WriteString(s.row(e, info) + "\n")
	for _, line := range lines {
		s.found.WriteString(line + "\n")
	}
}
