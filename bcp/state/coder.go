package state

import (
	"github.com/vmihailenco/msgpack/v5"
)

// coder writes or reads the fields of a saved form, which lists them once for
// both. After an error it does nothing.
type coder struct {
	enc *msgpack.Encoder // or
	dec *msgpack.Decoder
	err error
}

type coded interface{ fields(c *coder) }

func encodeFields(e *msgpack.Encoder, v coded, n int) error {
	c := coder{enc: e, err: e.EncodeArrayLen(n)}
	v.fields(&c)
	return c.err
}

func decodeFields(d *msgpack.Decoder, v coded, n int) error {
	got, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if got != n {
		return errSaved
	}
	c := coder{dec: d}
	v.fields(&c)
	return c.err
}

func number[T ~int | ~int64 | ~uint64 | ~uint8](c *coder, v *T) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		c.err = c.enc.EncodeInt(int64(*v))
		return
	}
	n, err := c.dec.DecodeInt64()
	if *v = T(n); err == nil && int64(*v) != n {
		err = errSaved
	}
	c.err = err
}

func letters[T ~string](c *coder, v *T) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		c.err = c.enc.EncodeString(string(*v))
		return
	}
	s, err := c.dec.DecodeString()
	*v, c.err = T(s), err
}

func (c *coder) flag(v *bool) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		c.err = c.enc.EncodeBool(*v)
		return
	}
	*v, c.err = c.dec.DecodeBool()
}

func (c *coder) bytes(v *[]byte) {
	if c.err != nil {
		return
	}
	if c.enc != nil {
		c.err = c.enc.EncodeBytes(*v)
		return
	}
	*v, c.err = c.dec.DecodeBytes()
}
