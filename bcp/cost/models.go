package cost

import (
	_ "embed" // the prices
	"regexp"
	"sync"

	"github.com/go-json-experiment/json"
)

//go:embed models.json
var modelsJSON []byte

// table is models.json.
type table struct {
	Date   string                           `json:"date"`
	Models map[string]map[string]priceEntry `json:"models"`
}

// priceEntry has prices of a million tokens in dollars. Without one of its own, a cached
// token costs what another does.
type priceEntry struct {
	Input      USD  `json:"input"`
	CacheRead  *USD `json:"cache_read,omitzero"`
	CacheWrite *USD `json:"cache_write,omitzero"`
	Output     USD  `json:"output"`
}

var known = sync.OnceValue(func() (t table) {
	if err := json.Unmarshal(modelsJSON, &t, json.RejectUnknownMembers(true)); err != nil {
		panic("cost: models.json: " + err.Error())
	}
	return t
})

// Date is the day, as 2006-01-02, of the prices that [Lookup] knows.
func Date() string { return known().Date }

// dated is a model that is named with its day.
var dated = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

// Lookup returns the list price of a model of a provider, as definitions name both, and
// false if nobody knows it. A model with a date costs what the one without it does.
func Lookup(provider, model string) (Price, bool) {
	switch provider {
	case "ollama", "script", "replay", "gullible": // on this machine
		return Price{}, true
	}
	models := known().Models[provider]
	e, ok := models[model]
	if !ok {
		e, ok = models[dated.ReplaceAllString(model, "")]
	}
	if !ok {
		return Price{}, false
	}
	p := Price{Input: e.Input, CacheRead: e.Input, CacheWrite: e.Input, Output: e.Output}
	if e.CacheRead != nil {
		p.CacheRead = *e.CacheRead
	}
	if e.CacheWrite != nil {
		p.CacheWrite = *e.CacheWrite
	}
	return p, true
}
