package bcp

import (
	"encoding"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// How agents read what the gateway sends. The gateway may be newer than they are:
// it may add members to a message and words to a list. So unknown members are
// ignored, unknown codes are kept, and other unknown words read as the zero value of
// their type, which is no valid member (PROTOCOL P2.2). Repeated keys, broken UTF-8
// and members of the wrong type stay errors.

// Received is a message of the gateway of which so far only the type is known.
type Received struct {
	// Type is what the message says it is, empty where it does not.
	Type string
	json []byte
}

// Receive reads the type of a message.
func Receive(b []byte, encoding Encoding) (Received, error) {
	b, err := fromGateway(b, encoding)
	if err != nil {
		return Received{}, err
	}
	var typed struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &typed); err != nil {
		return Received{}, err
	}
	return Received{typed.Type, b}, nil
}

// Decode reads the message into a value of its type.
func (r Received) Decode(message any) error { return json.Unmarshal(r.json, message, tolerant) }

// Decode reads a message of the gateway whose type is known. It is no judge of an
// agent's bytes: see [ParseAsk] and [ParseResponse].
func Decode(b []byte, encoding Encoding, message any) error {
	b, err := fromGateway(b, encoding)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, message, tolerant)
}

func fromGateway(b []byte, encoding Encoding) ([]byte, error) {
	switch encoding {
	case JSON:
		return b, nil
	case MessagePack:
		return wire.JSONFromGateway(make([]byte, 0, 2*len(b)), b)
	default:
		return nil, errEncoding
	}
}

// tolerant reads words that are not known as zero values.
var tolerant = json.WithUnmarshalers(json.JoinUnmarshalers(
	wordOr[Type](), wordOr[Format](), wordOr[Taint](), wordOr[Rate](), wordOr[Role](), wordOr[OnAnomaly](),
))

func wordOr[T any, P interface {
	*T
	encoding.TextUnmarshaler
}]() *json.Unmarshalers {
	return json.UnmarshalFunc(func(b []byte, value *T) error {
		word, err := jsontext.AppendUnquote(nil, b)
		if err != nil {
			return err
		}
		if P(value).UnmarshalText(word) != nil {
			var zero T
			*value = zero
		}
		return nil
	})
}

// Known reports whether the spec has only types and formats that this program knows.
// One of a newer gateway may have others: a Reader that does not know what it is
// asked gives no answer.
func (s *Spec) Known() bool {
	for _, f := range s.Fields {
		if f.Type == 0 {
			return false
		}
	}
	for _, q := range s.Questions {
		if q.ExpectedFormat == 0 {
			return false
		}
	}
	return s.Category.Valid()
}
