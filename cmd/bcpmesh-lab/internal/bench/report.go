package bench

import (
	"fmt"
	"strings"
	"time"
)

// Report is the result of one run.
type Report struct {
	Date    time.Time `json:"date"`
	Version string    `json:"version"`
	Quick   bool      `json:"quick"`
	Round   Span      `json:"round"` // how long one measurement took
	Rounds  int       `json:"rounds"`
	Took    Span      `json:"took"`
	Machine Machine   `json:"machine"`
	Figures []Figure  `json:"figures"`
	Loads   []Load    `json:"loads"`
	Curves  []Curve   `json:"curves"`
}

// Machine describes the machine of a run. LoadBefore and LoadAfter are averages
// of the run queue over a minute: other load before the run, and all load at
// its end.
type Machine struct {
	System     string `json:"system"`
	Processor  string `json:"processor"`
	Cores      int    `json:"cores"`
	Go         string `json:"go"`
	FsyncP50   Span   `json:"fsync_p50"` // of 4 KiB more in a file of the state folder
	FsyncP99   Span   `json:"fsync_p99"`
	LoadBefore string `json:"load_before"`
	LoadAfter  string `json:"load_after"`
}

// Figure is one line of the table: a value, and its floor. Ratio is value to
// floor if there is a floor.
type Figure struct {
	Name     string  `json:"name"` // of the measurement: what --only takes
	What     string  `json:"what"`
	InFlight int     `json:"in_flight,omitempty"`
	Value    float64 `json:"value"`
	Floor    float64 `json:"floor,omitempty"`
	FloorIs  string  `json:"floor_is,omitempty"`
	Unit     string  `json:"unit"`
	Ratio    float64 `json:"ratio,omitempty"`
	Target   string  `json:"target,omitempty"`
	Met      *bool   `json:"met,omitempty"` // nil where there is no target
	// NotMeasured says why there is no value.
	NotMeasured string `json:"not_measured,omitempty"`
}

// Load is the result of one path with so many messages in flight: the medians
// of the rounds.
type Load struct {
	Name      string  `json:"name"`
	Path      string  `json:"path"`
	InFlight  int     `json:"in_flight"`
	P50       Span    `json:"p50"`
	P99       Span    `json:"p99"`
	Max       Span    `json:"max"`
	Rate      float64 `json:"rate"`      // a second
	Processor float64 `json:"processor"` // of server and gateway, microseconds a message
	// Agents is the use of the agents' process, in microseconds a message.
	Agents float64 `json:"agents,omitzero"`
	// Of a mesh: decisions a record of the journal, bytes a message in the journal
	// and in all streams.
	Batch   float64 `json:"batch,omitzero"`
	Journal float64 `json:"journal_bytes,omitzero"`
	Streams float64 `json:"stream_bytes,omitzero"`
}

// Curve is how a cost grows.
type Curve struct {
	Name  string  `json:"name"`
	Over  string  `json:"over"`
	Unit  string  `json:"unit"`
	Steps []Point `json:"steps"`
}

// Point is one step of a curve.
type Point struct {
	At    int     `json:"at"`
	Value float64 `json:"value"`
}

// bound is a target for a figure, or for its ratio if it has a floor.
type bound struct {
	most, least float64
	of          string
}

func atMost(v float64, of string) bound  { return bound{most: v, of: of} }
func atLeast(v float64, of string) bound { return bound{least: v, of: of} }

func (b bound) String() string {
	if b.most > 0 {
		return strings.TrimSpace(fmt.Sprintf("at most %g%s", b.most, b.of))
	}
	return fmt.Sprintf("at least %g%s", b.least, b.of)
}

// add judges a figure and adds it.
func (r *Report) add(f Figure, b *bound) {
	judged := f.Value
	if f.FloorIs != "" && f.Floor > 0 {
		f.Ratio = f.Value / f.Floor
		judged = f.Ratio
	}
	if b != nil {
		met := judged <= b.most || b.most == 0
		met = met && judged >= b.least
		f.Target, f.Met = b.String(), &met
	}
	r.Figures = append(r.Figures, f)
}

// Missed returns the figures that missed their target.
func (r *Report) Missed() []Figure {
	var missed []Figure
	for _, f := range r.Figures {
		if f.Met != nil && !*f.Met {
			missed = append(missed, f)
		}
	}
	return missed
}

// FigureHeader are the columns of the table of figures.
var FigureHeader = []string{"figure", "in flight", "value", "floor", "ratio", "target", "result"}

// FigureRows are its cells.
func (r *Report) FigureRows() [][]string {
	var rows [][]string
	for _, f := range r.Figures {
		row := []string{f.Name + ": " + f.What, number(f.InFlight), amount(f.Value, f.Unit), "", "", f.Target, f.Result()}
		if f.NotMeasured != "" {
			row[2] = "not measured: " + f.NotMeasured
		}
		if f.FloorIs != "" {
			row[3], row[4] = amount(f.Floor, f.Unit)+" "+f.FloorIs, fmt.Sprintf("%.2f", f.Ratio)
		}
		rows = append(rows, row)
	}
	return rows
}

// Result is met, MISSED, or empty if there is no target.
func (f Figure) Result() string {
	switch {
	case f.Met == nil:
		return ""
	case *f.Met:
		return "met"
	}
	return "MISSED"
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// span writes a duration with three digits.
func span(d Span) string { return amount(float64(d)/float64(time.Millisecond), "ms") }

// amount writes a number with three digits or more and its unit.
func amount(v float64, unit string) string {
	digits := 0
	for limit := 100.0; v < limit && v > 0 && digits < 3; limit /= 10 {
		digits++
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if v == float64(int64(v)) && v < 100 {
		text = fmt.Sprintf("%.0f", v)
	}
	return text + " " + unit
}
