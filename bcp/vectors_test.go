package bcp_test

// The vectors are in testdata/vectors.
//
// A file is a txtar archive (golang.org/x/tools/txtar) about one spec. Its
// comment names the rules that it tests. Its first sections are
//
//   - settings: optional, see [Settings].
//   - spec: the spec in JSON, exactly as it would be asked.
//   - prices: what the spec costs, or "invalid" and the error of its key.
//
// and then each case is two sections, the answer alone under NAME.json (text;
// the last newline is not part of it), NAME.hex (JSON in hexadecimal, for bytes
// that a text file cannot hold) or NAME.msgpack (MessagePack in hexadecimal),
// and NAME.want with the verdict as [Describe] writes it. A file about specs
// has no answers but NAME.spec, and prices in NAME.want.

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// Group is one file of vectors: a spec, its prices and its cases.
type Group struct {
	File     string // base name
	Comment  string
	Spec     []byte // JSON
	Settings []byte // JSON, or nil
	Prices   string // as DescribePrices writes them
	Cases    []Case
}

// Case is one answer and what becomes of it, or one spec and what it costs.
type Case struct {
	Name     string
	Raw      []byte
	Encoding bcp.Encoding
	IsSpec   bool
	Want     string // as Describe writes it; for a spec like Group.Prices

	source string // the section as it is in the file
	suffix string
}

// Settings are the settings of a group, by their wire names.
type Settings struct {
	OnAnomaly     bcp.OnAnomaly       `json:"on_anomaly"`
	PreserveCase  bool                `json:"preserve_case"`
	Vocabularies  map[string][]string `json:"vocabularies"`
	ReleaseSlots  uint64              `json:"release_slots"`
	ApprovalSlots uint64              `json:"approval_slots"`
	Subscriptions int                 `json:"subscriptions"`
}

// Compile compiles the group's spec under its settings, with constraints in
// CEL.
func (g *Group) Compile() (*bcp.Validator, error) { return g.compile(g.Spec) }

func (g *Group) compile(b []byte) (*bcp.Validator, error) {
	spec, err := bcp.ParseSpec(b)
	if err != nil {
		return nil, err
	}
	var s Settings
	if g.Settings != nil {
		if err := json.Unmarshal(g.Settings, &s, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("%s: settings: %w", g.File, err)
		}
	}
	return bcp.Compile(spec, bcp.Settings{OnAnomaly: s.OnAnomaly, PreserveCase: s.PreserveCase, Vocabularies: s.Vocabularies,
		ReleaseSlots: s.ReleaseSlots, ApprovalSlots: s.ApprovalSlots, Subscriptions: s.Subscriptions, Constraints: constraint.Compile})
}

// Run returns what becomes of a case, to be compared with its Want. v is the
// compiled spec of the group; it may be nil where the case is a spec itself.
func (g *Group) Run(v *bcp.Validator, c Case) string {
	if !c.IsSpec {
		return Describe(v.Validate(c.Raw, c.Encoding))
	}
	return DescribePrices(g.compile(c.Raw))
}

// Load reads the groups of every .txtar file of a folder, in the order of
// their names.
func Load(folder fs.FS) (groups []Group) {
	for _, name := range must(fs.Glob(folder, "*.txtar")) {
		groups = append(groups, Parse(path.Base(name), must(fs.ReadFile(folder, name))))
	}
	return groups
}

// Parse reads one file.
func Parse(name string, b []byte) Group {
	archive := txtar.Parse(b)
	g := Group{File: name, Comment: string(archive.Comment)}
	for _, section := range archive.Files {
		text := strings.TrimSuffix(string(section.Data), "\n")
		suffix := path.Ext(section.Name)
		switch section.Name {
		case "spec":
			g.Spec = []byte(text)
			continue
		case "settings":
			g.Settings = []byte(text)
			continue
		case "prices":
			g.Prices = text
			continue
		}
		if suffix == ".want" {
			last := len(g.Cases) - 1
			if last < 0 || g.Cases[last].Name+suffix != section.Name {
				panic(name + ": " + section.Name + " does not follow a case of its name")
			}
			g.Cases[last].Want = text
			continue
		}
		c := Case{Name: strings.TrimSuffix(section.Name, suffix), Encoding: bcp.JSON, source: text, suffix: suffix}
		switch suffix {
		case ".json", ".spec":
			c.Raw, c.IsSpec = []byte(text), suffix == ".spec"
		case ".msgpack", ".hex":
			c.Raw = must(hex.DecodeString(strings.Join(strings.Fields(text), "")))
			if suffix == ".msgpack" {
				c.Encoding = bcp.MessagePack
			}
		default:
			panic(name + ": " + section.Name + ": expected .json, .hex, .msgpack, .spec or .want")
		}
		g.Cases = append(g.Cases, c)
	}
	return g
}

// Format writes the group as a file again.
func (g *Group) Format() []byte {
	archive := txtar.Archive{Comment: []byte(g.Comment)}
	add := func(name, text string) {
		archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(text + "\n")})
	}
	if g.Settings != nil {
		add("settings", string(g.Settings))
	}
	if g.Spec != nil {
		add("spec", string(g.Spec))
		add("prices", g.Prices)
	}
	for _, c := range g.Cases {
		add(c.Name+c.suffix, c.source)
		add(c.Name+".want", c.Want)
	}
	return txtar.Format(&archive)
}

// Describe writes a verdict: the outcome with its code, the field and the
// reason of a rejection, the delivered bytes, the anomalies.
func Describe(v bcp.Verdict) string {
	var b strings.Builder
	b.WriteString(v.Outcome.String())
	if v.Reason != 0 {
		fmt.Fprintf(&b, " %s\n", v.Reason.Code())
		if v.Field != "" {
			fmt.Fprintf(&b, "%s: ", v.Field)
		}
		b.WriteString(v.Reason.String())
	}
	if !v.Answer.IsZero() {
		b.WriteString("\n" + v.Answer.String())
	}
	if len(v.Anomalies) > 0 {
		b.WriteString("\nanomalies " + strings.Join(v.Anomalies, " "))
	}
	return b.String()
}

// DescribePrices writes what a spec costs and the size limit of its answers, or
// why it was refused. Only a *[bcp.SpecError] has a text of our own; whatever
// else a decoder says is "not a spec".
func DescribePrices(v *bcp.Validator, err error) string {
	var invalid *bcp.SpecError
	switch {
	case errors.As(err, &invalid):
		return "invalid " + invalid.Error()
	case err != nil:
		return "invalid: not a spec"
	}
	p := v.Prices()
	s := fmt.Sprintf("nominal %s\ncapacity %s", p.Nominal, p.Capacity)
	if p.FailedCapacity != 0 {
		s += fmt.Sprintf("\nfailed nominal %s\nfailed capacity %s", p.FailedNominal, p.FailedCapacity)
	}
	return s + fmt.Sprintf("\nmax bytes %d", v.MaxBytes())
}
