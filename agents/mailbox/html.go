package mailbox

import (
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// stripHTML returns the visible text, and the hidden one: comments, elements
// hidden by a style attribute, texts of images, titles. Scripts and style
// sheets are left out; elements that a style sheet hides by class are not
// recognised. It reads tokens and builds no tree, so nesting costs nothing.
func stripHTML(src string) (text string, hidden []string) {
	z := html.NewTokenizer(strings.NewReader(src))
	s := &stripper{}
	for {
		switch z.Next() {
		case html.ErrorToken:
			s.endHidden()
			return tidy(s.text.String()), s.hidden
		case html.TextToken:
			s.write(string(z.Text()))
		case html.CommentToken:
			s.hide(string(z.Text()))
		case html.StartTagToken:
			s.start(z, false)
		case html.SelfClosingTagToken:
			s.start(z, true)
		case html.EndTagToken:
			name, _ := z.TagName()
			s.end(string(name))
		}
	}
}

type stripper struct {
	text   strings.Builder
	hidden []string
	// secret collects the text of the hidden element inHidden; level is its
	// nesting in itself.
	secret   strings.Builder
	inHidden string
	level    int
	// skip is the element whose text is dropped.
	skip string
}

func (s *stripper) start(z *html.Tokenizer, closed bool) {
	nameBytes, more := z.TagName()
	name := string(nameBytes)
	hides := name == "title" || name == "template"
	for more {
		var key, val []byte
		key, val, more = z.TagAttr()
		switch string(key) {
		case "style":
			hides = hides || hidesText(string(val))
		case "hidden":
			hides = true
		case "alt":
			s.hide(string(val))
		}
	}
	if (name == "script" || name == "style") && !closed {
		s.skip = name
		return
	}
	s.breakFor(name)
	switch {
	case closed || voidElements[name]:
	case s.inHidden == name:
		s.level++
	case s.inHidden == "" && hides:
		s.inHidden, s.level = name, 1
	}
}

func (s *stripper) end(name string) {
	if s.skip != "" {
		if name == s.skip {
			s.skip = ""
		}
		return
	}
	s.breakFor(name)
	if name == s.inHidden {
		if s.level--; s.level == 0 {
			s.endHidden()
		}
	}
}

func (s *stripper) endHidden() {
	s.hide(s.secret.String())
	s.secret.Reset()
	s.inHidden = ""
}

func (s *stripper) hide(text string) {
	if text = strings.TrimSpace(tidy(text)); text != "" {
		s.hidden = append(s.hidden, text)
	}
}

func (s *stripper) out() *strings.Builder {
	if s.inHidden != "" {
		return &s.secret
	}
	return &s.text
}

// write adds text with its white space folded, as a browser shows it.
func (s *stripper) write(text string) {
	if s.skip != "" {
		return
	}
	out := s.out()
	space := false
	for _, r := range text {
		if r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '\u00a0' {
			space = true
			continue
		}
		if space {
			s.space(out)
			space = false
		}
		out.WriteRune(r)
	}
	if space {
		s.space(out)
	}
}

// space writes a space unless a line has just begun or a space is there.
func (s *stripper) space(out *strings.Builder) {
	if written := out.String(); written != "" && !strings.ContainsAny(written[len(written)-1:], " \n") {
		out.WriteByte(' ')
	}
}

func (s *stripper) breakFor(name string) {
	switch name {
	case "p", "div", "h1", "h2", "h3", "h4", "h5", "h6", "table", "ul", "ol", "blockquote", "pre", "hr", "body":
		s.out().WriteString("\n\n")
	case "br", "li", "tr":
		s.out().WriteString("\n")
	case "td", "th":
		s.space(s.out())
	}
}

var voidElements = map[string]bool{
	"area": true, "base": true, "br": true, "col": true, "embed": true, "hr": true,
	"img": true, "input": true, "link": true, "meta": true, "source": true,
	"track": true, "wbr": true,
}

var (
	hidingStyle = regexp.MustCompile(`(^|;)(display:none|visibility:hidden|mso-hide:all|(opacity|max-height|font-size):(0|0?\.0*1?)(px|pt|em|rem|%)?(;|!|$)|font-size:1p[xt])`)
	textColour  = regexp.MustCompile(`(?:^|;)color:([^;!]+)`)
	backColour  = regexp.MustCompile(`(?:^|;)background(?:-color)?:([^;!]+)`)
)

// hidesText judges a style attribute: text that takes no room, is not drawn, or
// has the colour of its background.
func hidesText(style string) bool {
	style = strings.ToLower(strings.Join(strings.Fields(clip(style, maxFieldBytes)), ""))
	if hidingStyle.MatchString(style) {
		return true
	}
	text, back := textColour.FindStringSubmatch(style), backColour.FindStringSubmatch(style)
	return text != nil && back != nil && text[1] == back[1]
}

// tagText returns the text in tag characters (U+E0020 to U+E007E), which models
// read and no screen shows.
func tagText(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r >= 0xe0020 && r <= 0xe007e {
			out.WriteRune(r - 0xe0000)
		}
	}
	return out.String()
}
