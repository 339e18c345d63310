package replay

import (
	"bytes"
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A transcript takes lines up to its last byte, and then none, so that what is there can be read.
func TestFull(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	w, err := NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	line := Line{Kind: End, Conversation: "1", Response: jsontext.Value(`{}`)}
	before := file.Len()
	if err := w.Write(line); err != nil {
		t.Fatal(err)
	}
	w.left = file.Len() - before // room for one more
	for range 2 {
		if err = w.Write(line); errors.Is(err, ErrFull) {
			break
		}
	}
	if lines, perr := Parse(file.Bytes()); !errors.Is(err, ErrFull) || perr != nil || len(lines) != 2 || lines[1].N != 2 {
		t.Errorf("%v, %v, %+v", err, perr, lines)
	}
	if err := w.Write(Line{Kind: End}); !errors.Is(err, ErrFull) {
		t.Errorf("a shorter line after it: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(format + "\n" + `{"n":1,"kind":"end","conversation":"1","response":{"a":1}}` + "\n"))
	f.Add([]byte(format + "\n" + `{"n":1,"kind":"model","model":"m","request":{"model":"","turns":[]},"failure":"auth"}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		lines, err := Parse(content)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Error(err)
			}
			return
		}
		var file bytes.Buffer
		w, err := NewWriter(&file)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if err := w.Write(l); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Parse(file.Bytes())
		if err != nil || len(again) != len(lines) {
			t.Errorf("what was read cannot be written and read: %v, %d of %d", err, len(again), len(lines))
		}
	})
}
