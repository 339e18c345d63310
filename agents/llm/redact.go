package llm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// Redacted returns the request without the keys, tokens and passwords that redaction finds anywhere in it, in what the provider
// decodes: texts, names, ids, and the strings of schemas and arguments, however these are spelled. A name or id with a
// secret becomes another one, the same wherever it stands. Arguments of calls may be no JSON afterwards. A request without
// secrets is returned as it is.
func (r *Request) Redacted() *Request {
	c := &redacting{names: map[string]string{}}
	clean := *r
	clean.Model, clean.System, clean.Force = c.name(r.Model), c.parts(r.System), c.name(r.Force)
	clean.Tools = slices.Clone(r.Tools)
	for i, t := range clean.Tools {
		clean.Tools[i] = Tool{c.name(t.Name), Instruction{c.text(t.Description.text)}, c.json(t.Schema)}
	}
	clean.Turns = make([]Turn, 0, len(r.Turns))
	for _, t := range r.Turns {
		turn := Turn{Role: t.Role, Parts: c.parts(t.Parts)}
		for _, call := range t.Calls {
			turn.Calls = append(turn.Calls, Call{c.name(call.ID), c.name(call.Name), c.json(call.Arguments)})
		}
		for _, result := range t.Results {
			turn.Results = append(turn.Results, Result{c.name(result.Call), c.parts(result.Parts), result.Failed})
		}
		clean.Turns = append(clean.Turns, turn)
	}
	if !c.found {
		return r
	}
	return &clean
}

// redacting redacts, and notes whether there was something.
type redacting struct {
	found bool
	names map[string]string // what became of those with a secret
}

// text returns a text without secrets. JSON within a text may spell any character by its number, and a model reads that,
// too; where that hides a secret, the text is returned with these characters themselves.
func (c *redacting) text(s string) string {
	const depth = 3 // a text in JSON in JSON
	for plain, n := s, 0; ; n++ {
		if clean := guard.Redact(plain, guard.Keys); clean != plain {
			c.found = true
			return clean
		}
		if n == depth || !numbered.MatchString(plain) {
			return s
		}
		plain = numbered.ReplaceAllStringFunc(plain, func(spelled string) string {
			code, _ := strconv.ParseUint(spelled[2:], 16, 8)
			return string(rune(code))
		})
	}
}

// numbered is an ASCII character by its number.
var numbered = regexp.MustCompile(`\\u00[0-7][0-9a-fA-F]`)

// name returns a name that a provider takes: one with a secret is replaced as a whole.
func (c *redacting) name(s string) string {
	if c.text(s) == s {
		return s
	}
	if c.names[s] == "" {
		c.names[s] = fmt.Sprintf("redacted_%d", len(c.names)+1)
	}
	return c.names[s]
}

// json returns JSON whose strings and names have no secrets, and whose text has none, either.
func (c *redacting) json(raw jsontext.Value) jsontext.Value {
	var b bytes.Buffer
	from := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	to := jsontext.NewEncoder(&b, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	changed := false
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) && changed {
			raw = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
		}
		if err != nil { // arguments are what a model wrote
			break
		}
		if token.Kind() == '"' {
			said := token.String()
			clean := c.text(said)
			changed = changed || clean != said
			token = jsontext.String(clean)
		}
		if err := to.WriteToken(token); err != nil {
			break
		}
	}
	if clean := c.text(string(raw)); clean != string(raw) {
		return jsontext.Value(clean)
	}
	return raw
}

func (c *redacting) parts(parts []Part) (list []Part) {
	for _, p := range parts {
		switch part := p.(type) {
		case Data:
			if body := part.Body(); c.text(body) != body {
				fenced, err := guard.Fence(c.text(body), part.Source())
				if err != nil { // a fence has a source
					continue
				}
				p = Data{fenced}
			}
		case Said:
			p = Said{c.text(part.text)}
		case Instruction:
			p = Instruction{c.text(part.text)}
		}
		list = append(list, p)
	}
	return list
}
