package define

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// The settings of a case mean what the same keys mean in a definition.
//
// covers P1.3
func TestParseSettings(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		settings      bcp.Settings
		subscriptions int
		wrong         string
	}{
		`null`:                                {},
		`{}`:                                  {},
		`{"on_anomaly":"flag"}`:               {settings: bcp.Settings{OnAnomaly: bcp.AnomalyFlag}},
		`{"preserve_case":true}`:              {settings: bcp.Settings{PreserveCase: true}},
		`{"release_interval":"1m"}`:           {settings: bcp.Settings{ReleaseSlots: 15, ApprovalSlots: 1440}},
		`{"release_interval":"7m"}`:           {settings: bcp.Settings{ReleaseSlots: 3, ApprovalSlots: 206}},
		`{"release_interval":"0s"}`:           {},
		`{"query_ttl":"16m"}`:                 {},
		`{"vocabularies":{"v":["b","A"]}}`:    {settings: bcp.Settings{Vocabularies: map[string][]string{"v": {"a", "b"}}}},
		`{"peer":"x","role":"controller"}`:    {},
		`{"approvers":["alice"]}`:             {},
		`{"on_\u0061nomaly":"fl\u0061g"}`:     {settings: bcp.Settings{OnAnomaly: bcp.AnomalyFlag}},
		`[]`:                                  {wrong: "settings: expected a JSON object"},
		`7`:                                   {wrong: "settings: expected a JSON object"},
		`{"on_anomaly":null}`:                 {wrong: "settings.on_anomaly: "},
		`{"time_zone":"UTC"}`:                 {wrong: "settings.time_zone: unknown key"},
		`{"peer":"x","peer":"y"}`:             {wrong: "settings: the key \"peer\" is there twice"},
		`{"vocabularies":{"v":[],"v":["a"]}}`: {wrong: "settings: a key is there twice"},
		`{"vocabularies":{"v":["\ud800"]}}`:   {wrong: "settings: a key is there twice, or a text is not valid Unicode"},
		`{"subscriptions":[{"id":"s","category":1,"fields":[{"name":"a","type":"boolean"}]}]}`: {subscriptions: 1},
		`{"subscriptions":[{"id":"s","category":1,"fields":[{"name":"a","type":"bool"}]}]}`:    {wrong: "settings.subscriptions[0].fields[0].type: "},
	} {
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			settings, subscriptions, err := parseSettings(jsontext.Value(raw))
			if want.wrong != "" {
				if err == nil || !strings.HasPrefix(err.Error(), want.wrong) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			settings.Constraints = nil
			want.settings.Sealed = raw != "null" // there may be sealed fields on any channel
			if diff := cmp.Diff(want.settings, settings, cmpopts.EquateEmpty()); diff != "" || subscriptions != want.subscriptions {
				t.Errorf("%d subscriptions, -want +got:\n%s", subscriptions, diff)
			}
		})
	}
}

// What is text in JSON is the same text to the loader of definitions, or is
// refused: nothing in it can end the text and add a key.
func TestSettingsKeepTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{`"`, `'`, `\`, "\n", "\r", ": ", ", ", "#", " #x", "{", "}", "---", "\u2028", "\u0085", "\ufeff", "\x00", "😀", "a", "&a", "*a", "!!x", "<<", "%"})
		name := strings.Join(rapid.SliceOfN(piece, 1, 6).Draw(t, "name"), "")
		quoted, err := json.Marshal(name)
		if err != nil {
			t.Fatal(err)
		}
		settings, _, err := parseSettings(jsontext.Value(`{"vocabularies":{` + string(quoted) + `:["a"]},"on_anomaly":"reject"}`))
		if err != nil {
			return
		}
		if settings.OnAnomaly != bcp.AnomalyReject || len(settings.Vocabularies) != 1 || !slices.Equal(settings.Vocabularies[name], []string{"a"}) {
			t.Fatalf("%q became %v", name, settings.Vocabularies)
		}
	})
}

// A judge that has compiled many specs still tells them apart, and keeps a few.
func TestJudgeForgets(t *testing.T) {
	t.Parallel()
	j := &judge{ready: map[[2]string]compiled{}}
	for i := range 3 * maxReady {
		most := i % (maxReady + 1)
		v, err := j.line(fmt.Appendf(nil, `{"spec":{"category":1,"fields":[{"name":"n","type":"integer","min":0,"max":%d}]},"response":{"n":30}}`, most))
		if err != nil || (v.Verdict == "accept") != (most >= 30) || len(j.ready) != i%maxReady+1 {
			t.Errorf("at most %d: %s, %v; %d are kept", most, v.Verdict, err, len(j.ready))
		}
	}
}
