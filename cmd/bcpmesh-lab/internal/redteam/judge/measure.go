package judge

import (
	"encoding/json"
	"errors"
	"slices"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/text"
)

// folds is how many parts a cross-validation has.
const folds = 5

// How many of the benign sentences of core may be a strong sign, and a sign at all.
const (
	strongShare = 0.0065
	weakShare   = 0.05
)

// score is what a model says of a row as a whole.
func (m *model) score(r *row) float64 {
	sum := m.bias
	for key := range r.keys {
		sum += m.weights[key]
	}
	return sum
}

// fitted is what cross-validation gives: the limits, and for each fold the rules of a table that has not seen it.
type fitted struct {
	limits limits
	rules  [folds]*text.Rules
}

func (r *row) fold() int { return int(r.draw % folds) }

// validate trains on all folds but one, in turn.
func crossValidate(rows, own []row) (*fitted, error) {
	var models [folds]*model
	var benign []float64
	for fold := range folds {
		training := slices.Clone(own)
		for _, r := range rows {
			if r.fold() != fold && r.Kind != kindPlain {
				training = append(training, r)
			}
		}
		models[fold] = train(training)
		for _, r := range rows {
			if r.fold() == fold && slices.Contains(core, r.Kind) {
				benign = append(benign, models[fold].score(&r))
			}
		}
	}
	if len(benign) == 0 {
		return nil, errors.New("there are no benign sentences")
	}
	slices.Sort(benign)
	at := func(share float64) float64 { return benign[int(float64(len(benign))*(1-share))] }
	f := &fitted{limits: limits{weak: at(weakShare), strong: at(strongShare)}}
	for fold, m := range models {
		f.rules[fold] = text.DefaultRules().WithWeights(m.table(f.limits))
	}
	return f, nil
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
func (f *fitted) figures(rows []row, groups func(*row) []string) (map[string]*figure, error) {
	var by [folds]*bcp.Validator
	for fold := range by {
		var err error
		if by[fold], err = validator(f.rules[fold]); err != nil {
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
