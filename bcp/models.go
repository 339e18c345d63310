package bcp

import (
	_ "embed" // the prices
	"regexp"
	"sync"

	"github.com/go-json-experiment/json"
)

//go:embed models.json
var modelsJSON []byte

// priceList is models.json.
type priceList struct {
	Date   string                            `json:"date"`
	Models map[string]map[string]listedPrice `json:"models"`
}

// listedPrice has prices of a million tokens in dollars. Without one of its own, a cached
// token costs what another does.
type listedPrice struct {
	Input      USD  `json:"input"`
	CacheRead  *USD `json:"cache_read,omitzero"`
	CacheWrite *USD `json:"cache_write,omitzero"`
	Output     USD  `json:"output"`
}

var prices = sync.OnceValue(func() (list priceList) {
	if err := json.Unmarshal(modelsJSON, &list, json.RejectUnknownMembers(true)); err != nil {
		panic("bcp: models.json: " + err.Error())
	}
	return list
})

// PriceDate is the day, as 2006-01-02, of the prices that [ListPrice] knows.
func PriceDate() string { return prices().Date }

// datedModel is one that is named with its day.
var datedModel = regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`)

// ListPrice returns the list price of a model of a provider, as definitions name both, and
// false if nobody knows it. A model with a date costs what the one without it does.
func ListPrice(provider, model string) (Price, bool) {
	switch provider {
	case "ollama", "script", "replay", "gullible": // on this machine
		return Price{}, true
	}
	models := prices().Models[provider]
	e, ok := models[model]
	if !ok {
		e, ok = models[datedModel.ReplaceAllString(model, "")]
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
