package definition

import (
	_ "embed" // the introduction
	"fmt"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp/lint"
)

//go:embed introduction.md
var introduction string

// Markdown returns the reference of definitions for people: a written
// introduction with examples, then every key of [Schema] and every code of
// [Codes]. It is the same at every call.
func Markdown() string {
	var b strings.Builder
	b.WriteString(introduction)
	writeNeeds(&b)
	b.WriteString("\n## Keys\n\nA default in `code` can be written as it is; other defaults are described in words. The last column is the rule that decides: P… of [the protocol](../bcp/PROTOCOL.md), and the ids of [the checklist](REQUIREMENTS.md).\n")
	for level := LevelMesh; level.String() != ""; level++ {
		fmt.Fprintf(&b, "\n### %s\n\n| key | holds | default | meaning | rule |\n|---|---|---|---|---|\n", heading(level))
		for i := range schema {
			if k := &schema[i]; k.Level == level {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, cell(k.holds()), cell(k.absent()), cell(k.meaning()), cell(k.Rule))
			}
		}
	}
	b.WriteString("\n## What `check` warns of\n\nA mesh with warnings runs. With `--json` each warning has its code.\n")
	writeCodes(&b, func(d CodeDoc) bool { return d.Warning && !isAdvice(d.Code) })
	b.WriteString("\n## What `check` advises\n\nAdvice is a warning about a mesh that is right but could be narrower. Each says what to write instead, as a line of YAML that loads and costs no more. Questions and directives are recognised by English words. There is no advice if they are ambiguous, or for a question with few known answers that is asked together with questions of free text.\n")
	writeCodes(&b, func(d CodeDoc) bool { return isAdvice(d.Code) })
	b.WriteString("\n## What `check` refuses\n\nA folder with one error is not loaded. All errors come at once, each with file, line, column and key.\n")
	writeCodes(&b, func(d CodeDoc) bool { return d.Error })
	return b.String()
}

// writeNeeds writes the table by which a category is chosen, which is the one
// that advice is made of.
func writeNeeds(b *strings.Builder) {
	b.WriteString("\n## Which category?\n\nThe lowest that satisfies the need. Can the answer be one of known options, a score, a yes or no? Category 1. Can the need be put as questions with short answers of a known form? Category 2. Category 3 is for the rest: it is rare, and a person reads every answer. `bcpmesh check` looks for the first line of this table that fits a question, and says if a lower category is enough.\n\nBudgets count nominal bits. capacity is a proven bound of the information in one push, without its timing.\n")
	b.WriteString("\n| need | category | example | write | nominal bits | capacity bits |\n|---|---|---|---|---|---|\n")
	for _, n := range lint.Needs() {
		fmt.Fprintf(b, "| %s | %d | %s | `%s` | %s | %s |\n", cell(n.Name), n.Spec.Category, cell(n.Example), cell(n.Write), n.Prices.Nominal, n.Prices.Capacity)
	}
}

func isAdvice(code string) bool { return Problem{Code: code}.Advice() }

func writeCodes(b *strings.Builder, which func(CodeDoc) bool) {
	b.WriteString("\n| code | meaning |\n|---|---|\n")
	for _, d := range codeDocs {
		if which(d) {
			fmt.Fprintf(b, "| `%s` | %s |\n", d.Code, cell(d.Doc))
		}
	}
}

func heading(level Level) string {
	if level == LevelMesh {
		return "`" + level.String() + "`"
	}
	return capital(level.String())
}

// holds says what the value may be.
func (k *Key) holds() string {
	switch {
	case k.Child != 0:
		anchor := strings.ToLower(strings.ReplaceAll(k.Child.String(), " ", "-"))
		return strings.TrimSuffix(expected(k), k.Child.String()) + "[" + k.Child.String() + "](#" + anchor + ")"
	case k.Type == TypeWord:
		return "`" + strings.Join(k.Words, "`, `") + "`"
	default:
		return expected(k)
	}
}

// absent says what holds without the key.
func (k *Key) absent() string {
	switch {
	case k.Required && k.DefaultRule != "":
		return "**required**; " + k.DefaultRule
	case k.Required:
		return "**required**"
	case k.Default != "":
		return "`" + k.Default + "`"
	default:
		return k.DefaultRule
	}
}

func (k *Key) meaning() string {
	switch {
	case k.ControllerOnly:
		return k.Doc + " *" + controllerOnly + "*"
	default:
		return k.Doc
	}
}

// cell makes text fit for one cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
