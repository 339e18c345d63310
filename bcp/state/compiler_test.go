package state

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// Equal specs under equal settings are compiled once; where anything differs that a
// validator depends on, they are not shared.
//
// covers P1.3, P4.1
func TestCompilerSharesEqualSpecs(t *testing.T) {
	t.Parallel()
	spec := bcp.Spec{Category: 1, Fields: []bcp.Field{{Name: "kind", Type: bcp.TypeEnum, Values: []string{"mail", "chat"}}}}
	settings := bcp.Settings{Constraints: noConstraints}.OfSubscription(bcp.Subscription{}, 2)
	var c bcp.Compiler
	first := must(c.Compile(spec, settings))
	again := spec
	again.Fields = slices.Clone(spec.Fields)
	again.Fields[0].Values = []string{"mail", "chat"}
	if v, err := c.Compile(again, settings); err != nil || v != first {
		t.Errorf("an equal spec: %v, %v", v != first, err)
	}
	for name, edit := range map[string]func(*bcp.Settings){ // the key has all fields but those of the mesh
		"OnAnomaly":     func(s *bcp.Settings) { s.OnAnomaly = bcp.AnomalyReject },
		"ApprovalSlots": func(s *bcp.Settings) { s.ApprovalSlots = 3 },
		"PublishWhen":   func(s *bcp.Settings) { s.PublishWhen = `kind == "mail"` },
	} {
		other := settings
		edit(&other)
		v, err := c.Compile(spec, other)
		failIf(t, err != nil || v == first, "another %s: shared %v, %v", name, v == first, err)
	}
	narrower := spec
	narrower.Fields = []bcp.Field{{Name: "kind", Type: bcp.TypeEnum, Values: []string{"mail", "call"}}}
	v, err := c.Compile(narrower, settings)
	failIf(t, err != nil || v == first || v.Prices() != first.Prices(), "another spec: shared %v, %v", v == first, err)
	for range 2 { // what is refused is not kept
		fails(t, errorOf(c.Compile(bcp.Spec{Category: 1}, settings)), nil, "a spec without fields was compiled")
	}
}

func noConstraints(string, []bcp.Variable) (bcp.Constraint, error) { return nil, nil }

// What is compiled before an ask is decided about is not compiled again, whether it is right
// or wrong; under other definitions, for another channel or another spec it is. What an ask
// is refused for anyway is found without compiling anything.
//
// covers P3.7, A-FLOODRESP
func TestPreparedAsksAreCompiledOnce(t *testing.T) {
	t.Parallel()
	compiled := 0
	config := Config{Mesh: edited(func(c *bcp.Channel) { c.MaxCategory, c.Subscriptions = 1, nil }), Constraints: func(expression string, variables []bcp.Variable) (bcp.Constraint, error) {
		compiled++
		return testConditions(expression, variables)
	}}
	s := must(New(config))
	spec := func(condition string) string {
		return `{"category":1,"fields":[{"name":"ok","type":"boolean"}],"constraints":["` + condition + `"]}`
	}
	wide := `{"category":2,"questions":[{"id":"q","question":"?","max_words":1,"expected_format":"boolean"}],"constraints":["q"]}`
	m := bcp.Moment{Now: time.Unix(1_800_000_000, 0), Fresh: "1", Salt: [16]byte{1}}
	for name, c := range map[string]struct {
		said, decided string
		edit          func(*Config, *bcp.ChannelKey)
		code          bcp.Code
		before, after int
	}{
		"the same":          {spec("ok"), spec("ok"), nil, "", 1, 0},
		"one that is wrong": {spec("no"), spec("no"), nil, bcp.InvalidQuery, 1, 0},
		"another spec":      {spec("ok"), strings.Replace(spec("ok"), `"ok"]`, `"ok>=1"]`, 1), nil, "", 1, 1},
		"another channel":   {spec("ok"), spec("ok"), func(_ *Config, key *bcp.ChannelKey) { key.Reader = "web" }, "", 1, 1},
		"other definitions": {spec("ok"), spec("ok"), func(c *Config, _ *bcp.ChannelKey) { c.Mesh = testMesh() }, "", 1, 1},
		"a wider category":  {wide, wide, nil, bcp.CategoryDenied, 0, 0},
		"junk":              {"{", "{", nil, bcp.Malformed, 0, 0},
		"no channel":        {spec("ok"), spec("ok"), func(_ *Config, key *bcp.ChannelKey) { key.Reader = "nobody" }, "", 0, 1},
	} {
		compiled, s.compiled = 0, map[compiledSpec]*bcp.Validator{}
		from, key := config, plannerMail
		if c.edit != nil {
			c.edit(&from, &key)
		}
		s.Adopt(from.Prepare(key, []byte(c.said)))
		before := compiled
		if d := s.DecideAsk(m, "planner", "mail", []byte(c.decided)); d.Code != c.code || before != c.before || compiled-before != c.after {
			t.Errorf("%s: %q, compiled %d and then %d, want %d and %d", name, d.Code, before, compiled-before, c.before, c.after)
		}
	}
}
