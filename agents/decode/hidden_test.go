package decode

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// shownText returns the text of a document that is seen, and that which is not.
func shownText(source string, o Options) (text, hidden string) {
	d := Parse(source, o)
	return Write(d.Root, nil), strings.Join(d.Hidden, "|")
}

// styles hide a block of text, each in its own way.
var styles = []string{
	"display:none", "DISPLAY : None", "display:none!important", "display:block;display:none", "di\\73play:none", "display:n\\6f ne", "/*x*/display/*y*/:/*z*/none",
	"visibility:hidden", "visibility:collapse", "content-visibility:hidden", "mso-hide:all",
	"opacity:0", "opacity:0.01", "opacity:.05", "opacity:0%", "filter:opacity(0)", "filter:opacity(0%)", "filter:alpha(opacity=0)", "-webkit-filter:opacity(0)", "filter:blur(20px)",
	"font-size:0", "font-size:0px", "font-size:1px", "font-size:0.1em", "font-size:1%", "font-size:2pt", "font:0/0 a", "font:1px/1 serif", "font-size:calc(1px - 1px)",
	"color:transparent", "color:rgba(0,0,0,0)", "color:rgb(0 0 0 / 0%)", "color:#0000", "color:#00000000", "color:hsla(0,0%,0%,0)", "-webkit-text-fill-color:transparent",
	"color:white", "color:#fff", "color:#FFFFFF", "color:#fefefe", "color:rgb(255,255,255)", "color:rgb(100%,100%,100%)", "color:hsl(0,0%,100%)", "color:hsl(0 0% 100%)", "color:hwb(0 100% 0%)", "color:snow", "color:ivory", "color:#fffe",
	"color:#ffffff;background-color:#fff", "color:red;background:#f00", "color:#000;background:black", "background:#000", "color:navy;background:rgb(0,0,128)", "color:#0f0;background:lime none", "background:linear-gradient(#000,#000)", "color:#333;background:url() #333;background-image:none",
	"text-indent:-9999px", "text-indent:-999em", "text-indent:-1000%", "text-indent:100%;overflow:hidden;white-space:nowrap",
	"position:absolute;left:-9999px", "position:absolute;top:-9999px", "position:fixed;right:-5000px", "position:relative;left:-200vw", "position:absolute;left:9999px", "position:absolute;inset:-9999px auto auto auto", "position:absolute;left:calc(0px - 9999px)", "position:absolute;left:-1e4px", "position:absolute;bottom:-1000cm",
	"margin-left:-9999px", "margin:0 0 0 -9999px", "margin-top:-5000px", "margin:-9999px",
	"transform:scale(0)", "transform:scale(0,1)", "transform:scaleX(0)", "transform:scaleY(.01)", "transform:scale3d(0,0,0)", "transform:translate(-9999px)", "transform:translateX(-9999px)", "transform:translateY(-200vh)", "transform:translateX(-100%)", "transform:translate(0,-9999px)", "transform:translate3d(-9999px,0,0)",
	"transform:rotateX(90deg)", "transform:rotateY(.25turn)", "transform:matrix(0,0,0,0,0,0)", "transform:matrix(1,0,0,1,-9999,0)", "-webkit-transform:scale(0)", "scale:0", "translate:-9999px", "zoom:0", "zoom:1%",
	"height:0;overflow:hidden", "width:0;overflow:hidden", "max-height:0;overflow:hidden", "max-height:0", "max-width:0;overflow:hidden", "max-height:1px;overflow-y:hidden", "height:1px;width:1px;overflow:hidden", "height:0px;overflow:clip", "height:0;overflow:auto",
	"clip:rect(0,0,0,0);position:absolute", "clip:rect(0 0 0 0);position:absolute", "clip:rect(1px,1px,1px,1px);position:absolute", "clip:rect(0px, 0px, 0px, 0px)",
	"clip-path:inset(50%)", "clip-path:inset(100%)", "clip-path:inset(0 100% 0 0)", "clip-path:inset(0 0 99% 0 round 3px)", "clip-path:circle(0)", "clip-path:circle(0px at 50% 50%)", "clip-path:ellipse(0 0)", "clip-path:polygon(0 0,0 0,0 0)", "clip-path:polygon(0px 0px, 0px 0px,0px 0px,0px 0px)", "-webkit-clip-path:inset(100%)",
	"position:relative;overflow:hidden;line-height:0", "block-size:0;overflow:hidden", "inline-size:0px;overflow:hidden", "max-block-size:0;overflow:hidden", "height:0;contain:paint", "position:absolute;inset-inline-start:-9999px", "margin-inline-start:-9999px", "margin-block:-9999px",
	"mask:linear-gradient(transparent,transparent)", "-webkit-mask-image:linear-gradient(#0000,#0000)", "color:oklch(100% 0 0)", "color:lab(100 0 0)", "color:lch(99% 0 0)", "color:oklab(1 0 0)", "color:oklch(50% 0 0 / 0)", "color:color(srgb 1 1 1)", "color:color(display-p3 100% 100% 100%)", "color:light-dark(white,black)",
	"color:color-mix(in srgb,white,white)", "color:color-mix(in srgb, red 0%, transparent)", "color:color-mix(in oklab, rgb(0 0 0) 1%, white)", "color:hsl(.5turn 100% 100%)", "font-size:min(0px,1em)", "font-size:clamp(0px,0px,1px)", "font-size:max(0px,.5px)", "font-size:calc(0 * 1px)", "font-size:calc((1em - 16px)*2)", "font-size:.01cqw", "opacity:calc(1 - 1)",
	"clip-path:xywh(0 0 0 0)", "clip-path:inset(9999px)", "clip-path:circle(10px at -100px -100px)", "transform:skew(90deg)", "transform:skewX(-90deg)", "transform:rotate3d(1,0,0,90deg)", "rotate:x 90deg", "rotate:y 100grad", "transform:rotateY(180deg);backface-visibility:hidden",
	"position:absolute;left:100vw", "position:fixed;left:100%", "position:fixed;top:100vh", "position:fixed;bottom:100%", "position:fixed;left:-300px;width:200px", "-webkit-text-security:disc",
	"letter-spacing:-1em", "letter-spacing:-20px", "--c:#fff;color:var(--c)", "color:var(--none,#fff)",
}

// covers ALF-86, BCP-18
func TestStylesThatHide(t *testing.T) {
	t.Parallel()
	for _, style := range styles {
		for name, source := range map[string]string{
			"attribute":  `<p>shown</p><div style="` + style + `">order <b>now</b></div><p>end</p>`,
			"inherited":  `<p>shown</p><div style="` + style + `"><p>order</p><p><i>now</i></p></div><p>end</p>`,
			"class":      `<style>.x{` + style + `}</style><p>shown</p><div class="a x">order now</div><p>end</p>`,
			"end of tag": `<p>shown</p><p style="` + style + `">order now<p>end`,
			"misnested":  `<p>shown</p><div><p><font style="` + style + `"></p><p>order now</p></font></div><p>end</p>`,
		} {
			if name == "misnested" && strings.Contains(style, "background") {
				continue // of an inline element, it is where that is
			}
			text, hidden := shownText(source, Options{})
			failIf(t, strings.Contains(text, "order") || strings.Contains(text, "now") || !strings.Contains(text, "shown") || !strings.Contains(text, "end") || !strings.Contains(hidden, "order") || !strings.Contains(hidden, "now"),
				"%s: %s: text %q, hidden %q", style, name, text, hidden)
		}
	}
}

// Text that is seen stays, however much its style looks like one that hides.
// covers ALF-86
func TestStylesThatShow(t *testing.T) {
	t.Parallel()
	for _, style := range []string{
		"", "display:block", "display:none;display:block", "visibility:visible", "opacity:.9", "font-size:12px", "font-size:80%", "font:bold 12px/30px Georgia,serif", "color:#000", "color:#666", "color:#ccc", "color:blue",
		"color:white;background:black", "color:#fff;background-color:#c00", "color:#fff;background:url(x.png)", "color:#fff;background-image:linear-gradient(red,blue)", "background:#fff", "background:yellow",
		"text-indent:20px", "text-indent:-20px;padding-left:20px", "left:-9999px", "position:absolute;left:-20px", "position:relative;top:3px", "margin:-10px", "margin-left:-100%", "margin:0 auto", "height:0", "width:1px", "overflow:hidden", "max-height:100px;overflow:hidden", "height:300px;overflow:auto",
		"transform:translate(-50%,-50%)", "transform:scale(1.2)", "transform:rotate(90deg)", "transform:scaleX(-1)", "transform:rotateY(180deg)", "clip:auto", "clip-path:inset(0)", "clip-path:circle(50%)", "clip-path:polygon(0 0,100% 0,100% 100%)", "filter:blur(0)", "filter:opacity(1)", "filter:grayscale(0)", "letter-spacing:-.5px", "zoom:1", "line-height:0",
		"background:linear-gradient(red,blue);-webkit-background-clip:text;-webkit-text-fill-color:transparent", "color:var(--unknown)",
		"position:relative;z-index:-1", "position:absolute;z-index:0;background:#fff", "position:absolute;top:100%", "position:absolute;left:50%;transform:translateX(-50%)", "color:oklch(40% .1 20)", "color:lab(30 20 10)", "color:color-mix(in srgb,red,blue)", "color:light-dark(black,white)", "color:rgb(from red r g b)", "font-size:clamp(12px,2vw,20px)", "font-size:calc(1em * 1.2)", "font-size:calc(", "font-size:calc(1px", "font-size:1px/0",
		"mask-image:linear-gradient(black,transparent)", "mask:none", "overflow:hidden;line-height:1.2", "opacity:calc(1)", "rotate:90deg", "transform:skew(10deg)", "text-security:none", "opacity:0px", "position:fixed;top:0;left:0;right:0;background:#fff", "position:fixed;bottom:0;left:-10px;width:200px",
		"nonsense", "color", ":", "content:'display:none'",
	} {
		text, hidden := shownText(`<div style="`+style+`">seen</div>`, Options{})
		failIf(t, text != "seen" || hidden != "", "%s: text %q, hidden %q", style, text, hidden)
	}
}

// covers ALF-86, BCP-18
func TestMarkupThatHides(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSpace(string(must(os.ReadFile("testdata/markup.txt")))), "\n")
	failIf(t, len(lines) != 88, "%d documents", len(lines))
	for _, line := range lines { // a document, a tab, and what is seen of it
		source, quoted, _ := strings.Cut(line, "\t")
		want := must(strconv.Unquote(quoted))
		text, hidden := shownText(source, Options{})
		failIf(t, text != want || strings.Contains(source, "order") && !strings.Contains(source, "<input") && !strings.Contains(source, "<title") && !strings.Contains(hidden, "order"),
			"%s\ntext %q, want %q, hidden %q", source, text, want, hidden)
	}
	for source, want := range map[string]string{"<details><summary>s</summary>order</details>a": "s\n\na", "<details open><summary>s</summary>b</details>a": "s\nb\n\na", "<img alt=order>a": "a", "<link rel=stylesheet href=x.css><p style='color:#fff'>order</p>a": "a"} {
		if text, hidden := shownText(source, Options{Mail: true}); text != want || strings.Contains(source, "order") && hidden != "order" {
			t.Errorf("%s in a mail: text %q, want %q, hidden %q", source, text, want, hidden)
		}
	}
}
