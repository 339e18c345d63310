package meshdir

import (
	"path/filepath"
	"strings"
)

// Covers returns the first of some files and folders that is a file or has it below it, empty if none does.
func Covers(names []string, file string) string {
	file = resolved(file)
	for _, name := range names {
		below, err := filepath.Rel(resolved(name), file)
		if err == nil && below != ".." && !strings.HasPrefix(below, ".."+string(filepath.Separator)) {
			return name
		}
	}
	return ""
}

// resolved is a path without links, as far as it exists.
func resolved(name string) string {
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		return real
	}
	return name
}
