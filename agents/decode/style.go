package decode

import (
	"cmp"
	"iter"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

const (
	maxRules   = 5_000           // that can hide something, of a document
	maxSteps   = 20_000_000      // of matching them
	maxNesting = 8               // of @media in each other
	styleTime  = 2 * time.Second // for all of it
)

// declaration is a property with its value, both in lower case and without escapes.
type declaration struct {
	property, value string
	important       bool
}

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?(\*/|$)`)
	cssEscape  = regexp.MustCompile(`\\([0-9a-fA-F]{1,6})[ \t\n\f\r]?|\\(.)`)
	important  = regexp.MustCompile(`\s*!\s*important\s*$`)
)

// relevant are the properties that can hide text.
var relevant = wordSet(`display float visibility opacity color text-fill-color background background-color background-image background-clip
	font font-size line-height text-indent letter-spacing position left right top bottom inset inset-inline inset-inline-start inset-inline-end
	inset-block inset-block-start inset-block-end z-index margin margin-left margin-top margin-right margin-bottom margin-inline margin-inline-start
	margin-inline-end margin-block margin-block-start transform scale translate rotate zoom backface-visibility width height max-width max-height
	inline-size block-size max-inline-size max-block-size overflow overflow-x overflow-y contain clip clip-path filter mask mask-image
	content-visibility mso-hide text-security animation animation-name animation-fill-mode`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

// declarations parses the inside of a rule or a style attribute. Rules inside of a rule are left out.
func declarations(text string) (all []declaration) {
	for one := range statements(cssComment.ReplaceAllString(text, " ")) {
		property, value, _ := strings.Cut(unescape(one.prelude), ":")
		property = strings.ToLower(strings.TrimSpace(property))
		for _, vendor := range []string{"-webkit-", "-ms-", "-moz-"} {
			property = strings.TrimPrefix(property, vendor)
		}
		if one.isRule || !relevant[property] && !strings.HasPrefix(property, "--") {
			continue
		}
		value = strings.ToLower(strings.Join(strings.Fields(value), " "))
		d := declaration{property: property, value: important.ReplaceAllString(value, "")}
		d.important = d.value != value
		all = append(all, d)
	}
	return all
}

// statement is a rule, with the inside of its block, or what ends with a semicolon.
type statement struct {
	prelude, inside string
	isRule          bool
}

// statements yields those of a style sheet or of the inside of a block.
func statements(css string) iter.Seq[statement] {
	return func(yield func(statement) bool) {
		for css != "" {
			end := outside(css, ";{}")
			if end < 0 {
				yield(statement{prelude: css})
				return
			}
			one := statement{prelude: css[:end], isRule: css[end] == '{'}
			if one.isRule {
				one.inside, css = block(css[end:])
			} else {
				css = css[end+1:]
			}
			if !yield(one) {
				return
			}
		}
	}
}

func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	return cssEscape.ReplaceAllStringFunc(text, func(escape string) string {
		parts := cssEscape.FindStringSubmatch(escape)
		if parts[1] == "" {
			return parts[2]
		}
		n, err := strconv.ParseUint(parts[1], 16, 32)
		if err != nil || n > 0x10ffff {
			return "\ufffd"
		}
		return string(rune(n))
	})
}

// outside returns where one of the characters is outside of strings and parentheses, or -1.
func outside(text, any string) int {
	depth, quote := 0, byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\':
			i++
		case quote != 0:
			if c == quote || c == '\n' {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case depth == 0 && strings.IndexByte(any, c) >= 0:
			return i
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth = max(0, depth-1)
		}
	}
	return -1
}

// block returns the inside of a block, which text begins with, and what is after it.
func block(text string) (inside, rest string) {
	level := 0
	for at := 0; ; {
		i := outside(text[at:], "{}")
		if i < 0 {
			return text[1:], ""
		}
		at += i
		if text[at] == '{' {
			level++
		} else if level--; level == 0 {
			return text[1:at], text[at+1:]
		}
		at++
	}
}

// rule is one selector with its declarations.
type rule struct {
	parts        []part
	specificity  cascadia.Specificity
	order        int
	has          bool // it looks at what is in an element
	declarations []declaration
}

// part is a compound selector, and the combinator in front of it.
type part struct {
	selector   cascadia.Sel
	combinator byte
}

// sheet are the rules of all style sheets of a document.
type sheet struct {
	byKey     map[string][]*rule // by the id, class or element that the last part asks for; "*" for others
	count     int
	variables map[string]string
	frames    map[string][]declaration // of animations: how they end
	steps     int
	until     time.Time
	costly    bool // not everything was applied
	external  bool // the document has sheets elsewhere
}

func newSheet(doc *html.Node) *sheet {
	s := &sheet{byKey: map[string][]*rule{}, variables: map[string]string{}, frames: map[string][]declaration{}, steps: maxSteps, until: time.Now().Add(styleTime)}
	for n := range doc.Descendants() {
		switch {
		case n.Type != html.ElementNode:
		case n.Data == "style":
			var text strings.Builder
			for child := range n.ChildNodes() {
				text.WriteString(child.Data)
			}
			if media, ok := attribute(n.Attr, "media"); !ok || shown(media) {
				s.parse(strings.NewReplacer("<!--", " ", "-->", " ").Replace(cssComment.ReplaceAllString(text.String(), " ")), "", 0)
			}
		case n.Data == "link":
			rel, _ := attribute(n.Attr, "rel")
			s.external = s.external || strings.Contains(strings.ToLower(rel), "stylesheet")
		}
	}
	return s
}

// parse adds the rules of a sheet, or those inside of a rule with these selectors.
func (s *sheet) parse(css, selectors string, nesting int) {
	if outside(selectors, ",") >= 0 {
		selectors = ":is(" + selectors + ")"
	}
	for one := range statements(css) {
		if s.late() {
			return
		}
		prelude := strings.TrimSpace(one.prelude)
		name, condition, _ := strings.Cut(prelude, " ")
		name = strings.ToLower(name)
		switch {
		case !one.isRule:
			s.external = s.external || selectors == "" && strings.HasPrefix(name, "@import")
		case prelude == "": // no rule to anybody, nor what is inside
		case nesting == maxNesting || len(selectors) > 4096:
			s.costly = true
		case strings.HasSuffix(name, "keyframes"):
			var end []declaration
			for step := range statements(one.inside) {
				if at := strings.ToLower(step.prelude); strings.Contains(at, "to") || strings.Contains(at, "100%") {
					end = append(end, declarations(step.inside)...)
				}
			}
			s.frames[strings.ToLower(strings.TrimSpace(condition))] = end
		case strings.HasPrefix(prelude, "@") && !holds(name, condition):
		case strings.HasPrefix(prelude, "@") && selectors == "":
			s.parse(one.inside, "", nesting+1)
		case strings.HasPrefix(prelude, "@"):
			s.add(selectors, one.inside, nesting+1)
		case selectors == "":
			s.add(prelude, one.inside, nesting)
		default:
			for inner := range strings.SplitSeq(prelude, ",") {
				if !strings.Contains(inner, "&") {
					inner = "& " + inner
				}
				s.add(strings.ReplaceAll(inner, "&", selectors), one.inside, nesting+1)
			}
		}
	}
}

// holds reports whether the rules below an at-rule hold.
func holds(name, condition string) bool {
	switch name {
	case "@media":
		return shown(condition)
	case "@supports":
		return !strings.HasPrefix(strings.ToLower(strings.TrimSpace(condition)), "not")
	}
	return name == "@layer" || name == "@container" || name == "@scope"
}

// animated returns declarations with those that an animation leaves.
func (s *sheet) animated(all []declaration) []declaration {
	text := ""
	for _, d := range all {
		if strings.HasPrefix(d.property, "animation") {
			text += " " + d.value
		}
	}
	if strings.Contains(text, "forwards") || strings.Contains(text, "both") {
		for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' }) {
			all = append(all[:len(all):len(all)], s.frames[name]...)
		}
	}
	return all
}

func (s *sheet) late() bool {
	s.costly = s.costly || s.steps <= 0 || s.count > maxRules || time.Now().After(s.until)
	return s.costly
}

// add adds a rule, if it can hide anything.
func (s *sheet) add(selectors, inside string, nesting int) {
	if strings.Contains(inside, "{") {
		defer s.parse(inside, selectors, nesting)
	}
	all := declarations(inside)
	for _, d := range all {
		if strings.HasPrefix(d.property, "--") {
			s.variables[d.property] = d.value
		}
	}
	if all = slices.DeleteFunc(all, func(d declaration) bool { return !relevant[d.property] }); len(all) == 0 {
		return
	}
	for selectors != "" {
		one := selectors
		if at := outside(selectors, ","); at >= 0 {
			one, selectors = selectors[:at], selectors[at+1:]
		} else {
			selectors = ""
		}
		for _, plain := range expand(strings.TrimSpace(one)) {
			if r := compile(plain); r != nil {
				r.order, r.declarations = s.count, all
				s.count++
				key := keyOf(plain)
				s.byKey[key] = append(s.byKey[key], r)
			}
		}
	}
}

var alternatives = regexp.MustCompile(`:(?:is|where|matches|-webkit-any)\(([^()]*)\)`)

// expand writes a selector with :is as several without.
func expand(selector string) []string {
	for all, at := []string{selector}, 0; ; at++ {
		if at == len(all) || len(all) > 64 {
			return all
		}
		for found := alternatives.FindStringSubmatchIndex(all[at]); found != nil; found = alternatives.FindStringSubmatchIndex(all[at]) {
			whole, first := all[at], true
			for option := range strings.SplitSeq(whole[found[2]:found[3]], ",") {
				option = strings.TrimSpace(option)
				with := whole[:found[0]] + option + whole[found[1]:]
				if c := option[:min(1, len(option))]; found[0] > 0 && c != "." && c != "#" && c != "[" && !strings.HasSuffix(whole[:found[0]], " ") {
					with = option + whole[:found[0]] + whole[found[1]:]
				}
				if first {
					all[at], first = with, false
				} else {
					all = append(all, with)
				}
			}
		}
	}
}

// costlySelector are the selectors that look at whole trees or texts, or that never hold of a page that nobody touches.
var costlySelector = regexp.MustCompile(`(?i):(contains|containsown|haschild|input|hover|active|focus|visited|target|before|after)|::|#=`)

// compile returns a rule for a selector, nil if it is not one that can be judged.
func compile(selector string) *rule {
	if costlySelector.MatchString(selector) {
		return nil
	}
	r := &rule{has: strings.Contains(selector, ":has(")}
	combinator := byte(0)
	for selector = strings.TrimSpace(selector); selector != ""; {
		at := outside(selector, " \t\n\r\f>+~")
		compound := selector
		if at < 0 {
			selector = ""
		} else {
			compound, selector = selector[:at], selector[at:]
		}
		parsed, err := cascadia.Parse(compound)
		if err != nil || len(r.parts) == 10 {
			return nil
		}
		r.parts = append(r.parts, part{parsed, combinator})
		r.specificity = r.specificity.Add(parsed.Specificity())
		rest := strings.TrimLeft(selector, " \t\n\r\f>+~")
		combinator = ' '
		if marks := strings.TrimSpace(selector[:len(selector)-len(rest)]); marks != "" {
			combinator = marks[0]
		}
		selector = rest
	}
	if len(r.parts) == 0 {
		return nil
	}
	return r
}

var firstKey = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9-]*)?(?:[.#]([a-zA-Z0-9_-]+))?`)

// keyOf returns what to find a rule by.
func keyOf(selector string) string {
	last := selector
	for at := outside(last, " \t\n\r\f>+~"); at >= 0; at = outside(last, " \t\n\r\f>+~") {
		last = last[at+1:]
	}
	found := firstKey.FindStringSubmatch(last)
	switch {
	case strings.Contains(last, `\`), found == nil:
		return "*"
	case found[2] != "":
		return found[0][len(found[1]):]
	case found[1] != "":
		return strings.ToLower(found[1])
	}
	return "*"
}

// declared returns the declarations for an element, the strongest last.
func (s *sheet) declared(n *html.Node) []declaration {
	var rules []*rule
	if s.count > 0 {
		keys := []string{"*", n.Data}
		if id, ok := attribute(n.Attr, "id"); ok {
			keys = append(keys, "#"+id)
		}
		if class, ok := attribute(n.Attr, "class"); ok {
			for name := range strings.FieldsSeq(class[:min(len(class), 4096)]) {
				keys = append(keys, "."+name)
			}
		}
		for _, key := range keys {
			for _, r := range s.byKey[key] {
				if !s.late() && s.matches(r, len(r.parts)-1, n) {
					rules = append(rules, r)
				}
			}
		}
		slices.SortFunc(rules, func(a, b *rule) int {
			switch {
			case a.specificity.Less(b.specificity):
				return -1
			case b.specificity.Less(a.specificity):
				return 1
			}
			return cmp.Compare(a.order, b.order)
		})
	}
	all := presentation(n)
	for _, r := range rules {
		all = append(all, r.declarations...)
	}
	style, _ := attribute(n.Attr, "style")
	own := declarations(style)
	for _, d := range own {
		if strings.HasPrefix(d.property, "--") {
			s.variables[d.property] = d.value
		}
	}
	all = append(all, own...)
	weak := func(d declaration) bool { return !d.important }
	strong := slices.DeleteFunc(slices.Clone(all), weak)
	return append(slices.DeleteFunc(all, func(d declaration) bool { return d.important }), strong...)
}

func (s *sheet) matches(r *rule, i int, n *html.Node) bool {
	if s.steps--; r.has {
		s.steps -= 2000
	}
	if s.steps < 0 || n.Type != html.ElementNode || !r.parts[i].selector.Match(n) {
		return false
	}
	if i == 0 {
		return true
	}
	switch r.parts[i].combinator {
	case '>':
		return n.Parent != nil && s.matches(r, i-1, n.Parent)
	case '+':
		before := elementBefore(n)
		return before != nil && s.matches(r, i-1, before)
	case '~':
		for before := elementBefore(n); before != nil; before = elementBefore(before) {
			if s.matches(r, i-1, before) {
				return true
			}
		}
	default:
		for above := n.Parent; above != nil; above = above.Parent {
			if s.matches(r, i-1, above) {
				return true
			}
		}
	}
	return false
}

func elementBefore(n *html.Node) *html.Node {
	for n = n.PrevSibling; n != nil && n.Type != html.ElementNode; n = n.PrevSibling {
	}
	return n
}

// presentation returns what attributes of old say.
func presentation(n *html.Node) (all []declaration) {
	for _, a := range n.Attr {
		switch {
		case a.Key == "bgcolor":
			all = append(all, declaration{property: "background-color", value: oldColour(a.Val)})
		case a.Key == "background" && (n.Data == "body" || strings.HasPrefix(n.Data, "t")):
			all = append(all, declaration{property: "background-image", value: "url()"})
		case a.Key == "color" && n.Data == "font", a.Key == "text" && n.Data == "body":
			all = append(all, declaration{property: "color", value: oldColour(a.Val)})
		}
	}
	return all
}

var hexDigits = regexp.MustCompile(`^[0-9a-f]{6}$|^[0-9a-f]{3}$`)

func oldColour(value string) string {
	value = strings.ToLower(strings.TrimSpace(value))
	if hexDigits.MatchString(value) {
		return "#" + value
	}
	return value
}

// resolve puts in the values of variables.
func (s *sheet) resolve(value string) string {
	for range 5 {
		at := strings.Index(value, "var(")
		if at < 0 || len(value) > 4096 {
			return value
		}
		end := outside(value[at+4:], ")")
		if end < 0 {
			return value
		}
		name, fallback, _ := strings.Cut(value[at+4:at+4+end], ",")
		with, ok := s.variables[strings.TrimSpace(name)]
		if !ok {
			with = strings.TrimSpace(fallback)
		}
		value = value[:at] + with + value[at+5+end:]
	}
	return value
}

var feature = regexp.MustCompile(`\(\s*(min|max)-(device-)?width\s*:\s*([0-9.]+)(px|em|rem)\s*\)`)

// shown reports whether a media query holds on a screen of 1280 by 800 pixels with nothing unusual.
func shown(query string) bool {
	for one := range strings.SplitSeq(strings.ToLower(query), ",") {
		holds, negated := true, false
		for i, condition := range strings.Split(strings.TrimSpace(one), " and ") {
			condition = strings.TrimPrefix(strings.TrimSpace(condition), "only ")
			if rest, ok := strings.CutPrefix(condition, "not "); ok && i == 0 {
				condition, negated = rest, true
			}
			holds = holds && conditionHolds(strings.TrimSpace(condition))
		}
		if holds != negated {
			return true
		}
	}
	return false
}

func conditionHolds(condition string) bool {
	switch strings.ReplaceAll(condition, " ", "") {
	case "", "all", "screen", "(color)", "(prefers-color-scheme:light)", "(orientation:landscape)", "(hover)", "(hover:hover)", "(pointer:fine)":
		return true
	}
	found := feature.FindStringSubmatch(condition)
	if found == nil {
		return strings.HasPrefix(condition, "(min-height") || strings.HasPrefix(condition, "(min-resolution") && strings.Contains(condition, "1dppx")
	}
	n, err := strconv.ParseFloat(found[3], 64)
	if found[4] != "px" {
		n *= 16
	}
	return err == nil && (found[1] == "min" && n <= 1280 || found[1] == "max" && n >= 1280)
}
