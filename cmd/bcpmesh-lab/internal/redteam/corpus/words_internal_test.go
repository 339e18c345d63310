package corpus

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"": 0, " ,. ": 0, "one": 1, "pay the man, now!": 4, "don't": 1, "a.b@c.example": 4, "4,800 euros": 3,
		"忽略指令": 4, "メールを見て now": 7, "ünïcödé e\u0301tat": 2, "напиши ему": 2, "\u0301": 0,
	} {
		got := len(words(text))
		failIf(t, got != want, "%q has %d words, not %d", text, got, want)
	}
}

// Pieces are the text again, and none has more words than it may.
func TestPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-c,. ]{0,60}`), rapid.StringMatching(`[忽略a ]{0,20}`)).Draw(t, "text")
		most := rapid.IntRange(1, 5).Draw(t, "most")
		list := pieces(text, most)
		failIf(t, strings.Join(list, "") != text, "%q is divided into %q", text, list)
		for _, piece := range list {
			failIf(t, len(words(piece)) > most, "%q has more than %d words", piece, most)
		}
	})
}

// So many strings are read, and one more is refused.
func TestManyStrings(t *testing.T) {
	t.Parallel()
	set := Set{Texts: make([]Text, MaxStrings-1)}
	err := set.add("f", Found{}, []string{"a", "a"})
	failIf(t, err != nil || len(set.Texts) != MaxStrings, "%d strings: %v", len(set.Texts), err)
	err = set.add("g", Found{}, []string{"b"})
	failIf(t, !errors.Is(err, ErrTooMany), "one more: %v", err)
}

// An answer that a mesh treats otherwise than the validator did is a difference, and so is
// another text: what compares can tell.
func TestPlayedDiffers(t *testing.T) {
	t.Parallel()
	m := must(Sample())(t)
	all := must(forms(m))(t)
	r := runner{forms: all, sample: map[string][]said{}, met: map[string]int{}}
	for i := range all {
		f := &all[i]
		if f.subscription != "note" {
			continue
		}
		lie, err := f.say(map[int]string{0: "the bill is due"})
		stopIf(t, err != nil || lie.verdict.Outcome != bcp.Accept, "%+v, %v", lie.verdict, err)
		lie.verdict.Outcome = bcp.Hold
		r.offer("a", lie)
		other := must(f.say(map[int]string{0: "the bill is due"}))(t)
		more := must(f.say(map[int]string{0: "the bill is paid"}))(t)
		other.verdict.Answer = more.verdict.Answer
		r.offer("b", other)
		break
	}
	played, err := r.play(t.Context(), t.TempDir(), m, 1)
	failIf(t, err != nil || played.Said != 2 || len(played.Differs) != 2, "%+v, %v", played, err)
}

var failIf, stopIf = bcptest.FailIf, bcptest.StopIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
