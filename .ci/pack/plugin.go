package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
)

// pluginFolder is the plugin for Claude Code, and a marketplace of it alone.
const pluginFolder = "agents/claude-code"

// plugin returns the plugin for Claude Code below a folder, in the version of the release.
func plugin(below, version string) ([]file, error) {
	tree := os.DirFS(pluginFolder)
	var files []file
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if path.Base(name) == "plugin.json" {
			here := []byte(`"version": "0.1.0"`)
			if bytes.Count(content, here) != 1 {
				return fmt.Errorf("%s/%s has no version 0.1.0 to replace", pluginFolder, name)
			}
			content = bytes.Replace(content, here, fmt.Appendf(nil, `"version": %q`, version), 1)
		}
		files = append(files, file{path.Join(below, name), 0o644, content})
		return nil
	})
	return files, err
}
