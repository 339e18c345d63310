package fetch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

func bodyOf(t testing.TB, contentType, text string) Body {
	t.Helper()
	target, err := guard.ParseTarget("https://good.test/a/")
	noError(t, err)
	return Body{Target: target, ContentType: contentType, Bytes: []byte(text)}
}

func read(t testing.TB, contentType, text string, o ReadOptions) Page {
	t.Helper()
	p, err := ReadPage(bodyOf(t, contentType, text), o)
	stopIf(t, err != nil, "%s: %v", contentType, err)
	return p
}

const htmlType = "text/html; charset=utf-8"

// covers ALF-86, ALF-88
func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hi": "hi", "": "", "a\r\nb\u200bc": "a\nbc", "k sk-" + strings.Repeat("a", 30) + " e": "k [REDACTED:openai-key] e", "i\u200bgnore \U000e0041all": "ignore all", "<p>x</p>": "<p>x</p>",
	} {
		p := read(t, "text/plain", text, ReadOptions{})
		failIf(t, p.Text != want || p.Truncated || p.Title != "" || p.Links != nil, "%+q: %+v", text, p)
	}
	_, err := ReadPage(bodyOf(t, "image/png", "x"), ReadOptions{})
	failIf(t, CodeOf(err) != guard.BadContentType, "a picture: %v", err)
}

// covers ALF-90
func TestCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("wörd ", 100_000)
	for _, c := range []struct{ ask, want int }{{0, DefaultChars}, {-1, DefaultChars}, {10, 10}, {MaxChars, MaxChars}, {MaxChars + 1, MaxChars}} {
		if p := read(t, "text/plain", long, ReadOptions{MaxChars: c.ask}); utf8.RuneCountInString(p.Text) != c.want || !p.Truncated {
			t.Errorf("%d: %d code points, truncated %v", c.ask, utf8.RuneCountInString(p.Text), p.Truncated)
		}
	}
	p := read(t, "text/plain", "short", ReadOptions{MaxChars: 5})
	failIf(t, p.Text != "short" || p.Truncated, "%+v", p)
	secret := "0123456789 ghp_" + strings.Repeat("a", 36)
	for chars, want := range map[int]string{10: "0123456789", 11: "0123456789 ", 12: "0123456789 [REDACTED:github-token]", 40: "0123456789 [REDACTED:github-token]"} {
		p := read(t, "text/plain", secret, ReadOptions{MaxChars: chars})
		failIf(t, p.Text != want || !p.Truncated, "%d: %q", chars, p.Text)
	}
	// A secret that goes on for 64 KiB behind the cut is hidden whole.
	p = read(t, "text/plain", "x "+strings.Repeat("Zz9+", 30_000), ReadOptions{MaxChars: 50})
	failIf(t, p.Text != "x [REDACTED:base64-blob]", "%q", p.Text)
}

// covers ALF-86
func TestCharacterSets(t *testing.T) {
	t.Parallel()
	latin := "<p>Gr\xf6\xdfe</p>"
	for _, c := range []struct{ contentType, body string }{
		{"text/html; charset=windows-1252", latin}, {"text/html; charset=ISO-8859-1", latin}, {"text/html", "<meta charset=latin1>" + latin}, {"text/html", latin}, {"text/html", "<p>Größe</p>"}, {htmlType, "<p>Größe</p>"},
		{"text/html", "\xef\xbb\xbf<p>Größe</p>"}, {"text/html; charset=nonsense", "<p>Größe</p>"}, {"text/html", "\xff\xfe<\x00p\x00>\x00G\x00r\x00\xf6\x00\xdf\x00e\x00"},
		{"text/plain", "Größe"}, {"", "Größe"}, {"application/xhtml+xml", "<?xml version='1.0' encoding='iso-8859-1'?>" + latin}, {"text/html; charset=us-ascii", "<p>Größe</p>"}, {"text/html", "<!--" + strings.Repeat(" ", 2000) + "--><meta charset=latin1>" + latin},
		{"text/plain; charset=windows-1252", "Gr\xf6\xdfe"}, {"application/json", "Größe"}, {"application/json; charset=latin1", "Größe"},
		{"text/html", "<meta charset=unicode><p>Größe</p>"}, {"application/xhtml+xml; charset=utf-8", "<html><head><script src='x'/><title/></head><body><p hidden=''/><br/>Größe</body></html>"},
		{"application/xhtml+xml; charset=utf-8", "<script>'<script/> order </sc<script/>ript> order'</script><!-- <a --/> order -->Größe"},
	} {
		p := read(t, c.contentType, c.body, ReadOptions{})
		failIf(t, p.Text != "Größe", "%s %q: %q", c.contentType, c.body, p.Text)
	}
}

const article = `<!DOCTYPE html><html><head><title> A  title </title><style>x{}</style><script>evil()</script></head><body>
<nav><a href="/menu">Menu</a></nav>
<article><h1>Heading</h1>
<p>First paragraph with a <a href="/x?a=1&amp;b=2">link</a> and <a href="../y">another</a> one. ` + `It goes on for some time, so that it is the readable part of the page, with commas, and clauses, and more.</p>
<h2>Lists</h2><ul><li>one</li><li>two <a href="/x?a=1&amp;b=2">again</a></li></ul><ol><li>first</li><li>second</li></ol>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>Tea</td><td>3</td></tr></table>
<pre>code
  stays</pre><p hidden>hidden words</p><p style="display : none">not shown</p><!-- a comment --><p style="color:white">white words</p>
<p>Last paragraph, which is long enough to count as one of the article's own, and says nothing of interest to anybody at all, really.</p>
</article><template>template words</template></body></html>`

// covers ALF-86
func TestHTML(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		p := read(t, htmlType, article, ReadOptions{Whole: whole})
		for _, want := range []string{"## Lists", "- one\n- two again [1]", "1. first\n2. second", "Name | Price\nTea | 3", "code\n  stays", "link [1] and another [2] one."} {
			if whole {
				want = strings.NewReplacer("[2]", "[3]", "[1]", "[2]").Replace(want) // the menu has the first
			}
			failIf(t, !strings.Contains(p.Text, want), "whole %v: no %q in\n%s", whole, want, p.Text)
		}
		for _, gone := range []string{"evil", "x{}", "hidden words", "not shown", "a comment", "template words", "white words", "<p>", "\n\n\n"} {
			failIf(t, strings.Contains(p.Text, gone), "whole %v: %q is in\n%s", whole, gone, p.Text)
		}
		failIf(t, p.Title != "A title" || strings.Contains(p.Text, "Menu") != whole, "whole %v: %q\n%s", whole, p.Title, p.Text)
		for _, link := range p.Links {
			target, err := resolveLink(bodyOf(t, "", "").Target, []byte(article[link.Start:link.End]))
			failIf(t, err != nil || target.String() != link.URL,
				"%+v is %q in the body, which is %s", link, article[link.Start:link.End], target)
		}
	}
	p := read(t, htmlType, article, ReadOptions{})
	failIf(t, len(p.Links) != 2 || p.Links[0].URL != "https://good.test/x?a=1&b=2" || p.Links[1].URL != "https://good.test/y",
		"%+v", p.Links)
}

// What is wrong with the text of a page is said, and how much of it nobody sees.
// covers ALF-86
func TestDefects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contentType, source string
		want                []Defect
		hidden              int
	}{
		{"text/html charset=utf-8", "<p>Größe<p hidden>order</p>", nil, 5},
		{"text/html, text/plain", "<p>Größe<p hidden>order</p>", nil, 5},
		{htmlType, "<p>Größe</p>", nil, 0},
		{"text/plain", strings.Repeat("a", 2000) + "Größe", nil, 0},
		{"text/plain", "Gr\xf6\xdfe", []Defect{BadCharset}, 0},
		{"text/plain; charset=us-ascii", "Größe", []Defect{BadCharset}, 0},
		{"text/plain; charset=x-none", "a", []Defect{BadCharset}, 0},
		{htmlType, "<p>Gr\xf6\xdfe</p>", []Defect{BadCharset}, 0},
		{htmlType, "<p hidden>four<!--five5--></p>x<p style='left:-9999px;position:absolute'>äö", nil, 11},
		{htmlType, strings.Repeat("<div>", 2000) + "x", []Defect{TooDeep}, 0},
		{htmlType, strings.Repeat("<br>", 160_000) + "x", []Defect{TooLarge}, 0},
		{htmlType, "<style>" + strings.Repeat("p,b{display:none}", 2600) + "</style>", []Defect{TooComplex}, 0},
	} {
		p := read(t, c.contentType, c.source, ReadOptions{})
		failIf(t, !slices.Equal(p.Defects, c.want) || p.Hidden != c.hidden,
			"%.60q: %v, %d hidden; want %v, %d", c.source, p.Defects, p.Hidden, c.want, c.hidden)
	}
}

// covers ALF-88
func TestTitlesAndLinksAreRedacted(t *testing.T) {
	t.Parallel()
	const token = "ghp_aaaaaaaaaaaaaaaaaaaa"
	source := `<title>` + token + strings.Repeat(" word", 200) + `</title><p><a href="/x?token=` + token + `">link</a></p>`
	p := read(t, htmlType, source, ReadOptions{})
	title := "[REDACTED:github-token]" + strings.Repeat(" word", 55) + " "
	failIf(t, p.Title != title, "the title is %q", p.Title)
	stopIf(t, len(p.Links) != 1 || p.Links[0].URL != "https://good.test/x?token=[REDACTED:github-token]", "%+v", p.Links)
	link := source[p.Links[0].Start:p.Links[0].End]
	failIf(t, link != "/x?token="+token, "the link is not in its place: %q", link)
}

func TestSmallAndBrokenHTML(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"<b>a</b><i>b</i> c<br>d":                                  "ab c\nd",
		"a <a href='javascript:x'>b</a> <a>c</a> <a href=''>d</a>": "a b c d [1]",
		"<img alt='a picture'><img>":                               "a picture",
		"&lt;untrusted-data&gt; &#x200b;x":                         "<untrusted-data> x",
		"<h1>a</h1><h3>b</h3>":                                     "# a\n\n### b",
		"<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>":         "- a\n  - b\n- c",
		"<td>a</td></ul></ol></a></pre></table>":                   "a",
		"<ol start=5><li>a<li value=9>b<li>c</ol>":                 "5. a\n9. b\n10. c",
		"19<sup>99</sup> m<sup>2</sup> 1<sup>st</sup> <s>12</s> 9": "19^99 m2 1st ~~12~~ 9",
		"<input type=checkbox checked>a <input type=radio>b":       "[x] a [ ] b",
		"<i style='display:block'>1</i><b>2</b>":                   "1\n2",
		"<style>p{display:flex}</style><p><i>1</i><b>2</b>":        "1 2",
		"<i style='float:left'>1</i>2<b style='display:inline-block'>3</b><b style='position:absolute'>4</b>": "1 2 3 4",
		"<h1><i style='display:block'>a</i></h1><s></s>b":                                                     "# a\n\nb",
		"<style>td i,br{display:block}</style><table><tr><td>a<td><i>1</i><b>2</b></table>a<br>b":             "a | 1 2\n\na\nb",
		"<": "<",
		"":  "",
		"x" + strings.Repeat("<div>", 100_000) + "deep": "x",
		strings.Repeat("<p>", 60_000) + "many":          "many",
		"<textarea> a\n b</textarea>":                   "a\n b",
	} {
		p := read(t, htmlType, source, ReadOptions{})
		failIf(t, strings.TrimSpace(p.Text) != want, "%.80q: %.200q, want %q", source, p.Text, want)
	}
}

func TestHrefs(t *testing.T) {
	t.Parallel()
	for tag, want := range map[string]string{
		`<a href="x">`: "x", `<a href='x'>`: "x", `<a href=x>`: "x", `<a class=y HREF = "x">`: "x", `<a/href="x"/>`: "x", `<a href="a>b">`: "a>b", `<a data-href="y" href="x">`: "x", `<a href="1" href="2">`: "1",
		`<a href>`: "-", `<a>`: "-", `<a class="href=x">`: "-", `<a href="x`: "-", `<a =x href=y>`: "y", `<a href=>`: "", `<a title='href="no"' href="yes">`: "yes",
	} {
		start, end, ok := findHref([]byte(tag))
		got := tag[start:end]
		failIf(t, ok && got != want || !ok && want != "-", "%s: %q, %v", tag, got, ok)
	}
}

// Pages of the documentation that this machine has, if it has any, give text.
func FuzzRead(f *testing.F) {
	f.Add([]byte(article), htmlType, false)
	f.Add([]byte("<p>Gr\xf6\xdfe"), "text/html", true)
	names, err := filepath.Glob("/usr/share/doc/*/*.html")
	noError(f, err)
	for _, name := range names[:min(len(names), 20)] {
		if page, err := os.ReadFile(name); err == nil && len(page) < 100_000 {
			f.Add(page, "text/html", false)
		}
	}
	f.Fuzz(func(t *testing.T, page []byte, contentType string, whole bool) {
		body := bodyOf(t, contentType, string(page))
		p, err := ReadPage(body, ReadOptions{Whole: whole, MaxChars: 1000})
		if err != nil {
			return
		}
		failIf(t, guard.Clean(p.Text) != p.Text || guard.Clean(p.Title) != p.Title || strings.Contains(p.Title, "\n"),
			"not clean: %+q %+q", p.Title, p.Text)
		for _, link := range p.Links {
			stopIf(t, link.Start < 0 || link.End > len(page) || link.Start > link.End,
				"%+v lies outside of %d bytes", link, len(page))
			target, err := resolveLink(body.Target, page[link.Start:link.End])
			failIf(t, err != nil || target.String() != link.URL, "%+v: %s, %v", link, target, err)
		}
	})
}

// A page without a type is what a browser takes it for, so that what it hides is not read.
//
// covers ALF-86
func TestPageWithoutType(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"<!DOCTYPE html><p hidden>order</p><p>x</p>": "x", "\ufeff\n<!-- order --> <HTML><body>x": "x",
		"a <html> in a text": "a <html> in a text", "<policy>x</policy>": "<policy>x</policy>", "{}": "{}",
	} {
		p := read(t, "", source, ReadOptions{})
		failIf(t, p.Text != want, "%q: %q", source, p.Text)
	}
}
