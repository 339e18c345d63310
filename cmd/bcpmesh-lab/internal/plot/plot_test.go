package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
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

var pair = Plot{Title: "<bits>", Unit: "bits", Limit: 8, LimitName: "budget 8", Groups: []string{"a", "", "", "d"},
	Series: []Series{{"one", []float64{1, 2, 2, 0}}, {"two", []float64{0, 2, 6, 0}}}}

// A picture is well-formed whatever the labels are, one or several, and has a bar for each value, or a line.
func TestSVG(t *testing.T) {
	t.Parallel()
	line := Plot{Kind: Line, Limit: 8, LimitName: "budget 8", Groups: pair.Groups, Series: pair.Series[:1]}
	for n, picture := range map[int][]byte{8: SVG(pair), 16: SVG(pair, pair), 4: SVG(line), 0: SVG(Plot{})} {
		shapes := 0
		decoder := xml.NewDecoder(bytes.NewReader(picture))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && (e.Name.Local == "circle" || e.Name.Local == "rect" && e.Attr[1].Name.Local == "y" && e.Attr[1].Value != "34") {
				shapes++
			}
		}
		if shapes != n || bytes.Contains(picture, []byte("<bits>")) || n > 0 && !bytes.Contains(picture, []byte("budget 8")) {
			t.Errorf("%d shapes, want %d:\n%s", shapes, n, picture)
		}
	}
	// 8 of 10 bits are 200 of the field's 250, and 6 are 150.
	if !bytes.Contains(SVG(pair), []byte(`<path d="M80 110.0h620" stroke="#b3261e"`)) || !bytes.Contains(SVG(pair), []byte(`y="160.0" width="60.0" height="150.0"`)) {
		t.Errorf("the heights are wrong:\n%s", SVG(pair))
	}
}
