// Package wire is the one strict codec for bytes that agents send, and the
// canonical encoder for bytes that go out to them (PROTOCOL P2.1 to P2.4).
//
// [Check] judges a whole document before another library decodes it. An agent whose
// encoding is MessagePack is read through [JSONFromMsgpack], so that both encodings go
// through the same judge and get the same verdict. [JSONFromGateway] reads what the
// gateway wrote.
//
// # What is accepted
//
// One JSON value of RFC 8259, with white space around it, that also holds to
// these rules of PROTOCOL P2.2:
//
//   - valid UTF-8 and no byte order mark; an escaped surrogate needs its partner;
//   - no raw control character and no raw DEL in a string (escaped ones are text
//     like any other, and are left to the normaliser);
//   - integers only, within int64, without fraction, exponent, leading zero
//     or -0;
//   - objects and arrays at most [MaxDepth] deep;
//   - no null, and at most [MaxKeys] keys an object;
//   - nothing after the value.
//
// Keys are compared byte for byte after unescaping, and none is repeated. Who decodes the
// document refuses unknown keys, because it knows the schema.
//
// The same rules apply to MessagePack. Each value has one encoding, the
// shortest; integers of zero and above use the unsigned formats. Nil, floats,
// bin, extension types and keys that are not strings are refused.
//
// # Cost
//
// Every function takes time and memory linear in its input, but for what a length in it
// claims. The size limit of P2.2 depends on the spec, and the caller must check it first.
//
// # Errors
//
// A refusal is an [*Error] that wraps one of the reasons of this package, each of
// which wraps [ErrMalformed]. The texts are constants: they quote no input and
// give no offset, so they may be logged and shown to anybody.
//
// # When not to use it
//
// Not for the gateway's own records (journal, ledger, audit) or for files of
// people; those have their own codecs.
package wire
