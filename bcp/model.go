package bcp

import (
	"slices"
	"strings"
)

// Model is a model at a provider, for agents that a model runs.
type Model struct {
	Name     string
	Provider string // one of [Providers]
	Model    string // as the provider calls it
	// Key says where the API key is: env:NAME or file:PATH, never the key itself. Empty
	// means none.
	Key     string
	BaseURL string // empty: the provider's own
}

// Providers are the ways to a model, with where each has its key if a definition does not
// say.
var providers = map[string]string{
	"anthropic": "env:ANTHROPIC_API_KEY", "openai": "env:OPENAI_API_KEY", "google": "env:GEMINI_API_KEY",
	gullible: "", "ollama": "", "replay": "", "script": "",
}

// Providers returns their names, in alphabetical order.
func Providers() []string {
	var names []string
	for name := range providers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// gullible is the provider that needs no name of a model.
const gullible = "gullible"

// ModelOf returns the model that an agent names: one of Models, provider/model, or gullible.
func (m *Mesh) ModelOf(name string) (Model, bool) {
	for _, model := range m.Models {
		if model.Name == name {
			return model, true
		}
	}
	if name == gullible {
		name += "/" + gullible
	}
	provider, model, ok := strings.Cut(name, "/")
	key, known := providers[provider]
	return Model{Name: name, Provider: provider, Model: model, Key: key}, ok && known && model != ""
}

// WithKey returns the model with its provider's usual key, if it names none.
func (m Model) WithKey() Model {
	if m.Key == "" {
		m.Key = providers[m.Provider]
	}
	return m
}
