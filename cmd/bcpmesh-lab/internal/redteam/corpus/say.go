package corpus

import (
	"maps"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// say has the validator judge an answer.
func (f *form) say(texts map[int]string) (said, error) {
	answer, err := f.answer(texts)
	if err != nil {
		return said{}, err
	}
	return said{f, answer, f.validator.Validate([]byte(answer), bcp.JSON)}, nil
}

// cut says as many words as the form lets through, if it does not take the whole.
func (f *form) cut(member int, text string, whole said) (said, error) {
	if whole.verdict.Outcome != bcp.Reject || whole.verdict.Reason == bcp.ReasonAnomaly {
		return whole, nil
	}
	last := whole
	for n := f.maxWords(member); n >= least; n -= max(1, n/4) {
		s, err := f.say(map[int]string{member: pieces(text, n)[0]})
		if err != nil || s.verdict.Outcome != bcp.Reject || s.verdict.Reason == bcp.ReasonAnomaly {
			return s, err
		}
		last = s
	}
	return last, nil
}

// sayInParts says a text in several answers, until as much has arrived as counts.
func (f *form) sayInParts(member int, text string) (list []said, err error) {
	for _, piece := range pieces(text, f.maxWords(member)) {
		s, err := f.say(map[int]string{member: piece})
		if err != nil {
			return nil, err
		}
		if list = append(list, s); sumFate(list) >= arrived {
			break
		}
	}
	return list, nil
}

// divided says a text in the questions of one answer, as far as they go.
func (f *form) divided(text string) (said, error) {
	texts := map[int]string{}
	rest := text
	for _, member := range f.texts {
		piece := pieces(rest, f.maxWords(member))[0]
		if rest == "" || len(words(piece)) == 0 {
			break
		}
		texts[member], rest = piece, rest[len(piece):]
	}
	return f.say(texts)
}

// declared reports whether the operator wrote a value.
func (f *form) declared(name, value string) bool {
	for _, field := range f.spec.Fields {
		if field.Name == name && slices.Contains(field.Values, value) {
			return true
		}
	}
	for _, q := range f.spec.Questions {
		if q.ID == name && (slices.Contains(q.Values, value) || q.ExpectedFormat == bcp.FormatVocabulary) {
			return true
		}
	}
	return false
}

// offer may put an answer into the sample that is sent through a mesh, except long
// answers and those to a query that a person must first approve.
func (r *runner) offer(row string, s said) {
	if len(s.answer) > longestPlayed || s.form.subscription == "" && s.form.spec.Category == 3 {
		return
	}
	key := row + outcomeWord(s.verdict.Outcome)
	r.met[key]++
	if len(r.sample[key]) < perKind {
		r.sample[key] = append(r.sample[key], s)
	} else if at := r.random.IntN(r.met[key]); at < perKind {
		r.sample[key][at] = s
	}
}

// chosen is the sample, in a fixed order.
func (r *runner) chosen() (list []said) {
	for _, key := range slices.Sorted(maps.Keys(r.sample)) {
		list = append(list, r.sample[key]...)
	}
	return list
}

// outcomeWord returns the word that a Reader gets for an answer.
func outcomeWord(o bcp.Outcome) string {
	switch o {
	case bcp.Accept:
		return "delivered"
	case bcp.Hold:
		return "held"
	}
	return "refused"
}
