package definition

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Errors of [AddShards].
var (
	// ErrFrontMatter says that a line cannot be added to an agent's front matter.
	ErrFrontMatter = errors.New("the front matter is not written line by line: add the shard by hand")
	// ErrPlace says that the edited files would say something else than before.
	ErrPlace = errors.New("adding the shards would change something else in the definitions")
)

// ParseUnplaced is [Parse] for a mesh whose agents have no shards yet, or not all of
// them: it refuses neither a channel between two shards nor a shard without agents. It
// returns also the shards that the agents' files name.
func ParseUnplaced(files map[string][]byte) (mesh *bcp.Mesh, named map[bcp.AgentName]int, report Report) {
	b := &builder{unplaced: true}
	mesh = b.parse(files)
	named = map[bcp.AgentName]int{}
	for _, a := range b.agents {
		if a.object.has("shard") {
			named[a.name()] = int(a.object.get("shard").number)
		}
	}
	return mesh, named, b.report
}

// AddShards returns the files of agents with a line more, which names the agent's
// shard, by path. Files that name one stay as they are, and so does every other line,
// comments too. All edited files together load, and what they say differs from before
// in nothing but the shards; or it is an error and nothing is returned. The error names
// the file.
func AddShards(files map[string][]byte, shards map[bcp.AgentName]int) (map[string][]byte, error) {
	before, named, report := ParseUnplaced(files)
	if before == nil {
		return nil, fmt.Errorf("the definitions have errors: %v", report.Errors[0])
	}
	want := *before
	want.Agents = slices.Clone(before.Agents)
	edited := map[string][]byte{}
	for i := range want.Agents {
		a := &want.Agents[i]
		shard, ok := shards[a.Name]
		if !ok {
			continue
		}
		a.Shard = shard
		if _, ok := named[a.Name]; ok {
			continue
		}
		content, err := addShard(files[a.File], shard)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.File, err)
		}
		edited[a.File] = content
	}
	changed := maps.Clone(files)
	maps.Copy(changed, edited)
	after, report := Parse(changed)
	if after == nil {
		return nil, fmt.Errorf("%w: %v", ErrPlace, report.Errors[0])
	}
	want.Files = after.Files
	want.OpenRuns, after.OpenRuns = nil, nil // functions are never equal; they are made of what is compared, and of files that did not change
	if !reflect.DeepEqual(&want, after) {
		return nil, ErrPlace
	}
	return edited, nil
}

// addShard adds the line after that of the name.
func addShard(content []byte, shard int) ([]byte, error) {
	front, _, ok := splitFrontMatter(content)
	if !ok {
		return nil, ErrFrontMatter
	}
	root := parseYAML(&source{}, unixLines(front), 1)
	if root == nil {
		return nil, ErrFrontMatter
	}
	i := slices.IndexFunc(root.entries, func(e entry) bool { return e.key == "name" })
	if i < 0 {
		return nil, ErrFrontMatter
	}
	name := root.entries[i]
	lines := strings.SplitAfter(string(content), "\n")
	line := lines[name.line-1]
	if name.value.line != name.line || name.value.further > 0 || !blockStart(line, name.column) {
		return nil, ErrFrontMatter
	}
	end := "\n"
	if strings.HasSuffix(line, "\r\n") {
		end = "\r\n"
	}
	added := fmt.Sprintf("%sshard: %d%s", strings.Repeat(" ", name.column-1), shard, end)
	return []byte(strings.Join(slices.Insert(lines, name.line, added), "")), nil
}
