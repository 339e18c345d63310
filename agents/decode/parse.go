package decode

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"
)

const (
	maxSource = 4 << 20         // bytes of HTML that are parsed
	maxTags   = 150_000         // of them: what begins with <. A node takes about 300 bytes
	maxOpen   = 400             // formatting elements that are counted as open; the library refuses 512 elements in each other
	parseTime = 5 * time.Second // a hundred times what the largest document takes
)

// Loss is what a document lost on its way.
type Loss struct {
	Cut     bool // what came after a limit was not read
	TooDeep bool // what was nested too deep, and what came after it, was left out
	Complex bool // style sheets were too costly to apply: text that they hide may be among the visible
}

// maxCopies bounds the elements that the parser makes without a tag: it copies each formatting element that is still
// open where its block ended into each block that follows, so that 80 KB become a gigabyte.
const maxCopies = 500_000

var (
	tag        = regexp.MustCompile(`<(/?)([a-zA-Z][^\s/>]*)`)
	separator  = regexp.MustCompile(`[\s/"']`) // one at least for each attribute, six of which take as much as an element
	formatting = wordSet("a b big code em font i nobr s small strike strong tt u")
	// barriers hold end tags back that are not their own, and rows those that are not of a table.
	barriers = wordSet("template select button applet object marquee table svg math foreignobject desc title mi mo mn ms mtext annotation-xml")
	rows     = wordSet("td th tr tbody thead tfoot caption table")
)

// format is a formatting element that is open.
type format struct {
	name, raw string
	weight    int // what a copy of it takes, in elements
	within    int // how many elements around it are open
}

// affordable returns how many bytes of a document may be parsed: as if each tag of another element made a copy of all
// formatting elements that are open. It takes for a beginning of an element what may be one, in a comment too, and for an
// end only what certainly is one, whatever is read as raw text.
func affordable(source string) int {
	ends := [2]map[int]bool{formattingEnds(source, true), formattingEnds(source, false)}
	var open []format
	var around []string          // elements that are open, if the tags are in order
	places := map[string][]int{} // of the elements of a name in around
	var bars, walls []int        // the places of barriers and rows, and of barriers alone
	spent, weight := 0, 0        // weight is that of all that are open
	for _, found := range tag.FindAllStringSubmatchIndex(source, -1) {
		at, name, begins := found[0], strings.ToLower(source[found[4]:found[5]]), found[2] == found[3]
		bar := lastOf(bars) // what is further out an end tag does not reach
		last := len(open) - 1
		for last >= 0 && open[last].name != name {
			last--
		}
		if last >= 0 && open[last].within <= bar {
			last = -1
		}
		switch {
		case !formatting[name]:
			if spent += weight; spent > maxCopies {
				return at
			}
			switch {
			case begins && !isVoid(name):
				if rows[name] || barriers[name] {
					bars = append(bars, len(around))
				}
				if barriers[name] {
					walls = append(walls, len(around))
				}
				places[name] = append(places[name], len(around))
				around = append(around, name)
			case !begins:
				at := lastOf(places[name])
				if at < 0 || at < bar && (!rows[name] || at < lastOf(walls)) {
					break
				}
				for _, ended := range around[at:] {
					places[ended] = places[ended][:len(places[ended])-1]
				}
				around = around[:at]
				for lastOf(bars) >= at {
					bars = bars[:len(bars)-1]
				}
				for lastOf(walls) >= at {
					walls = walls[:len(walls)-1]
				}
				for i := range open { // it goes on behind what it was in
					open[i].within = min(open[i].within, at)
				}
			}
		case begins:
			raw := source[at:]
			if end := strings.IndexByte(raw, '>'); end >= 0 {
				raw = raw[:end+1]
			}
			f := format{name: name, raw: raw, weight: 1 + len(separator.FindAllStringIndex(raw, -1))/6, within: len(around)}
			same := 0
			for _, o := range open {
				if o.raw == f.raw {
					same++
				}
			}
			if last >= 0 && (name == "a" || name == "nobr") { // it ends the one before, unless that was none
				f.weight = max(f.weight, open[last].weight)
				spent += 8 * weight
				weight -= open[last].weight
				open = slices.Delete(open, last, last+1)
			} else if same == 3 || len(open) == maxOpen { // the parser keeps three, and fails at more
				continue
			}
			open = append(open, f)
			weight += f.weight
		case last >= 0 && ends[0][at] && ends[1][at]:
			if open[last].within != len(around) {
				spent += 8 * weight // it is divided among the blocks in it
			}
			weight -= open[last].weight
			open = slices.Delete(open, last, last+1)
		}
	}
	return len(source)
}

// lastOf returns the last place, -1 if there is none.
func lastOf(places []int) int {
	if len(places) == 0 {
		return -1
	}
	return places[len(places)-1]
}

// formattingEnds returns where the end tags of formatting elements are.
func formattingEnds(source string, rawText bool) map[int]bool {
	ends := map[int]bool{}
	z := html.NewTokenizer(strings.NewReader(source))
	for at := 0; ; {
		kind := z.Next()
		raw := len(z.Raw())
		switch name, _ := z.TagName(); {
		case kind == html.ErrorToken:
			return ends
		case kind == html.EndTagToken && formatting[string(name)]:
			ends[at] = true
		case kind == html.StartTagToken && !rawText:
			z.NextIsNotRawText()
		}
		at += raw
	}
}

// parse returns the tree of a document within the bounds.
func parse(source string) (root *html.Node, loss Loss) {
	if len(source) > maxSource {
		source, loss.Cut = strings.ToValidUTF8(source[:maxSource], ""), true
	}
	at := 0
	for range maxTags {
		i := strings.IndexByte(source[at:], '<')
		if i < 0 {
			at = len(source)
			break
		}
		at += i + 1
	}
	if i := strings.IndexByte(source[at:], '<'); i >= 0 {
		source, loss.Cut = source[:at+i], true
	}
	if most := affordable(source); most < len(source) {
		source, loss.Cut = source[:most], true
	}
	r := &reader{source: source, until: time.Now().Add(parseTime)}
	root, err := html.Parse(r)
	if err != nil {
		loss.TooDeep = true
		r.source, r.at = source[:max(0, strings.LastIndexByte(source[:r.last], '<'))], 0 // which ends before what was too deep
		if root, err = html.Parse(r); err != nil {
			root = &html.Node{Type: html.DocumentNode}
		}
	}
	loss.Cut = loss.Cut || r.late
	return root, loss
}

// reader reads a source for a time. What comes later is cut.
type reader struct {
	source   string
	at, last int // where the next and the last read begin
	until    time.Time
	late     bool
}

func (r *reader) Read(p []byte) (n int, err error) {
	if r.late = r.late || time.Now().After(r.until); r.late || r.at == len(r.source) {
		return 0, io.EOF
	}
	r.last = r.at
	n = copy(p[:min(len(p), 1<<10)], r.source[r.at:])
	r.at += n
	return n, nil
}
