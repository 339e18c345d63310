package bcp_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// covers P2.2, P1.3
func TestNoAnswerMayExceedMaxAnswerBytes(t *testing.T) {
	t.Parallel()
	lists := map[string][]string{"long": {"b", strings.Repeat("a", bcp.MaxValueChars)}}
	id := func(i int) string { return fmt.Sprintf("%0*d", 64, i) }
	questions := func(format, more string) bcp.Spec {
		s := bcp.Spec{Category: 2}
		for i := range bcp.MaxQuestions {
			words := 1
			if i == 0 {
				words = bcp.MaxSpecWords - bcp.MaxQuestions + 1
			}
			q := bcp.Question{ID: id(i), Question: "?", MaxWords: words, ExpectedFormat: bcp.FormatShortText}
			if i == 0 && more != "" {
				q.ExpectedFormat, q.Vocabulary = bcp.FormatVocabulary, more
			} else if i > 0 {
				q.ExpectedFormat, q.Values = bcp.FormatEnum, []string{"b", strings.Repeat("a", bcp.MaxValueChars)}
			}
			s.Questions = append(s.Questions, q)
		}
		return s
	}
	fields := bcp.Spec{Category: 1}
	for i := range bcp.MaxFields {
		fields.Fields = append(fields.Fields, bcp.Field{Name: id(i), Type: bcp.TypeEnum, Values: []string{"b", strings.Repeat("a", bcp.MaxValueChars)}})
	}
	for name, tt := range map[string]struct {
		mesh bcp.Mesh
		spec bcp.Spec
	}{
		"text":       {bcp.Mesh{}, questions("", "")},
		"vocabulary": {bcp.Mesh{Vocabularies: lists}, questions("", "long")},
		"fields":     {bcp.Mesh{}, fields},
	} {
		v := must(bcp.Compile(tt.spec, bcp.Settings{Vocabularies: tt.mesh.Vocabularies}))
		failIf(t, v.MaxBytes() > tt.mesh.MaxAnswerBytes() || name != "fields" && v.MaxBytes() < tt.mesh.MaxAnswerBytes()*95/100,
			"%s: %d bytes, the bound is %d", name, v.MaxBytes(), tt.mesh.MaxAnswerBytes())
	}
	rapid.Check(t, func(t *rapid.T) {
		mesh := bcp.Mesh{Vocabularies: Vocabularies()}
		v, err := bcp.Compile(Specs().Draw(t, "spec"), bcp.Settings{Vocabularies: mesh.Vocabularies, Constraints: constraint.Compile})
		if err == nil && v.MaxBytes() > mesh.MaxAnswerBytes() {
			t.Fatalf("%d bytes, the bound is %d", v.MaxBytes(), mesh.MaxAnswerBytes())
		}
	})
}
