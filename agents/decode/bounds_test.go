package decode

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// What makes a parser take time or memory beyond its length: of each kind, the largest that is read.
// covers BCP-18, A-CRASH
func TestHostileDocuments(t *testing.T) {
	numbered := func(unit string, n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(unit, "#", strconv.Itoa(i)))
		}
		return b.String()
	}
	fill := func(unit string, size int) string { return strings.Repeat(unit, size/len(unit)) }
	for name, source := range map[string]string{
		"reconstructed formatting": numbered("<b id=#>", 500) + fill("<p>x", 80<<10),
		"the same in a title":      "<svg><title>" + numbered("<font id=#>", 500) + fill("<p>x", 80<<10),
		"behind a blinded look":    "<script>'<!--'</script><svg><title>" + numbered("<font id=#>", 390) + fill("<p>x", 80<<10),
		"ends in comments":         numbered("<b id=#><!--</b>-->", 390) + fill("<p>x", 80<<10),
		"ends in a select":         "<p>" + numbered("<b id=#>", 390) + "</p><select>" + fill("</b>", 390*4) + "</select>" + fill("<p>x", 80<<10),
		"ends in a template":       "<p>" + numbered("<b id=#>", 390) + "</p><x><template></x>" + fill("</b>", 390*4) + "</template>" + fill("<p>x", 80<<10),
		"ends in a cell":           "<p>" + numbered("<b id=#>", 390) + "</p><table><td>" + fill("</b>", 390*4) + "</table>" + fill("<p>x", 80<<10),
		"a link in a cell":         "<p><a " + fill("a=b ", 2000) + "></p><table><td><a></a></table>" + fill("<p>x", 400<<10),
		"ends that end others":     "<b>" + numbered("<i id=#>", 390) + "</b>" + fill("<div>x</div>", 200<<10),
		"a paragraph in a button":  "<p><button></p></button>" + numbered("<b id=#>", 390) + fill("<div>x</div>", 200<<10),
		"links in comments":        fill("<a "+fill("a=b ", 2000)+"><p><!--<a>--><p>x", 400<<10),
		"ends of what is no row":   "<table><tr>" + numbered("<b id=#></tbody><tr>", 390) + fill("<td>x", 80<<10),
		"with attributes":          numbered("<i "+fill("a#=b ", 2000)+">", 200) + fill("<p>x", 400<<10),
		"end tags of formatting":   numbered("<b id=#>", 400) + fill("<p></b>", 1<<20),
		"links in each other":      fill("<a href=#><p>", 1<<20),
		"one tag":                  "<p " + numbered("a#=b ", 500_000) + ">",
		"attributes everywhere":    fill("<p a b c d e f g h>", 4<<20),
		"depth":                    fill("<div>", 4<<20),
		"depth and ends":           fill("<div><p>", 1<<20) + fill("</x></div>", 1<<20),
		"depth with styles":        fill("<div style='color:red'>", 4<<20),
		"foster parents":           "<table>" + fill("<b>x<i>", 1<<20),
		"tables in each other":     fill("<table><tr><td>", 1<<20),
		"templates":                fill("<template>", 1<<20),
		"text in pieces":           fill("x</y>", 4<<20),
		"comments":                 fill("<!--a-->", 4<<20),
		"a comment":                "<!--" + fill("-", 4<<20),
		"less than":                fill("<", 8<<20),
		"ampersands":               fill("&amp", 8<<20),
		"selects":                  fill("<select><option>", 1<<20),
		"long sheet":               "<style>" + fill(".a .b .c .d .e{color:red}", 1<<20) + "</style>" + fill("<p class='a b c d e'>x", 1<<20),
		"deep sheet":               "<style>" + numbered("div div div div div div div div #x{color:red}", 1000) + "</style>" + fill("<div>", 1900) + fill("<b class=x>y</b>", 1<<20),
		"siblings":                 "<style>" + numbered("p:nth-child(2n+#) ~ b{color:red}", 300) + "</style>" + fill("<p>x<b>y</b></p>", 1<<20),
		"open braces":              "<style>" + fill("@media screen{", 1<<20),
		"braces":                   "<style>" + fill("{{}", 1<<20),
		"rules of nobody":          "<style>" + fill("{", 1<<20),
		"quotes":                   "<style>" + fill("a'(", 1<<20),
		"alternatives":             "<style>" + fill(":is(a,b,c)", 4<<10) + "{color:red}" + fill(":is(:is(a),b)", 4<<10) + "{color:red}",
		"a style":                  "<p style='" + fill("color:red;", 2<<20) + "'>x",
		"styles":                   fill("<p style='color:red;top:1px;background:var(--a)'>x", 4<<20),
		"variables":                "<style>:root{" + numbered("--a#:var(--a#)var(--a#)var(--a#);", 1000) + "}p{color:var(--a1)}</style>" + fill("<p>x", 100<<10),
		"transforms":               "<p style='transform:" + fill("a((", 1<<20) + "'>x",
		"colours":                  "<p style='background:" + fill("#fff ", 1<<20) + "'>x",
		"classes":                  "<style>.a{color:red}</style>" + fill("<p class='"+fill("a ", 4000)+"'>x", 2<<20),
		"zero bytes":               fill("\x00", 4<<20),
		"formats open":             fill("<font color=red><p>", 1<<20),
		"nobr":                     fill("<nobr>x", 1<<20),
		"hidden in each other":     fill("<p hidden><div hidden>", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			source := source[:bcptest.Rounds(len(source), len(source)/8)]
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d := Parse(source, Options{Mail: true})
			_ = Write(d.Root, nil)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			t.Logf("%d KiB took %v and %d MiB in use, %d MiB in all, %+v", len(source)>>10, took.Round(time.Millisecond), (after.HeapAlloc-before.HeapAlloc)>>20, (after.TotalAlloc-before.TotalAlloc)>>20, d.Loss)
			if took > time.Minute { // a busy machine takes seconds; what grows with the square takes hours
				t.Errorf("took %v", took)
			}
			used := after.HeapSys - before.HeapSys
			failIf(t, used > 300<<20 && after.HeapSys > before.HeapSys, "the heap grew by %d MiB", used>>20)
		})
	}
}

// Whatever repeats, the parser makes no more than it may, and what one tag copies.
// covers BCP-18, A-CRASH
func TestCopiesAreCounted(t *testing.T) { // alone: all that the process allocates counts
	pieces := []string{"<b>", "</b>", "<i a=#>", "</i>", "<a href=#>", "</a>", "<font b=#>", "</font>", "<p>", "</p>", "<div>", "</div>", "<h1>", "</h1>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</td>", "</tr>", "</tbody>", "</table>",
		"<svg>", "<title>", "</title>", "<script>", "</script>", "<!--", "-->", "<select>", "<button>", "</button>", "<template>", "</x>", "<br>", "</p>", "<section>", "</section>", "<nobr>", "x", "<applet>", "</applet>", "<x>", "</x>", "</body>", "<dd>", "<form>", "<math>", "<mi>"}
	barred := []string{"", "<template>", "<table><td>", "<select>", "<applet>", "<svg><desc>", "<svg><title>", "<button>", "<x><template>", "<p><button></p></button>", "<math><mi>"}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		write := func(times int, unit ...string) {
			for i := range times {
				b.WriteString(strings.ReplaceAll(strings.Join(unit, ""), "#", strconv.Itoa(i)))
			}
		}
		some := rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4)
		write(1, some.Draw(rt, "before")...)
		write(rapid.IntRange(0, 400).Draw(rt, "formats"), append(some.Draw(rt, "with"), rapid.SampledFrom([]string{"<p><b c=#>", "<i a=#>", "<li><font b=#>"}).Draw(rt, "format"))...)
		write(1, some.Draw(rt, "between")...)
		write(1, rapid.SampledFrom(barred).Draw(rt, "barrier"))
		write(rapid.SampledFrom([]int{0, 400}).Draw(rt, "ends"), rapid.SampledFrom([]string{"</b>", "</i>", "</font>"}).Draw(rt, "end"))
		write(1, append(some.Draw(rt, "closing"), rapid.SampledFrom([]string{"</x>", "</template>", "</table>", "</select>", "</applet>", "</svg>", "</button>", "</p>"}).Draw(rt, "closed"))...)
		write(rapid.SampledFrom([]int{1, 300, 2000}).Draw(rt, "times"), append(some.Draw(rt, "after"), rapid.SampledFrom([]string{"<p>x", "<li>x", "</p>", "<div>x</div>"}).Draw(rt, "block"))...)
		before := allocated()
		if parse(b.String()); allocated()-before > maxMade+32<<20 {
			rt.Fatalf("%d MiB for %d bytes", (allocated()-before)>>20, b.Len())
		}
	})
}

// What others of the process allocate cuts no page.
// covers ALF-86
func TestOthersCutNothing(t *testing.T) {
	done, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
				_ = make([]byte, 32<<20)
			}
		}
	}()
	for range 5 {
		d := Parse(strings.Repeat("<p>x <a href=y>z</a>", 30_000), Options{})
		failIf(t, d.Loss != (Loss{}), "%+v", d.Loss)
	}
	close(done)
	<-ended
}

// A page of links around blocks, unclosed formatting and tables is read whole, however long.
// covers ALF-86
func TestLongPagesAreWhole(t *testing.T) {
	t.Parallel()
	for name, unit := range map[string]string{
		"cards":       `<div class=card><a href="https://shop.test/a/long/path/to/a/thing?with=many&parameters=in&it=yes"><div class=x><img src=y><span>Thing</span><div><b>3.50</b></div></div></a></div>`,
		"list":        `<li><a href="/a"><b>x</b></a> <i>y</i>`,
		"paragraphs":  `<p><font color=red><b>x</b></font> and <code>y</code>`,
		"rows":        `<tr><td><a href=x>y</a><td><font size=2>z</font>`,
		"not closed":  `<p><b>x<p>y</b>`,
		"fonts":       `<font color=red><p>x`,
		"definitions": `<dt><b>x</b><dd><p>y <a href=z>z</a>`,
	} {
		source := "<table>" + strings.Repeat(unit, 8000)
		if name != "rows" {
			source = source[len("<table>"):]
		}
		d := Parse(source, Options{})
		failIf(t, d.Loss != (Loss{}), "%s: %+v", name, d.Loss)
	}
}

var failIf = bcptest.FailIf

func must[T any](v T, err error) T { return bcptest.Must(v, err) }
