package main

import (
	"go/types"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The files of the two packages that decide stand in layers, which docs/architecture.md draws, the lowest last. A file may
// name what its own layer or a lower one declares: functions, types, fields, constants.

// upward are the arrows that run back up all the same, as "from to", each with its reason.
var upward = map[string]map[string]string{
	"bcp/state": {},
	"mesh/gateway": {
		"memory.go dispatch.go": "a run's calls need the connections of its Dispatcher, which is remembered",
		"outbox.go runs.go":     "what waits for a kernel is not sent: its run takes it",
	},
}

func TestFilesAreLayered(t *testing.T) {
	document := must(os.ReadFile("../../docs/architecture.md"))(t)
	for folder, excused := range upward {
		layers := map[string]int{}
		_, drawn, _ := strings.Cut(string(document), "| layers of `"+folder+"` |")
		drawn, _, _ = strings.Cut(drawn, "\n\n")
		for height, row := range strings.Split(drawn, "\n") {
			cells := strings.Split(row, "|")
			for _, file := range strings.Fields(cells[max(0, len(cells)-2)]) {
				layers[file+".go"] = -height
			}
		}
		used := map[string]bool{}
		for arrow, names := range arrows(t, folder) {
			from, to, _ := strings.Cut(arrow, " ")
			below, known := layers[from]
			above, knownToo := layers[to]
			switch {
			case !known || !knownToo:
				t.Errorf("%s: docs/architecture.md puts %s or %s into no layer", folder, from, to)
			case below < above && excused[arrow] == "":
				t.Errorf("%s: %s names what is above it in %s: %s", folder, from, to, strings.Join(names, " "))
			case below < above:
				used[arrow] = true
			}
		}
		for arrow := range excused {
			failIf(t, !used[arrow], "%s: %s is excused, and does not run up", folder, arrow)
		}
	}
}

// arrows returns what each file of a folder names of each other one, by "from to".
func arrows(t *testing.T, folder string) map[string][]string {
	loaded, err := packages.Load(&packages.Config{
		Dir:  "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo,
	}, "./"+folder)
	stopIf(t, err != nil || len(loaded) != 1 || len(loaded[0].Errors) > 0, "load %s: %v, %v", folder, loaded, err)
	found := map[string][]string{}
	p := loaded[0]
	for name, used := range p.TypesInfo.Uses {
		if v, ok := used.(*types.Var); used.Pkg() != p.Types || ok && !v.IsField() && v.Parent() != p.Types.Scope() {
			continue
		}
		from, to := path.Base(p.Fset.Position(name.Pos()).Filename), path.Base(p.Fset.Position(used.Pos()).Filename)
		if arrow := from + " " + to; from != to && !slices.Contains(found[arrow], used.Name()) {
			found[arrow] = append(found[arrow], used.Name())
		}
	}
	return found
}
