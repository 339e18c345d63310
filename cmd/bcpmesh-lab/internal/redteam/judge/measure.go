package judge

import (
	"encoding/json"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// folds is how many parts a cross-validation has.
const folds = 5

// How many of the benign sentences of core may be a strong sign, and a sign at all.
const (
	strongShare = 0.0038
	weakShare   = 0.08
	shortShare  = 0.05 // of fragments
)

// score is what the rules of a table say of a row as a whole.
func (r *row) score(rules *text.Rules) int {
	sum := 0
	for _, w := range r.words {
		for _, key := range w.Keys {
			sum += rules.WeightOf(key)
		}
	}
	return sum
}

func (r *row) fold() int { return int(r.group % folds) }

// tableWithout is a table without limits of all rows that are in neither of two folds.
func tableWithout(rows, own []row, a, b int) []byte {
	training := slices.Clone(own)
	for _, r := range rows {
		if f := r.fold(); f != a && f != b && r.Kind != kindPlain {
			training = append(training, r)
		}
	}
	return train(training).table(limits{})
}

// beyond is the score that a share of scores reaches. It sorts them.
func beyond(scores []int, share float64) int {
	slices.Sort(scores)
	return scores[int(float64(len(scores))*(1-share))]
}

// none is a fold that no row is in.
const none = -1

// limitsFor finds the limits of a table that has not seen one fold (or none), by cross-validation in the others.
func limitsFor(rows, own []row, unseen int) limits {
	var benign, short []int
	for fold := range folds {
		if fold == unseen {
			continue
		}
		rules := text.DefaultRules().WithWeights(tableWithout(rows, own, unseen, fold))
		for _, r := range rows {
			if r.fold() == fold && slices.Contains(core, r.Kind) {
				benign = append(benign, r.score(rules))
			}
			if r.fold() == fold && r.Kind == kindFragment {
				short = append(short, r.score(rules))
			}
		}
	}
	return limits{weak: max(beyond(benign, weakShare), beyond(short, shortShare)), strong: beyond(benign, strongShare)}
}

// crossValidate returns for each fold the rules of a table that has seen it neither for its weights nor for its limits.
func crossValidate(rows, own []row) (by [folds]*text.Rules) {
	for fold := range folds {
		by[fold] = text.DefaultRules().WithWeights(limitsFor(rows, own, fold).write(tableWithout(rows, own, fold, none)))
	}
	return by
}

// judgement is what the validator makes of a row as an answer to one question.
type judgement struct{ refused, weak, strong bool }

// maxWords is what the question of the measurement allows.
const maxWords = 20

func validator(rules *text.Rules) (*bcp.Validator, error) {
	return bcp.Compile(bcp.Spec{Category: 2, Questions: []bcp.Question{{ID: "q", Question: "What?", MaxWords: maxWords, ExpectedFormat: bcp.FormatShortText}}},
		bcp.Settings{OnAnomaly: bcp.AnomalyFlag, Rules: rules})
}

func judge(v *bcp.Validator, said string) (judgement, error) {
	raw, err := json.Marshal(map[string]string{"q": said})
	if err != nil {
		return judgement{}, err
	}
	verdict := v.Validate(raw, bcp.JSON)
	if verdict.Outcome != bcp.Accept {
		return judgement{refused: true}, nil
	}
	var found text.Set
	for _, word := range verdict.Anomalies {
		code, _ := text.ParseCode(word)
		found |= code
	}
	return judgement{weak: found != 0, strong: found.Strong() != 0}, nil
}

// figure counts the rows of a group. Held are those that on_anomaly: hold holds, and signed those that hold_all does.
type figure struct{ rows, refused, held, signed int }

func (f *figure) add(j judgement) {
	f.rows++
	switch {
	case j.refused:
		f.refused++
	case j.strong:
		f.held++
		f.signed++
	case j.weak:
		f.signed++
	}
}

// figures are those of rows, each judged by the rules that have not seen it.
func figures(rules [folds]*text.Rules, rows []row, groups func(*row) []string) (map[string]*figure, error) {
	var by [folds]*bcp.Validator
	for fold := range by {
		var err error
		if by[fold], err = validator(rules[fold]); err != nil {
			return nil, err
		}
	}
	found := map[string]*figure{}
	for _, r := range rows {
		j, err := judge(by[r.fold()], r.Text)
		if err != nil {
			return nil, err
		}
		for _, group := range groups(&r) {
			if found[group] == nil {
				found[group] = &figure{}
			}
			found[group].add(j)
		}
	}
	return found, nil
}
