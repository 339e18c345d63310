package bcp

import "github.com/vmihailenco/msgpack/v5"

// In records a digest is 32 bytes and an enumeration is its frozen number; the
// words and hexadecimal digits are for people.

// IsZero reports whether there is no digest.
func (d Digest) IsZero() bool { return d == Digest{} }

// EncodeMsgpack writes the 32 bytes.
func (d Digest) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeBytes(d[:]) }

// DecodeMsgpack reads exactly 32 bytes.
func (d *Digest) DecodeMsgpack(dec *msgpack.Decoder) error {
	b, err := dec.DecodeBytes()
	if err != nil {
		return err
	}
	if len(b) != len(d) {
		return errDigest
	}
	copy(d[:], b)
	return nil
}

// EncodeMsgpack writes the number.
func (k DecisionKind) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeUint(uint64(k)) }

// DecodeMsgpack reads the number.
func (k *DecisionKind) DecodeMsgpack(d *msgpack.Decoder) error { return decodeNumber(d, k) }

// EncodeMsgpack writes the number.
func (r Role) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeUint(uint64(r)) }

// DecodeMsgpack reads the number.
func (r *Role) DecodeMsgpack(d *msgpack.Decoder) error { return decodeNumber(d, r) }

// EncodeMsgpack writes the number.
func (o Outcome) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeUint(uint64(o)) }

// DecodeMsgpack reads the number.
func (o *Outcome) DecodeMsgpack(d *msgpack.Decoder) error { return decodeNumber(d, o) }

// EncodeMsgpack writes the number.
func (t Taint) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeUint(uint64(t)) }

// DecodeMsgpack reads the number.
func (t *Taint) DecodeMsgpack(d *msgpack.Decoder) error { return decodeNumber(d, t) }

// EncodeMsgpack writes the number.
func (c Check) EncodeMsgpack(e *msgpack.Encoder) error { return e.EncodeUint(uint64(c)) }

// DecodeMsgpack reads the number.
func (c *Check) DecodeMsgpack(d *msgpack.Decoder) error { return decodeNumber(d, c) }

func decodeNumber[T ~uint8](d *msgpack.Decoder, v *T) error {
	n, err := d.DecodeUint8()
	*v = T(n)
	return err
}
