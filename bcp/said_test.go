package bcp_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// What was said in a checkpoint opens with its key, in its place, and tells only about how
// long it is.
//
// covers P11.5
func TestSaidIsSealed(t *testing.T) {
	t.Parallel()
	key := must(bcp.NewSealingKey([32]byte{1}))
	other, _ := bcp.NewSealingKey([32]byte{2})
	said := bcp.Said{Controller: "main", Reader: "mailer", Day: 20000, Bytes: []byte("kanarienvogel")}
	sealed := said
	if err := sealed.Seal(key, [16]byte{3}); err != nil || !sealed.Sealed {
		t.Fatal(err)
	}
	b, err := bcp.AppendSaid(nil, []bcp.Said{sealed})
	stopIf(t, err != nil || strings.Contains(string(b), "kanarienvogel"), "%v: sealed it is %q", err, b)
	if parts, rest, err := bcp.CutSaid(append(b, "rest"...)); err != nil || len(parts) != 1 || string(rest) != "rest" || string(parts[0].Bytes) != string(sealed.Bytes) {
		t.Errorf("it comes back as %+v, %q, %v", parts, rest, err)
	}
	opened := sealed
	err = opened.Open(key)
	failIf(t, err != nil || opened.Sealed || string(opened.Bytes) != "kanarienvogel", "opened it is %+v, %v", opened, err)
	short := said
	short.Bytes = []byte("a")
	if err := short.Seal(key, [16]byte{4}); err != nil || len(short.Bytes) != len(sealed.Bytes) {
		t.Errorf("%v: a byte takes %d, and 13 take %d", err, len(short.Bytes), len(sealed.Bytes))
	}
	for name, spoil := range map[string]func(*bcp.Said){
		"another Controller": func(s *bcp.Said) { s.Controller = "ann" },
		"another Reader":     func(s *bcp.Said) { s.Reader = "web" },
		"another day":        func(s *bcp.Said) { s.Day++ },
		"changed":            func(s *bcp.Said) { s.Bytes = append([]byte{1}, s.Bytes[1:]...) },
		"cut":                func(s *bcp.Said) { s.Bytes = s.Bytes[:8] },
		"nothing":            func(s *bcp.Said) { s.Bytes = nil },
		"not sealed":         func(s *bcp.Said) { s.Sealed = false },
	} {
		wrong := sealed
		if spoil(&wrong); !errors.Is(wrong.Open(key), bcp.ErrSealed) {
			t.Errorf("%s: it opens", name)
		}
	}
	fails(t, sealed.Open(other), bcp.ErrSealed, "another key")
	fails(t, said.Seal(key, [16]byte{}), bcp.ErrUnsealed, "without a salt")
	fails(t, said.Seal(bcp.SealingKey{}, [16]byte{3}), bcp.ErrUnsealed, "without a key")
	for _, b := range []string{"", "\x91\x92", "\x91\x95\x01\x02\x03\x04\x05"} {
		_, _, err := bcp.CutSaid([]byte(b))
		failIf(t, !errors.Is(err, bcp.ErrSaid), "%q: %v", b, err)
	}
}
