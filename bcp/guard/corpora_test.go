package guard

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What redaction takes in files that this machine has: parts of the Go library, and modules of some projects. Hardly any of
// them hold a secret of anybody's.
func BenchmarkFindingsInFiles(b *testing.B) {
	env, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		b.Fatal(err)
	}
	goroot, modules, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	for b.Loop() {
		count, files, size := map[string]int{}, 0, 0
		for _, root := range []string{
			goroot + "/src/net", goroot + "/src/crypto", goroot + "/src/encoding", goroot + "/src/cmd/go",
			modules + "/golang.org", modules + "/github.com/nats-io", modules + "/github.com/modelcontextprotocol",
		} {
			err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() || !slices.Contains([]string{"", ".go", ".md", ".json", ".txt", ".yaml", ".yml", ".html", ".py", ".js", ".ts"}, filepath.Ext(name)) {
					return nil // what cannot be read is not read
				}
				file, err := os.ReadFile(name)
				if err != nil || len(file) > 8<<20 || bytes.IndexByte(file[:min(len(file), 1000)], 0) >= 0 {
					return nil
				}
				files++
				size += len(file)
				for _, f := range Find(string(file), All) {
					count[f.Kind]++
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(count)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", kind, count[kind]))
		}
		b.Logf("%d files, %d MB: %s", files, size/1e6, strings.Join(kinds, ", "))
	}
}

// How many random keys of a length stay, because they look like names.
func BenchmarkMissedKeys(b *testing.B) {
	for b.Loop() {
		for _, size := range []int{30, 48} {
			camel, path, random, urls := missed(size, 1_000_000)
			b.Logf("of 1,000,000 keys of %d bytes: %d like an identifier, %d like a path; of %d in base64url %d not random", size, camel, path, urls, random)
		}
	}
}
