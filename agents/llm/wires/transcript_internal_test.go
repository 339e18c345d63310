package wires

import (
	"bytes"
	"errors"
	"testing"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// A transcript takes lines up to its last byte, and then none, so that what is there can be read.
func TestFull(t *testing.T) {
	t.Parallel()
	var file bytes.Buffer
	script := &llm.Script{Turns: make([]llm.ScriptTurn, 4)}
	w, err := NewRecorder(script, &file)
	noError(t, err)
	request := &llm.Request{Model: "m"}
	before := file.Len()
	if _, err := w.Do(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.left = file.Len() - before // room for one more
	_, err = w.Do(t.Context(), request)
	_, past := w.Do(t.Context(), request)
	failIf(t, err != nil || !errors.Is(past, errTranscriptFull), "%v, and one past it: %v", err, past)
	if lines, err := readTranscript(file.Bytes()); err != nil || len(lines) != 2 || lines[1].N != 2 {
		t.Errorf("%v, %+v", err, lines)
	}
	if _, err := w.Do(t.Context(), request); !errors.Is(err, errTranscriptFull) || len(script.Requests) != 3 {
		t.Errorf("after it: %v, %d calls", err, len(script.Requests))
	}
}

func FuzzReadTranscript(f *testing.F) {
	f.Add([]byte(transcriptFormat + "\n" + `{"n":1,"kind":"model","model":"m","request":{"model":"","turns":[]},"failure":"auth"}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		lines, err := readTranscript(content)
		if err != nil {
			failIf(t, !errors.Is(err, errTranscript), "%v", err)
			return
		}
		var file bytes.Buffer
		w := must(NewRecorder(nil, &file))(t)
		for _, l := range lines {
			noError(t, w.write(l))
		}
		again, err := readTranscript(file.Bytes())
		failIf(t, err != nil || len(again) != len(lines),
			"what was read cannot be written and read: %v, %d of %d", err, len(again), len(lines))
	})
}
