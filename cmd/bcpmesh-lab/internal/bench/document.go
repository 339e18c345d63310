package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-lab/internal/section"
)

// String describes the machine in one line.
func (m Machine) String() string {
	processor := m.Processor
	if processor != "" {
		processor = ", " + processor
	}
	text := fmt.Sprintf("%d cores%s, %s, %s; fsync of 4 KiB takes %s (p50), %s (p99)", m.Cores, processor, m.System, m.Go, span(m.FsyncP50), span(m.FsyncP99))
	if m.LoadBefore != "" {
		text += fmt.Sprintf("; load average %s before and %s at the end", m.LoadBefore, m.LoadAfter)
	}
	return text
}

// figuresFile is the report, in a folder beside the document.
const figuresFile = "figures.json"

// Markdown writes the section of a document about this run.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s with %s: %s.\n", r.Date.Format("2006-01-02 15:04 UTC"), r.Version, r.Machine)
	fmt.Fprintf(&b, "Medians of %d rounds of %s; the whole run took %s. ", r.Rounds, r.Round, r.Took)
	if missed := r.Missed(); len(missed) == 0 {
		b.WriteString("Every target is met.\n")
	} else {
		fmt.Fprintf(&b, "Targets that are missed: %d.\n", len(missed))
	}
	b.WriteString("\n| figure | in flight: value (ratio to its floor) | target |\n|---|---|---|\n")
	for _, row := range r.targetRows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
	}
	return b.String()
}

// targetRows are the figures that have a target, one row for all loads of a figure. The
// others are in the file of figures alone.
func (r *Report) targetRows() [][]string {
	var rows [][]string
	for _, f := range r.Figures {
		if f.Target == "" {
			continue
		}
		value := amount(f.Value, f.Unit)
		if f.InFlight > 0 {
			value = fmt.Sprintf("%d: %s", f.InFlight, value)
		}
		if f.FloorIs != "" {
			value += fmt.Sprintf(" (%.2f)", f.Ratio)
		}
		switch {
		case f.NotMeasured != "":
			value = "not measured: " + f.NotMeasured
		case !*f.Met:
			value += " missed"
		}
		row := []string{f.Name + ": " + f.What, value, f.Target}
		if last := len(rows) - 1; last >= 0 && rows[last][0] == row[0] && rows[last][2] == row[2] {
			rows[last][1] += "; " + value
			continue
		}
		rows = append(rows, row)
	}
	return rows
}

// CheckFiles says before a run whether [Report.WriteFiles] could replace the
// tables of the document next to the folder, if there is one.
func CheckFiles(folder string) error {
	text, err := os.ReadFile(documentPath(folder))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = (&Report{}).replaceSection(text)
	}
	return err
}

func documentPath(folder string) string { return filepath.Clean(folder) + ".md" }

// WriteFiles writes the report to a folder, which it creates. If
// there is a document next to the folder, with its name and .md, its tables are
// replaced.
func (r *Report) WriteFiles(folder string) error {
	document := documentPath(folder)
	text, err := os.ReadFile(document)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	known := err == nil
	if known {
		if text, err = r.replaceSection(text); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	report, err := json.Marshal(r, json.Deterministic(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, figuresFile), append(report, '\n'), 0o644); err != nil {
		return err
	}
	if !known {
		return nil
	}
	return os.WriteFile(document, text, 0o644)
}

func (r *Report) replaceSection(text []byte) ([]byte, error) {
	return section.Replace(text, "bench", r.Markdown())
}
