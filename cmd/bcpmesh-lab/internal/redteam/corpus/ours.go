package corpus

import (
	_ "embed"
	"strings"
)

//go:embed injections.txt
var injections string

//go:embed benign.txt
var benign string

// Injections are 60 instructions of ours in 12 languages.
func Injections() Set { return ours("built in: injections", injections) }

// Benign returns 200 of our answers as honest Readers give them. Labels are formats.
func Benign() Set { return ours("built in: benign answers", benign) }

// ours reads lines; one in brackets labels those after it.
func ours(name, text string) Set {
	set := Set{Sources: []Source{{Name: name, Format: Lines, Licence: "Apache-2.0"}}, seen: map[string]bool{}}
	label := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			label = strings.Trim(line, "[]")
		default:
			set.seen[line] = true
			set.Texts = append(set.Texts, Text{Text: line, Label: label})
		}
	}
	set.Sources[0].Strings = len(set.Texts)
	return set
}
