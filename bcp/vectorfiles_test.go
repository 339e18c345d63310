package bcp_test

import (
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

const folder = "testdata/vectors"

// A file of vectors is written as it was read, so that -update changes nothing
// but expectations.
//
// covers P2.4
func TestFilesAreWrittenAsTheyWereRead(t *testing.T) {
	t.Parallel()
	groups := must(Load(os.DirFS(folder)))
	for _, g := range groups {
		b := must(os.ReadFile(folder + "/" + g.File))
		if string(g.Format()) != string(b) {
			t.Errorf("%s would be written differently", g.File)
		}
	}
}

// A file that says nothing, or not what it is about, is no vector.
//
// covers P2.2
func TestBadFilesAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no spec":           "-- a.json --\n{}\n-- a.want --\naccept\n",
		"unknown suffix":    "-- spec --\n{}\n-- a.yaml --\n{}\n-- a.want --\naccept\n",
		"no hexadecimal":    "-- spec --\n{}\n-- a.msgpack --\nxy\n-- a.want --\naccept\n",
		"want of no case":   "-- spec --\n{}\n-- a.want --\naccept\n",
		"want of other":     "-- spec --\n{}\n-- a.json --\n{}\n-- b.want --\naccept\n",
		"settings mistyped": "-- settings --\n{\"on_anomoly\":\"flag\"}\n-- spec --\n{\"category\":1,\"fields\":[{\"name\":\"b\",\"type\":\"boolean\"}]}\n",
	} {
		g, err := Parse(name, []byte(text))
		if err == nil {
			_, err = g.Compile()
		}
		if err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

// What the generators make is what they say: specs compile, broken ones do
// not, answers are spelled in more than one way.
//
// covers P1.3, P3.1, P3.2
func TestGenerators(t *testing.T) {
	t.Parallel()
	settings := bcp.Settings{Vocabularies: Vocabularies()}
	rapid.Check(t, func(t *rapid.T) {
		spec := Specs().Draw(t, "spec")
		if _, err := bcp.Compile(spec, settings); err != nil {
			t.Fatalf("%v", err)
		}
		if _, err := bcp.Compile(BrokenSpecs().Draw(t, "broken"), settings); err == nil {
			t.Fatal("a broken spec compiles")
		}
		answer := Answers(spec).Draw(t, "answer")
		message := Spellings(answer).Draw(t, "message")
		damaged := Mutations(message.Raw).Draw(t, "damaged")
		if len(message.Raw) == 0 || strings.Contains(string(message.Raw), Canary) || len(damaged) > 8*len(message.Raw)+8*64 {
			t.Fatalf("%q, damaged %q", message.Raw, damaged)
		}
	})
}
