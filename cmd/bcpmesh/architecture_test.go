package main

import (
	"flag"
	"fmt"
	"html"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rooms are the parts of the house: a package is in the room with the longest name that
// its folder begins with. An empty name leaves a folder out.
var rooms = map[string]string{
	"bcp": "bcp", "subjects": "subjects", "accounts": "accounts", "jetstream": "jetstream", "agents": "agents",
	"mesh": "mesh", "mesh/gateway": "mesh/gateway", "mesh/server": "mesh/server",
	"cmd": "cmd/bcpmesh", "examples": "examples",
	"cmd/bcpmesh-lab": "", "cmd/bcpmesh-bridge": "", // modules of their own
}

func roomOf(folder string) (room string, known bool) {
	for at := folder; ; at = filepath.Dir(at) {
		if room, ok := rooms[at]; ok {
			return room, true
		}
		if at == "." {
			return "", false
		}
	}
}

// building is the import table with rooms in place of packages.
type building struct {
	packages map[string][]string // by room
	above    map[string]map[string]bool
	floor    map[string]int
}

func newHouse(rules []rule) (*building, error) {
	h := &building{packages: map[string][]string{}, above: map[string]map[string]bool{}, floor: map[string]int{}}
	for _, r := range rules {
		room, known := roomOf(r.folder)
		if !known {
			return nil, fmt.Errorf("%s is in no room", r.folder)
		}
		if r.testSupport || room == "" {
			continue
		}
		h.packages[room] = append(h.packages[room], r.folder)
		for _, imported := range r.internal {
			if to, _ := roomOf(imported); to != room {
				if h.above[room] == nil {
					h.above[room] = map[string]bool{}
				}
				h.above[room][to] = true
			}
		}
	}
	for range h.packages {
		for room := range h.packages {
			for to := range h.above[room] {
				h.floor[room] = max(h.floor[room], h.floor[to]+1)
			}
		}
	}
	for room := range h.packages {
		if h.floor[room] >= len(h.packages) {
			return nil, fmt.Errorf("%s is in a circle of imports", room)
		}
	}
	return h, nil
}

// nearest are the rooms that a room imports, without those that it reaches through
// another one too.
func (h *building) nearest(room string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(h.above[room])), func(to string) bool {
		for between := range h.above[room] {
			if h.reaches(between, to) {
				return true
			}
		}
		return false
	})
}

func (h *building) reaches(from, to string) bool {
	for next := range h.above[from] {
		if next == to || h.reaches(next, to) {
			return true
		}
	}
	return false
}

// picture draws the rooms, each above all that it imports.
func (h *building) picture() string {
	const (
		width, gap, line, head, column = 1160, 26, 15, 30, 145
	)
	floors := make([][]string, 0)
	for _, room := range slices.Sorted(maps.Keys(h.packages)) {
		for len(floors) <= h.floor[room] {
			floors = append(floors, nil)
		}
		floors[h.floor[room]] = append(floors[h.floor[room]], room)
	}
	type box struct{ x, y, w, h int }
	boxes := map[string]box{}
	y := 46
	for _, floor := range slices.Backward(floors) {
		w, most := (width-2*gap-(len(floor)-1)*gap)/len(floor), 2
		for _, room := range floor {
			most = max(most, len(h.packages[room]))
		}
		w = min(w, most*column)
		left := (width - len(floor)*w - (len(floor)-1)*gap) / 2
		columns := w / column
		tallest := 0
		for i, room := range floor {
			rows := (len(h.packages[room]) + columns - 1) / columns
			b := box{left + i*(w+gap), y, w, head + rows*line + 8}
			boxes[room], tallest = b, max(tallest, b.h)
		}
		y += tallest + 2*gap
	}
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-sans-serif,system-ui,sans-serif" font-size="12" role="img" aria-label="The rooms of bcpmesh: each stands above all that it imports">`+"\n", width, y)
	s.WriteString("<style>text{fill:#1f2933}.room{fill:#f5f7fa;stroke:#52606d}.name{font-weight:600;font-size:14px}.arrow{stroke:#52606d;stroke-width:1.2;fill:none;opacity:.45}.packages{fill:#52606d}@media(prefers-color-scheme:dark){text{fill:#e4e7eb}.room{fill:#1f2933;stroke:#9aa5b1}.arrow{stroke:#9aa5b1}.packages{fill:#9aa5b1}.page{fill:#12181f}}.page{fill:#fff}@media(prefers-color-scheme:dark){.page{fill:#12181f}}</style>\n")
	fmt.Fprintf(&s, `<rect class="page" width="%d" height="%d"/>`+"\n", width, y)
	fmt.Fprintf(&s, `<text x="%d" y="28">Each room stands above all that it imports. An arrow is an import; those that follow from others are left out.</text>`+"\n", gap)
	arrives := map[string]int{}
	for _, room := range slices.Sorted(maps.Keys(h.above)) {
		from := boxes[room]
		below := h.nearest(room)
		for i, to := range below {
			b := boxes[to]
			x1, y1 := from.x+from.w*(i+1)/(len(below)+1), from.y+from.h
			arrives[to]++
			x2, y2 := b.x+b.w/2+(arrives[to]-1)*gap, b.y
			fmt.Fprintf(&s, `<path class="arrow" d="M%d %dC%d %d %d %d %d %d"><title>%s imports %s</title></path>`+"\n",
				x1, y1, x1, y1+gap, x2, y2-gap, x2, y2, room, to)
		}
	}
	for _, room := range slices.Sorted(maps.Keys(h.packages)) {
		b := boxes[room]
		fmt.Fprintf(&s, `<rect class="room" x="%d" y="%d" width="%d" height="%d" rx="6"/><text class="name" x="%d" y="%d">%s</text>`+"\n",
			b.x, b.y, b.w, b.h, b.x+10, b.y+20, html.EscapeString(room))
		packages := slices.Sorted(slices.Values(h.packages[room]))
		columns := b.w / column
		rows := (len(packages) + columns - 1) / columns
		for i, name := range packages {
			short := strings.TrimPrefix(strings.TrimPrefix(name, room+"/"), "internal/")
			fmt.Fprintf(&s, `<text class="packages" x="%d" y="%d">%s</text>`+"\n",
				b.x+10+i/rows*(b.w-10)/columns, b.y+head+line*(i%rows)+12, html.EscapeString(short))
		}
	}
	s.WriteString("</svg>\n")
	return s.String()
}

// The picture of the rooms is made of the table that imports are checked by, so that it
// shows what there is; -update draws it.
func TestPictureOfTheRooms(t *testing.T) {
	t.Parallel()
	h := must(newHouse(rules))(t)
	const file = "../../docs/architecture.svg"
	want := h.picture()
	if flag.Lookup("update").Value.String() == "true" {
		noError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not of these rules (%v): go test ./cmd/bcpmesh -run PictureOfTheRooms -update", filepath.Base(file), err)
	}
}

// A circle of rooms cannot be drawn, and a package without a room has to get one.
func TestHouseWithoutCircles(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string][]rule{
		"circle":  {{folder: "mesh", internal: []string{"agents"}}, {folder: "agents", internal: []string{"mesh"}}},
		"no room": {{folder: "attic"}},
	} {
		_, err := newHouse(rules)
		failIf(t, err == nil, "%s: a house", name)
	}
}
