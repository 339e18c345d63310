package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The answers of the three categories as a Reader sends them.
var (
	category1 = []byte(`{"is_urgent":true,"sentiment":"neutral","confidence":3}`)
	category2 = []byte(`{"type":"bcp_response","query_id":"q_4f1c0a7be2d94c60","answers":[` +
		`{"id":"q_date","answer":"March 15, 2026"},` +
		`{"id":"q_person","answer":"Maria del Carmen Gonzalez"},` +
		`{"id":"q_topic","answer":"quarterly budget review with the finance team"}]}`)
	category3 = []byte(`{"summary":"` + strings.TrimSuffix(strings.Repeat("the vendor asks to move ", 20), " ") + `"}`)
)

type category1Answer struct {
	urgent     bool
	sentiment  string
	confidence int64
}

func walkCategory1(b []byte) (category1Answer, error) {
	var a category1Answer
	var scratch [64]byte
	s := NewScanner(b)
	if err := s.ObjectStart(); err != nil {
		return a, err
	}
	for s.More() {
		key, err := s.Key(scratch[:0])
		if err != nil {
			return a, err
		}
		switch string(key) {
		case "is_urgent":
			a.urgent, err = s.Bool()
		case "sentiment":
			var text []byte
			text, err = s.String(scratch[:0])
			switch string(text) {
			case "positive":
				a.sentiment = "positive"
			case "neutral":
				a.sentiment = "neutral"
			}
		case "confidence":
			a.confidence, err = s.Int64()
		default:
			err = ErrKind
		}
		if err != nil {
			return a, err
		}
	}
	return a, s.End()
}

// walkAll walks a document as its kinds come and returns the bytes of its
// strings.
func walkAll(s *Scanner, scratch []byte) (n int, err error) {
	switch s.Kind() {
	case KindObject:
		err = s.ObjectStart()
		for err == nil && s.More() {
			var key []byte
			if key, err = s.Key(scratch); err == nil {
				var m int
				m, err = walkAll(s, scratch)
				n += len(key) + m
			}
		}
	case KindArray:
		err = s.ArrayStart()
		for err == nil && s.More() {
			var m int
			m, err = walkAll(s, scratch)
			n += m
		}
	case KindString:
		var text []byte
		text, err = s.String(scratch)
		n = len(text)
	case KindNumber:
		_, err = s.Int64()
	default:
		_, err = s.Bool()
	}
	return n, err
}

func BenchmarkCategory1(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		a, err := walkCategory1(category1)
		if err != nil || a.confidence != 3 {
			b.Fatal(a, err)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	for name, doc := range map[string][]byte{"category1": category1, "category2": category2, "category3": category3} {
		b.Run(name+"/wire", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			var scratch [256]byte
			for b.Loop() {
				s := NewScanner(doc)
				if _, err := walkAll(&s, scratch[:0]); err != nil {
					b.Fatal(err)
				}
				if err := s.End(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/check", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if err := Check(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/jsontext", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			src := bytes.NewBuffer(nil)
			d := jsontext.NewDecoder(src)
			for b.Loop() {
				*src = *bytes.NewBuffer(doc)
				d.Reset(src)
				for {
					_, err := d.ReadToken()
					if err == io.EOF {
						break
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+"/encoding-json", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				var v map[string]any
				if err := json.Unmarshal(doc, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkMsgpack(b *testing.B) {
	for name, doc := range map[string][]byte{"category1": category1, "category2": category2, "category3": category3} {
		packed, err := MsgpackFromJSON(nil, doc)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name+"/to-json", func(b *testing.B) {
			b.ReportAllocs()
			var dst [1024]byte
			for b.Loop() {
				if _, err := JSONFromMsgpack(dst[:0], packed); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/from-json", func(b *testing.B) {
			b.ReportAllocs()
			var dst [1024]byte
			for b.Loop() {
				if _, err := MsgpackFromJSON(dst[:0], doc); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
