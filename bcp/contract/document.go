package contract

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// The documents that organisations exchange, as they are read and written. Contracts
// alone are read key by key: all that is wrong with one is said at once.

type envelopeDocument struct {
	PayloadType string              `json:"payloadType"`
	Payload     string              `json:"payload"`
	Signatures  []signatureDocument `json:"signatures"`
}

type signatureDocument struct {
	KeyID string  `json:"keyid"`
	Sig   *string `json:"sig"`
}

type statementDocument struct {
	Type          string            `json:"_type"`
	Subject       []subjectDocument `json:"subject"`
	PredicateType string            `json:"predicateType"`
	Predicate     jsontext.Value    `json:"predicate"`
}

type subjectDocument struct {
	Name   string         `json:"name"`
	Digest digestDocument `json:"digest"`
}

type digestDocument struct {
	SHA256 string `json:"sha256"`
}

type roleDocument struct {
	Declaration jsontext.Value `json:"declaration"`
	Evidence    jsontext.Value `json:"evidence,omitzero"`
	Keys        []string       `json:"keys"`
	Issued      time.Time      `json:"issued"`
	Expires     time.Time      `json:"expires"`
	Serial      string         `json:"serial"`
}

type requirementDocument struct {
	Name          *string          `json:"name"`
	Architectures []string         `json:"architectures"`
	Orchestrators []string         `json:"orchestrators"`
	Invariants    []demandDocument `json:"invariants"`
	Evidence      struct {
		Proof  bool    `json:"permission_proof"`
		MaxAge *string `json:"max_age"`
	} `json:"evidence"`
}

type demandDocument struct {
	Predicate string           `json:"predicate"`
	Level     string           `json:"level"`
	Args      []jsontext.Value `json:"args"`
}

// decode reads a document by the rules of PROTOCOL P2.2, which has no key of others. What
// is missing stays as it was.
func decode(b []byte, document any) bool {
	return wire.Check(b) == nil && json.Unmarshal(b, document, json.RejectUnknownMembers(true), moments) == nil
}

// keys are the keys of a closed object.
type keys struct{ required, optional []string }

// missing returns the required keys that an object does not have.
func (k keys) missing(o map[string]jsontext.Value) []string {
	return slices.DeleteFunc(slices.Clone(k.required), func(key string) bool { return o[key] != nil })
}

// unknown returns the keys that are not of a closed object.
func (k keys) unknown(o map[string]jsontext.Value) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(o)), func(key string) bool { return slices.Contains(k.required, key) || slices.Contains(k.optional, key) })
}

// members returns those of an object in a text that [wire.Check] lets through; nil if it is none.
func members(v jsontext.Value) (o map[string]jsontext.Value) {
	if v.Kind() != '{' || json.Unmarshal(v, &o) != nil {
		return nil
	}
	return o
}

// list returns the elements of a list in such a text.
func list(v jsontext.Value) (elements []jsontext.Value, ok bool) {
	return elements, v.Kind() == '[' && json.Unmarshal(v, &elements) == nil
}

// areLabels reports whether texts are there, and of a length that anything of ours has.
func areLabels(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return text == "" || len(text) > maxLabel })
}

// isList reports whether a list is there, of at most so many labels.
func isList(list []string, most int) bool {
	return list != nil && len(list) <= most && areLabels(list...)
}

// moments have one spelling: RFC 3339 in whole seconds, UTC.
var moments = json.JoinOptions(
	json.WithUnmarshalers(json.UnmarshalFunc(func(b []byte, t *time.Time) (err error) {
		text, err := jsontext.AppendUnquote(nil, b)
		if err == nil {
			*t, err = time.Parse(time.RFC3339, string(text))
		}
		if err == nil && moment(*t) != string(text) {
			err = errors.New("another spelling of a moment")
		}
		return err
	})),
	json.WithMarshalers(json.MarshalFunc(func(t time.Time) ([]byte, error) { return []byte(`"` + moment(t) + `"`), nil })))

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
