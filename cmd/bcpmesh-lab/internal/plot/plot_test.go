package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestAmount(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0 x", 3: "3 x", 0.12345: "0.123 x", 1.2345: "1.23 x", 12.345: "12.3 x", 1234.5: "1234 x", 99.96: "100.0 x"} {
		if got := Amount(v, "x"); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

var areas = Plot{Title: "<bits>", Unit: "bits", Kind: Areas, Limit: 8, LimitName: "budget 8", Groups: []string{"a", "", "", "d"},
	Series: []Series{{"one", []float64{1, 2, 2, 0}}, {"two", []float64{0, 2, 6, 0}}}}

// What is drawn is what was given: heights and the limit, in a text.
func TestText(t *testing.T) {
	t.Parallel()
	const want = `  10 bits ┤    
          ┤╌╌▒╌ budget 8
   6 bits ┤  ▒ 
          ┤ ▒▒ 
          ┤░░░ 
        0 └────
           a  d
           ░ one
           ▒ two
`
	if got := areas.Text(5); got != want {
		t.Errorf("got\n%s", got)
	}
	empty := Plot{Kind: Areas}
	if got := empty.Text(2); strings.Count(got, "\n") != 4 {
		t.Errorf("an empty plot is\n%s", got)
	}
}

// A picture is well-formed whatever the labels are, one or several.
func TestSVG(t *testing.T) {
	t.Parallel()
	for n, picture := range map[int][]byte{1: SVG(areas), 2: SVG(areas, areas), 0: SVG(Plot{Kind: Areas})} {
		polygons := 0
		decoder := xml.NewDecoder(bytes.NewReader(picture))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polygon" {
				polygons++
			}
		}
		if polygons != 2*n || bytes.Contains(picture, []byte("<bits>")) || n > 0 && !bytes.Contains(picture, []byte("budget 8")) {
			t.Errorf("%d plots:\n%s", n, picture)
		}
	}
	// 8 of 10 bits are 200 of the field's 250: the two areas meet at 2.
	if !bytes.Contains(SVG(areas), []byte(`<path d="M80 110.0h620" stroke="#b3261e"`)) || !bytes.Contains(SVG(areas), []byte("390.0,110.0 545.0,110.0")) {
		t.Errorf("the heights are wrong:\n%s", SVG(areas))
	}
}
