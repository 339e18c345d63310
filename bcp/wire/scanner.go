package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The kinds of values, as jsontext has them: true and false are of one kind. The zero value is
// no value: the end of the input, a closing bracket, or what is no JSON.
const (
	KindInvalid = jsontext.KindInvalid
	KindObject  = jsontext.KindBeginObject
	KindArray   = jsontext.KindBeginArray
	KindString  = jsontext.KindString
	KindNumber  = jsontext.KindNumber
	KindBool    = jsontext.KindFalse
	KindNull    = jsontext.KindNull
)

// Scanner walks one JSON document under the rules of PROTOCOL P2.2, driven by
// what the caller expects to find: package jsontext reads its tokens, and refuses
// what is no JSON, text that is not UTF-8, and repeated keys. The rest is judged here.
//
// The first refusal is final: [Scanner.More] is false from then on and every other
// call returns the same error, [Scanner.End] too. A caller may therefore check
// each call, or End alone, as long as it uses nothing before End has returned
// nil.
//
// The input must not change while the Scanner or a slice that it returned is in
// use. A Scanner is made by [NewScanner], and is not safe for concurrent use.
type Scanner struct {
	buf []byte
	dec *jsontext.Decoder
	err error
}

// NewScanner returns a Scanner over one whole message.
func NewScanner(b []byte) Scanner { return newScanner(b, jsontext.AllowDuplicateNames(false)) }

func newScanner(b []byte, options ...jsontext.Options) Scanner {
	return Scanner{buf: b, dec: jsontext.NewDecoder(bytes.NewBuffer(b), options...)}
}

// Kind tells the kind of the value that comes next and consumes nothing. It is
// KindInvalid where no value can stand.
func (s *Scanner) Kind() jsontext.Kind {
	if s.err != nil {
		return KindInvalid
	}
	switch kind := s.dec.PeekKind(); kind {
	case jsontext.KindEndObject, jsontext.KindEndArray:
		return KindInvalid
	case jsontext.KindTrue:
		return KindBool
	default:
		return kind
	}
}

// ObjectStart enters an object. Call [Scanner.More] next.
func (s *Scanner) ObjectStart() error { return s.enter(KindObject) }

// ArrayStart enters an array. Call [Scanner.More] next.
func (s *Scanner) ArrayStart() error { return s.enter(KindArray) }

func (s *Scanner) enter(kind jsontext.Kind) error {
	if _, err := s.token(kind); err != nil {
		return err
	}
	if s.dec.StackDepth() > MaxDepth {
		return s.refuse(ErrDepth)
	}
	return nil
}

// More reports whether the innermost object or array has another member or element. If it has
// none it leaves that object or array. It is false after a refusal, too, which the next call
// then returns.
func (s *Scanner) More() bool {
	if s.err != nil {
		return false
	}
	switch s.dec.PeekKind() {
	case '}', ']', 0:
		if _, err := s.dec.ReadToken(); err != nil {
			s.fail(err)
		}
		return false
	}
	return true
}

// Key reads the key of a member. Compare it byte for byte. It is a part of the input, unless it
// has escapes.
func (s *Scanner) Key() ([]byte, error) { return s.String() }

// String reads a string, and returns it as [Scanner.Key] does.
func (s *Scanner) String() ([]byte, error) {
	b, err := s.spelling(KindString)
	if err != nil || s.control(b) != nil {
		return nil, s.err
	}
	if bytes.IndexByte(b, '\\') < 0 {
		return b[1 : len(b)-1 : len(b)-1], nil
	}
	text, _ := jsontext.AppendUnquote(nil, b) // it was judged
	return text, nil
}

// Bool reads true or false.
func (s *Scanner) Bool() (bool, error) {
	token, err := s.token(KindBool)
	return err == nil && token.Bool(), err
}

// Int64 reads an integer in its one spelling: no fraction, exponent, leading
// zero or -0.
func (s *Scanner) Int64() (int64, error) {
	b, err := s.spelling(KindNumber)
	if err != nil {
		return 0, err
	}
	n, ok := integer(b)
	if !ok {
		return 0, s.refuse(ErrNumber)
	}
	return n, nil
}

// integer returns the integer that a number of JSON spells.
func integer(number []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(number), 10, 64)
	return n, err == nil && string(number) != "-0"
}

// RawValue passes over one value and returns its bytes, a part of the input,
// without the white space around them. The value is judged as by [Check].
func (s *Scanner) RawValue() ([]byte, error) {
	before := s.offset()
	if err := s.skip(); err != nil {
		return nil, err
	}
	end := s.offset()
	return bytes.TrimLeft(s.buf[before:end:end], " \t\r\n,:"), nil
}

// End reports whether the document was one whole value with nothing but white
// space after it. It returns the first refusal if there was one.
func (s *Scanner) End() error {
	if s.err != nil {
		return s.err
	}
	if s.offset() == 0 {
		return s.refuse(ErrTruncated)
	}
	if _, err := s.dec.ReadToken(); err != io.EOF {
		return s.refuse(ErrTrailing)
	}
	return nil
}

// skip judges and passes over the next value.
func (s *Scanner) skip() error {
	before := s.offset()
	for floor := s.depth(); s.err == nil; {
		token, err := s.dec.ReadToken()
		if err != nil {
			return s.fail(err)
		}
		depth := s.depth()
		switch token.Kind() {
		case 'n':
			return s.refuse(ErrKind)
		case '0':
			if _, ok := integer([]byte(token.String())); !ok {
				return s.refuse(ErrNumber)
			}
		case '{', '[':
			if depth > MaxDepth {
				return s.refuse(ErrDepth)
			}
		case '"':
			if kind, n := s.dec.StackIndex(depth); depth > floor && kind == '{' && n > 2*MaxKeys {
				return s.refuse(ErrTooManyKeys)
			}
		}
		switch {
		case depth < floor:
			return s.refuse(ErrSyntax) // a bracket that closes
		case depth == floor:
			return s.control(s.buf[before:s.offset()])
		}
	}
	return s.err
}

// control refuses a raw DEL, which jsontext lets through in strings.
func (s *Scanner) control(read []byte) error {
	if i := bytes.IndexByte(read, 0x7f); i >= 0 && s.err == nil {
		s.err = &Error{Offset: s.offset() - len(read) + i, Reason: ErrControl}
	}
	return s.err
}

// token reads the next token, which is of a kind.
func (s *Scanner) token(kind jsontext.Kind) (jsontext.Token, error) {
	if s.Kind() != kind {
		return jsontext.Token{}, s.mismatch()
	}
	token, err := s.dec.ReadToken()
	if err != nil {
		return jsontext.Token{}, s.fail(err)
	}
	return token, nil
}

// spelling reads the next value, which is of a kind, and returns its bytes, a part of the input.
func (s *Scanner) spelling(kind jsontext.Kind) ([]byte, error) {
	if s.Kind() != kind {
		return nil, s.mismatch()
	}
	b, err := s.dec.ReadValue()
	if err != nil {
		return nil, s.fail(err)
	}
	end := s.offset()
	return s.buf[end-len(b) : end : end], nil
}

// mismatch refuses because what comes next is not the value asked for.
func (s *Scanner) mismatch() error {
	if s.err == nil && s.Kind() == KindInvalid {
		if _, err := s.dec.ReadToken(); err != nil {
			return s.fail(err)
		}
		return s.refuse(ErrSyntax) // a bracket that closes
	}
	return s.refuse(ErrKind)
}

func (s *Scanner) offset() int { return int(s.dec.InputOffset()) }

func (s *Scanner) depth() int { return s.dec.StackDepth() }

// fail ends the scan where jsontext does.
func (s *Scanner) fail(err error) error {
	syntax := new(jsontext.SyntacticError)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return s.refuse(ErrTruncated)
	case errors.Is(err, jsontext.ErrDuplicateName):
		return s.refuse(ErrDuplicateKey)
	case !utf8.Valid(s.buf):
		s.refuse(ErrUTF8)
	default:
		s.refuse(ErrSyntax)
	}
	if refusal, ok := s.err.(*Error); ok && errors.As(err, &syntax) {
		refusal.Offset = int(syntax.ByteOffset)
	}
	return s.err
}

// refuse ends the scan, unless it has ended.
func (s *Scanner) refuse(why error) error {
	if s.err == nil {
		s.err = &Error{Offset: s.offset(), Reason: why}
	}
	return s.err
}
