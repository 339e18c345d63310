package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// tokensOf lists the tokens that the scanner sees.
func tokensOf(b []byte) ([]string, error) {
	s := NewScanner(b)
	var tokens []string
	var walk func() error
	walk = func() error {
		switch s.Kind() {
		case KindObject:
			if err := s.ObjectStart(); err != nil {
				return err
			}
			tokens = append(tokens, "{")
			for s.More() {
				key, err := s.Key(nil)
				if err != nil {
					return err
				}
				tokens = append(tokens, "string "+string(key))
				if err := walk(); err != nil {
					return err
				}
			}
			tokens = append(tokens, "}")
		case KindArray:
			if err := s.ArrayStart(); err != nil {
				return err
			}
			tokens = append(tokens, "[")
			for s.More() {
				if err := walk(); err != nil {
					return err
				}
			}
			tokens = append(tokens, "]")
		case KindString:
			text, err := s.String(nil)
			tokens = append(tokens, "string "+string(text))
			return err
		case KindNumber:
			n, err := s.Int64()
			tokens = append(tokens, "number "+strconv.FormatInt(n, 10))
			return err
		default:
			v, err := s.Bool()
			tokens = append(tokens, strconv.FormatBool(v))
			return err
		}
		return nil
	}
	if err := walk(); err != nil {
		return tokens, err
	}
	return tokens, s.End()
}

// gaps are the reasons for which Check refuses what jsontext accepts.
type gaps struct{ null, number, depth, keys, control bool }

// oracle lists the tokens that jsontext sees, if it accepts the document as one
// whole value, and which of the known gaps the document falls into.
func oracle(b []byte) (tokens []string, g gaps, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(b))
	var keys []int
	for {
		before := d.InputOffset()
		whole := d.StackDepth() == 0 && len(tokens) > 0
		t, err := d.ReadToken()
		if whole && err == io.EOF {
			return tokens, g, nil
		}
		if whole && err == nil {
			err = errors.New("second value")
		}
		if err != nil {
			return nil, g, err
		}
		raw := b[before:d.InputOffset()]
		switch kind := t.Kind(); kind {
		case '{', '[':
			g.depth = g.depth || d.StackDepth() > MaxDepth
			keys = append(keys, 0)
			tokens = append(tokens, kind.String())
		case '}', ']':
			keys = keys[:len(keys)-1]
			tokens = append(tokens, kind.String())
		case '"':
			g.control = g.control || bytes.IndexByte(raw, 0x7f) >= 0
			if container, n := d.StackIndex(d.StackDepth()); container == '{' && n%2 == 1 {
				keys[len(keys)-1]++
				g.keys = g.keys || keys[len(keys)-1] > MaxKeys
			}
			tokens = append(tokens, "string "+t.String())
		case '0':
			text := t.String()
			n, err := strconv.ParseInt(text, 10, 64)
			g.number = g.number || err != nil || strconv.FormatInt(n, 10) != text
			tokens = append(tokens, "number "+text)
		case 'n':
			g.null = true
			tokens = append(tokens, "null")
		default:
			tokens = append(tokens, strconv.FormatBool(t.Bool()))
		}
	}
}

// compareWithOracle holds Check and Scanner against jsontext.
func compareWithOracle(b []byte) error {
	refusal := Check(b)
	want, g, err := oracle(b)
	if err != nil {
		if refusal == nil {
			return fmt.Errorf("accepted, but the oracle refuses: %w", err)
		}
		return nil
	}
	if refusal != nil {
		for why, applies := range map[error]bool{
			ErrKind: g.null, ErrNumber: g.number, ErrDepth: g.depth, ErrTooManyKeys: g.keys, ErrControl: g.control,
		} {
			if applies && errors.Is(refusal, why) {
				return nil
			}
		}
		return fmt.Errorf("refused outside the known gaps: %w", refusal)
	}
	if g != (gaps{}) {
		return fmt.Errorf("accepted in spite of %+v", g)
	}
	got, err := tokensOf(b)
	if err != nil {
		return fmt.Errorf("accepted by Check, not by the walk: %w", err)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		return fmt.Errorf("tokens %q, the oracle has %q", got, want)
	}
	return nil
}

// covers P2.2, P2.3, A-DUP, A-UTF8, A-CTRL
func TestStrictnessAgainstOracle(t *testing.T) {
	t.Parallel()
	for _, c := range strictness {
		if err := compareWithOracle([]byte(c.in)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// covers P2.2, P2.3, A-DUP, A-UTF8, A-CTRL, A-CRASH
func FuzzScanner(f *testing.F) {
	for _, c := range strictness {
		f.Add([]byte(c.in))
	}
	for _, b := range [][]byte{category1, category2, category3} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := compareWithOracle(b); err != nil {
			t.Fatalf("%q: %v", b, err)
		}
		s := NewScanner(b)
		raw, err := s.RawValue()
		if err == nil && Check(raw) != nil {
			t.Fatalf("%q: raw value %q does not stand alone", b, raw)
		}
		if Check(b) != nil {
			return
		}
		packed, err := MsgpackFromJSON(nil, b)
		if err != nil {
			t.Fatalf("%q: accepted, but not to be packed: %v", b, err)
		}
		unpacked, err := JSONFromMsgpack(nil, packed)
		if err != nil {
			t.Fatalf("%q: packed as %x, refused: %v", b, packed, err)
		}
		want, _ := tokensOf(b)
		got, err := tokensOf(unpacked)
		if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q: came back as %q: %v", b, unpacked, err)
		}
	})
}

// covers P2.4, A-UTF8, A-CRASH
func FuzzAppendString(f *testing.F) {
	f.Add("")
	f.Add("a\"\\/\b\f\n\r\t\x00\x1f\x7f<&>\u2028é😀")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := AppendString([]byte("x"), text)
		if !utf8.ValidString(text) {
			if !errors.Is(err, ErrUTF8) || string(b) != "x" {
				t.Fatalf("%q: got %q, %v", text, b, err)
			}
			return
		}
		noError(t, err)
		b = b[1:]
		s := NewScanner(b)
		got, err := s.String(nil)
		if err != nil || string(got) != text || s.End() != nil {
			t.Fatalf("%q: %q reads as %q: %v", text, b, got, err)
		}
		want, err := jsontext.AppendQuote(nil, text)
		noError(t, err)
		if want = bytes.ReplaceAll(want, []byte{0x7f}, []byte(`\u007f`)); !bytes.Equal(b, want) {
			t.Fatalf("%q: got %s, the oracle has %s", text, b, want)
		}
		same, err := AppendText(nil, []byte(text))
		if err != nil || !bytes.Equal(same, b) {
			t.Fatalf("%q: as bytes %s: %v", text, same, err)
		}
	})
}
