package decode

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// FuzzDocument asserts that no letter of a document is lost without a word: it is in the text that is seen, in what is hidden,
// in the title, or the document says that something was lost. What there is, the tree of the HTML library says.
// covers BCP-18, A-CRASH
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{
		"<p hidden>a<p>b", "<title>t</title><style>.x{display:none}</style><b class=x>c<p>d</b>e", "<table>f<tr><td hidden>g<td>h</table>", "<svg><title>i</title><style>j</style></svg>k", "<noscript><p>l</noscript><template><p>m</template>",
		"<select><option hidden>n<option>o</select><textarea>p</textarea>", "<!--q--><a href=x>r<a>s<font color=white>t", "<details>u<summary>v</summary></details><math><mi>w<annotation-xml>x", "<frameset>y<noframes>z", "<xmp><b>a</xmp><plaintext>b<p>c", "<p><b hidden>d<p>e<h2>f</b><h3>g",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		doc, err := html.Parse(strings.NewReader(source))
		if err != nil {
			return
		}
		there := map[rune]int{}
		titles := 0
		for n := range doc.Descendants() {
			switch {
			case n.Type == html.ElementNode && n.Data == "title" && n.Namespace == "":
				titles++
			case n.Type == html.CommentNode, n.Type == html.TextNode && !programs[n.Parent.Data]:
				text := n.Data
				if n.Type == html.TextNode && rawText[n.Parent.Data] {
					text = tags.ReplaceAllString(text, " ")
				}
				count(there, text)
			}
		}
		d := Parse(source, Options{})
		if d.Cut || d.TooDeep || titles > 1 {
			return
		}
		text := Write(d.Root, nil)
		found := map[rune]int{}
		count(found, text+d.Title+strings.Join(d.Hidden, ""))
		for letter, n := range there {
			if found[letter] < n {
				t.Fatalf("%q: %d of %d %q are lost: text %q, title %q, hidden %q", source, n-found[letter], n, letter, text, d.Title, d.Hidden)
			}
		}
	})
}

func count(counts map[rune]int, text string) {
	for _, r := range text {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			counts[r]++
		}
	}
}
