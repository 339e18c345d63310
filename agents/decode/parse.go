package decode

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	maxSource = 4 << 20         // bytes of HTML that are parsed
	maxTags   = 150_000         // of them: what begins with <. A node takes about 300 bytes
	maxDepth  = 400             // elements in each other; the library refuses 512
	parseTime = 5 * time.Second // a hundred times what the largest document takes
)

// Loss is what a document lost on its way.
type Loss struct {
	Cut     bool // what came after a limit was not read
	TooDeep bool // what was nested too deep was left out
	Complex bool // style sheets were too costly to apply: text that they hide may be among the visible
}

// The parser copies each formatting element that is still open into each block that follows, so
// that 80 KB become a gigabyte. It does not do so with elements that it does not know: formatting
// elements get other names before it sees them, and an element in front of each of their end tags,
// which tells the walk over the tree how far they reach.
var formatting = regexp.MustCompile(`(?i)<(/?)(a|b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)([ \t\n\f\r/>])`)

const (
	renamed = "bcp-f-" // before the name of a formatting element
	ending  = "bcp-e-" // before its name: its end tag was here
)

// rename gives formatting elements their other names, wherever the parser may see them, and puts
// the endings in front of their end tags.
func rename(source string) string {
	source = formatting.ReplaceAllStringFunc(source, func(tag string) string {
		parts := formatting.FindStringSubmatch(tag)
		return "<" + parts[1] + renamed + parts[2] + parts[3]
	})
	var out strings.Builder
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		kind := z.Next()
		raw := z.Raw()
		switch kind {
		case html.ErrorToken:
			out.Write(raw)
			return out.String()
		case html.EndTagToken:
			if rest, ok := bytes.CutPrefix(raw, []byte("</"+renamed)); ok {
				name := nameOf(rest)
				out.WriteString("<" + ending + name + "></" + ending + name + ">")
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			if rest, ok := bytes.CutPrefix(raw, []byte("<"+renamed)); ok {
				if name := nameOf(rest); name == "a" || name == "nobr" { // it ends the one before
					out.WriteString("<" + ending + name + "></" + ending + name + "></" + renamed + name + ">")
				}
			}
		}
		out.Write(raw)
	}
}

// nameOf returns the letters that a tag begins with, in lower case.
func nameOf(tag []byte) string {
	i := 0
	for i < len(tag) && tag[i]|0x20 >= 'a' && tag[i]|0x20 <= 'z' {
		i++
	}
	return strings.ToLower(string(tag[:i]))
}

var (
	endings = regexp.MustCompile(`(<` + ending + `[a-z]+></` + ending + `[a-z]+>)(</` + renamed + `[a-z]+>(<` + renamed + `))?`)
	begins  = regexp.MustCompile(`<(/?)` + renamed)
)

// restore gives text that is not markup its names back.
func restore(text string) string {
	if !strings.Contains(text, "bcp-") {
		return text
	}
	return begins.ReplaceAllString(endings.ReplaceAllString(text, "$3"), "<$1")
}

// parse returns the tree of a document within the bounds. Formatting elements have their names,
// and are in the set.
func parse(source string) (root *html.Node, formats map[*html.Node]bool, loss Loss) {
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
	source = rename(source)
	until := time.Now().Add(parseTime)
	root, cut, err := parseUntil(source, until)
	if err != nil {
		loss.TooDeep = true
		if root, cut, err = parseUntil(flatten(source), until); err != nil {
			root = &html.Node{Type: html.DocumentNode}
		}
	}
	loss.Cut = loss.Cut || cut
	formats = map[*html.Node]bool{}
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
			n.Data = restore(n.Data)
		case strings.HasPrefix(n.Data, renamed):
			n.Data = strings.TrimPrefix(n.Data, renamed)
			n.DataAtom = atom.Lookup([]byte(n.Data))
			formats[n] = true
		}
		for i := range n.Attr {
			n.Attr[i].Val = restore(n.Attr[i].Val)
		}
	}
	return root, formats, loss
}

// parseUntil parses for a time. What comes later is cut.
func parseUntil(source string, until time.Time) (root *html.Node, cut bool, err error) {
	r := &timedReader{r: strings.NewReader(source), until: until}
	root, err = html.Parse(r)
	return root, r.late, err
}

type timedReader struct {
	r     io.Reader
	until time.Time
	late  bool
}

func (t *timedReader) Read(p []byte) (int, error) {
	if t.late = t.late || time.Now().After(t.until); t.late {
		return 0, io.EOF
	}
	return t.r.Read(p)
}

// flatten takes out elements below the greatest depth: their text stays if nothing can hide it,
// as they have no attributes; otherwise it goes too.
func flatten(source string) string {
	type element struct {
		name       string
		kept, drop bool
	}
	var out strings.Builder
	var open []element
	count := map[string]int{}
	kept := 0
	dropping := func() bool { return len(open) > 0 && open[len(open)-1].drop }
	pop := func() {
		last := open[len(open)-1]
		open = open[:len(open)-1]
		count[last.name]--
		if last.kept {
			kept--
		}
	}
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return out.String()
		}
		raw := string(z.Raw())
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			nameBytes, attributes := z.TagName()
			name := string(nameBytes)
			if isVoid(name) {
				if dropping() {
					raw = ""
				}
				break
			}
			if len(open) > 0 && open[len(open)-1].name == name && slices.Contains(siblings, name) {
				pop() // its end tag was left out
			}
			e := element{name: name, kept: kept < maxDepth && !dropping(), drop: dropping()}
			if !e.kept {
				e.drop = e.drop || attributes
				raw = ""
			} else {
				kept++
			}
			open = append(open, e)
			count[name]++
		case html.EndTagToken:
			nameBytes, _ := z.TagName()
			name := string(nameBytes)
			if count[name] == 0 {
				break
			}
			for open[len(open)-1].name != name {
				pop()
			}
			if !open[len(open)-1].kept {
				raw = ""
			}
			pop()
		default:
			if dropping() {
				raw = ""
			}
		}
		out.WriteString(raw)
	}
}

// siblings are elements that cannot be in themselves without another one between.
var siblings = []string{"p", "li", "option", "tr", "td", "th", "dt", "dd", "optgroup", "tbody"}
