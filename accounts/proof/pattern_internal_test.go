package proof

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// small subjects, with a token that no pattern has.
var small = func() []pattern {
	var all []pattern
	last := []pattern{nil}
	for range 4 {
		var next []pattern
		for _, p := range last {
			for _, token := range []string{"a", "b", "fresh"} {
				next = append(next, append(slices.Clip(p), token))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}()

func draw(t *rapid.T, label string) pattern {
	p := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*"}), 1, 3).Draw(t, label)
	if rapid.Bool().Draw(t, label+" tail") && len(p) < 3 {
		p = append(p, anyTail)
	}
	return p
}

func drawRegion(t *rapid.T, label string) region {
	r := region{pattern: draw(t, label)}
	for range rapid.IntRange(0, 3).Draw(t, label+" except") {
		r = r.without([]pattern{draw(t, label+" less")})
	}
	return r
}

// The algebra of patterns says what trying each subject says.
//
// covers A-WILD
func TestPatternsAreExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, q := draw(t, "p"), draw(t, "q")
		r, s := drawRegion(t, "r"), drawRegion(t, "s")
		both := r.intersect(s)
		overlap, covered, some := false, true, false
		for _, subject := range small {
			text := subject.String()
			inP, inQ := subjects.Match(p.String(), text), subjects.Match(q.String(), text)
			overlap, covered = overlap || inP && inQ, covered && (inP || !inQ)
			got := p.intersect(q).covers(subject)
			failIf(t, got != (inP && inQ), "%s and %s: %s", p, q, subject)
			in := r.contains(subject) && s.contains(subject)
			got = both.contains(subject)
			failIf(t, got != in, "%v and %v: %s", r, s, subject)
			some = some || in
		}
		failIf(t, overlap != (p.intersect(q) != nil) || covered != p.covers(q),
			"%s, %s: overlap %t, cover %t", p, q, overlap, covered)
		failIf(t, some == both.empty(), "%v: empty %t", both, both.empty())
		failIf(t, !both.empty() && !slices.ContainsFunc(both.pattern.examples(both.except), both.contains),
			"%v has no example", both)
	})
}

// An open end may be covered length by length.
//
// covers A-WILD
func TestOpenEndsAreCoveredByLength(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		except  []string
		empty   bool
	}{
		{"a.>", []string{"a.*", "a.*.>"}, true},
		{"a.>", []string{"a.*", "a.*.*", "*.*.*.>"}, true},
		{"a.>", []string{"a.*", "a.*.*.>"}, false}, // three tokens
		{"a.>", []string{"a.b", "a.*.>"}, false},
		{"a.>", []string{"a.*.>"}, false},
		{"a.>", []string{"a.*", "a.*.*"}, false}, // four
		{"a.*", []string{"a.*.>", "*.b"}, false},
		{"a.>", []string{"*.>"}, true},
	} {
		r := region{pattern: strings.Split(c.pattern, ".")}
		for _, e := range c.except {
			r.except = append(r.except, strings.Split(e, "."))
		}
		failIf(t, r.empty() != c.empty, "%s without %s: empty %t", c.pattern, c.except, r.empty())
	}
}

// A mapping of a region holds the image of each of its subjects, and origin
// finds where they came from.
//
// covers A-WILD
func TestMappingsLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := draw(t, "from")
		to := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "$1", "$2", "{{wildcard(1)}}", "{{partition(3,1)}}", "{{split(1,-)}}"}), 1, 3).Draw(t, "to")
		if from[len(from)-1] == anyTail {
			to = append(to, anyTail)
		}
		m, ok := newMapping(from, strings.Join(to, "."))
		stopIf(t, !ok, "not read")
		r := drawRegion(t, "r")
		image := m.image(r)
		for _, subject := range small {
			if !from.covers(subject) || !r.contains(subject) {
				continue
			}
			at := m.apply(subject)
			literal := at.intersect(at)
			if image.empty() || literal.covers(literal) && !strings.ContainsAny(at.String(), "*>") && !image.contains(at) {
				t.Errorf("%s is mapped to %s, which is not in %v", subject, at, image)
			}
			back := m.origin(r.pattern, at)
			failIf(t, back == nil || !back.covers(subject), "%s is mapped to %s, which comes from %s", subject, at, back)
		}
	})
}

// A mapping that is not followed exactly reaches everything that it might, and what it
// reaches may come from everywhere.
//
// covers A-WILD
func TestMappingsThatAreOverestimated(t *testing.T) {
	t.Parallel()
	for destination, c := range map[string]struct{ image, one string }{
		"b.$7.c":            {"b.*.c", "b.x.c"},
		"b.$2.$1":           {"b.*.*", "b.x.y"},
		"b.*":               {"b.*", "b.x"},
		"b.{{random(2)}}":   {"b.>", "b.1"},
		"b.{{split(1,-)}}":  {"b.>", "b.x.y.z"},
		"b.{{split(1,-)}}.": {},
		"b.>":               {"b.>", "b.x.y"},
	} {
		from := pattern{"a", anyToken}
		m, ok := newMapping(from, destination)
		failIf(t, ok != (c.image != ""), "%s is read: %t", destination, ok)
		if !ok {
			continue
		}
		image := m.image(region{pattern: from})
		failIf(t, image.pattern.String() != c.image, "%s reaches %s", destination, image.pattern)
		back := m.origin(from, parsePattern(c.one))
		failIf(t, !slices.Equal(back, from), "%s reaches %s from %s", destination, c.one, back)
	}
	_, ok := imported("a..b", "c", true)
	failIf(t, ok, "what is no subject is imported")
	_, ok = imported("a.b", "c..", false)
	failIf(t, ok, "an import has a name that is no subject")
}

// What a template may become, and what it may not be relied on to refuse.
//
// covers A-SUBJTOK
func TestTemplatesAreTakenForAnything(t *testing.T) {
	t.Parallel()
	got := untemplated([]string{"a.{{name()}}.b", "{{tag(x)}}", "a.b{{subject()}}", "a.*"})
	want := []string{"a.>", ">", "a.>", "a.*"}
	failIf(t, !slices.Equal(got, want), "%v", got)
	got = templateless([]string{"a.{{name()}}", "b"})
	failIf(t, !slices.Equal(got, []string{"b"}), "%v", got)
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

// Most patterns do not meet, which costs nothing.
func TestPatternsThatDoNotMeet(t *testing.T) {
	p, q := parsePattern("bcp.v1.push.spy.*.notes"), parsePattern("bcp.v1.ask.*.*")
	if n := testing.AllocsPerRun(10, func() { p.intersect(q) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
