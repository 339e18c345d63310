package markup_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/bcpmesh/bcpmesh/bcp/inert/inerttest"
	m "github.com/bcpmesh/bcpmesh/mesh/web/markup"
)

// page has text in every place that takes any.
func page(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	err := m.Render(&b, "t"+text, text, text,
		m.El(m.Main, []m.Attr{m.ID(text), m.Class(text), m.Role(text), m.Spoken(text)},
			m.El(m.H1, nil, m.Text("h"+text)),
			m.El(m.Ul, nil, m.El(m.Li, nil, m.El(m.Bdi, nil, m.Text("b"+text)), m.El(m.A, []m.Attr{m.Href(text), m.Href("/x" + text)}, m.Text("a"+text)))),
			m.El(m.Table, nil, m.El(m.Tbody, nil, m.El(m.Tr, nil, m.El(m.Td, nil, m.Text("c"+text))))),
			m.El(m.Form, []m.Attr{m.Action(text), m.Post()}, m.El(m.Input, []m.Attr{m.Name(text)}), m.El(m.Button, nil, m.Text("d"+text)))))
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// shape is the elements and attribute names of a parsed page, and its texts.
func shape(t *testing.T, rendered string) (string, []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(rendered))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	var texts []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			texts = append(texts, n.Data)
			return
		}
		b.WriteString("(" + n.Data)
		for _, a := range n.Attr {
			b.WriteString(" " + a.Key)
			if (a.Key == "href" || a.Key == "action" || a.Key == "src") && (!strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//") || strings.ContainsAny(a.Val, "\\\t\n\r")) {
				t.Fatalf("%s=%q leaves the site", a.Key, a.Val)
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
		b.WriteString(")")
	}
	walk(root)
	return b.String(), texts
}

func check(t *testing.T, text string) {
	t.Helper()
	want, _ := shape(t, page(t, "benign"))
	got, texts := shape(t, page(t, text))
	if got != want {
		t.Fatalf("with %q the page is\n%s\nnot\n%s", text, got, want)
	}
	shown := strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	for i, place := range []string{"t", "h", "b", "a", "c", "d"} {
		if i >= len(texts) || texts[i] != place+shown {
			t.Fatalf("%q is shown as %q", text, texts)
		}
	}
}

// Whatever text goes in, the rendered page parses to the same elements and attributes,
// to the same texts, and no link leaves the site.
//
// covers P2.5, A-FAKEUI
func TestTextStaysText(t *testing.T) {
	t.Parallel()
	for _, text := range append(slices.Collect(maps.Values(inerttest.Texts)), `"><img src=x onerror=alert(1)>`, `</title><script>alert(1)</script>`, `</bdi></li></ul><h1>Approved`, `//evil.example`,
		`/\evil.example`, "/\t/evil.example", `javascript:alert(1)`, `<!--`, `&lt;&#0;`, "\x00\r\n", "\xff", `<base href=//evil.example>`) {
		check(t, text)
	}
}

func FuzzTextStaysText(f *testing.F) {
	f.Add(`"><img src=x onerror=alert(1)>`)
	f.Fuzz(check)
}
