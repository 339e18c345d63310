package wire_test

import (
	"errors"
	"fmt"

	"github.com/bcpmesh/bcpmesh/bcp/wire"
)

// What the schema of the caller refuses.
var (
	errKey     = errors.New("unknown or repeated key")
	errMissing = errors.New("missing key")
)

type answer struct {
	urgent     bool
	confidence int64
}

// parse walks one answer by its schema.
func parse(message []byte) (answer, error) {
	var a answer
	var scratch [64]byte
	var seen [2]bool
	s := wire.NewScanner(message)
	if err := s.ObjectStart(); err != nil {
		return answer{}, err
	}
	for s.More() {
		key, err := s.Key(scratch[:0])
		if err != nil {
			return answer{}, err
		}
		switch {
		case string(key) == "is_urgent" && !seen[0]:
			seen[0] = true
			a.urgent, err = s.Bool()
		case string(key) == "confidence" && !seen[1]:
			seen[1] = true
			a.confidence, err = s.Int64()
		default:
			err = errKey
		}
		if err != nil {
			return answer{}, err
		}
	}
	if err := s.End(); err != nil {
		return answer{}, err
	}
	if seen != [2]bool{true, true} {
		return answer{}, errMissing
	}
	return a, nil
}

func ExampleScanner() {
	for _, message := range []string{
		`{"is_urgent": true, "confidence": 3}`,
		`{"is_urgent": "true", "confidence": 3}`,
		`{"is_urgent": true, "confidence": 3.0}`,
		`{"is_urgent": true, "is_urgent": false}`,
		`{"is_urgent": true, "confidence": 3} {}`,
		`{"is_urgent": true}`,
	} {
		a, err := parse([]byte(message))
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(a.urgent, a.confidence)
	}
	// Output:
	// true 3
	// wire: wrong kind of value
	// wire: number is not a plain 64-bit integer
	// unknown or repeated key
	// wire: data after the value
	// missing key
}

func ExampleCheck() {
	fmt.Println(wire.Check([]byte(`{"type":"bcp_query_request","type":"bcp_response"}`)))
	// Output: wire: repeated key
}

func ExampleJSONFromMsgpack() {
	message := []byte("\x82\xa9is_urgent\xc3\xaaconfidence\x03")
	document, err := wire.JSONFromMsgpack(nil, message)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", document)
	// Output: {"is_urgent":true,"confidence":3}
}

func ExampleAppendString() {
	b, err := wire.AppendString([]byte(`{"topic":`), "R&D <plan>\n")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", append(b, '}'))
	// Output: {"topic":"R&D <plan>\n"}
}
