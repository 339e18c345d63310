package process

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// passedOn are the variables of our environment that a process gets: where
// programs and its own files are, and how text is encoded. The list is closed,
// since secrets have all sorts of names; a prefix LC_ would let through
// whatever people send over SSH under such names.
var passedOn = []string{
	"PATH", "HOME", "USER", "TMPDIR", "TZ", "LANG",
	"LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES",
	"LC_MONETARY", "LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
}

// Scrub returns the part of our environment that a process may get (PROTOCOL P7.5).
func Scrub(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if key, _, ok := strings.Cut(entry, "="); ok && slices.Contains(passedOn, key) {
			kept = append(kept, entry)
		}
	}
	return kept
}

// LookUp finds the file of a command's first word in the PATH of its future
// environment. Relative folders in PATH are ignored: an agent may be able to
// write to the working directory.
func LookUp(word string, env []string) (string, error) {
	if strings.ContainsAny(word, "/"+string(filepath.Separator)) {
		return word, nil
	}
	var folders string
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			folders = value // the last one counts, as for the process
		}
	}
	for _, folder := range filepath.SplitList(folders) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(folder, word)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("look up %q in PATH: %w", word, exec.ErrNotFound)
}
