package wire

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Check judges a whole document under the rules of PROTOCOL P2.2: package jsontext reads its
// tokens, and refuses what is no JSON, text that is not UTF-8, and repeated keys. The rest is
// judged here. Call it before another library decodes the same bytes (P2.3); that library must
// still be told to refuse unknown keys and to compare keys by exact case.
func Check(b []byte) error { return check(b, false) }

// check is [Check], where numbers may also have a fraction if there may be any.
func check(b []byte, fractions bool) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(false))
	refuse := func(why error) error { return &Error{Offset: int(dec.InputOffset()), Reason: why} }
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return stopped(b, dec, err)
		}
		depth := dec.StackDepth()
		switch token.Kind() {
		case 'n':
			return refuse(ErrKind)
		case '0':
			number := token.String()
			if _, ok := integer(number); !ok && !(fractions && isFraction(number)) {
				return refuse(ErrNumber)
			}
		case '{', '[':
			if depth > MaxDepth {
				return refuse(ErrDepth)
			}
		case '"':
			if in, n := dec.StackIndex(depth); in == '{' && n > 2*MaxKeys {
				return refuse(ErrTooManyKeys)
			}
		}
		if depth == 0 {
			break
		}
	}
	if i := bytes.IndexByte(b[:dec.InputOffset()], 0x7f); i >= 0 { // which jsontext lets through in strings
		return &Error{Offset: i, Reason: ErrControl}
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return refuse(ErrTrailing)
	}
	return nil
}

// stopped says why jsontext stops.
func stopped(b []byte, dec *jsontext.Decoder, err error) error {
	refusal, syntax := &Error{Offset: int(dec.InputOffset())}, new(jsontext.SyntacticError)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		refusal.Reason = ErrTruncated
		return refusal
	case errors.Is(err, jsontext.ErrDuplicateName):
		refusal.Reason = ErrDuplicateKey
		return refusal
	case !utf8.Valid(b):
		refusal.Reason = ErrUTF8
	default:
		refusal.Reason = ErrSyntax
	}
	if errors.As(err, &syntax) {
		refusal.Offset = int(syntax.ByteOffset)
	}
	return refusal
}

// integer returns the integer that a number of JSON spells in the one way that it has.
func integer(number string) (n int64, ok bool) {
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil && number != "-0"
}
