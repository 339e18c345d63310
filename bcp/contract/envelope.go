package contract

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// PayloadType is the type of the payloads that envelopes hold: statements of in-toto.
const PayloadType = "application/vnd.in-toto+json"

// Envelope is a DSSE envelope (secure-systems-lab/dsse, envelope.md): bytes, their
// type, and signatures of both. Only [ParseEnvelope] makes a usable one.
type Envelope struct {
	Payload    []byte
	Signatures [][]byte
}

// ParseEnvelope reads a DSSE envelope of a statement, strictly. Key ids are hints,
// and nothing is decided by them. A signature that is not base64 is kept as one that
// nothing can verify.
func ParseEnvelope(b []byte) (Envelope, bool) {
	if len(b) > MaxEnvelope {
		return Envelope{}, false
	}
	var doc envelopeDocument
	if !decode(b, &doc) || doc.PayloadType != PayloadType || doc.Payload == "" || doc.Signatures == nil || len(doc.Signatures) > maxSignatures {
		return Envelope{}, false
	}
	payload, ok := decodeBase64(doc.Payload)
	e := Envelope{Payload: payload}
	for _, s := range doc.Signatures {
		if s.Sig == nil || len(*s.Sig) > maxLabel || len(s.KeyID) > maxLabel {
			return Envelope{}, false
		}
		signature, _ := decodeBase64(*s.Sig)
		e.Signatures = append(e.Signatures, signature)
	}
	if !ok {
		return Envelope{}, false
	}
	return e, true
}

// decodeBase64 reads the standard or the URL-safe alphabet with padding, as DSSE
// allows. A text has one spelling in each.
func decodeBase64(text string) ([]byte, bool) {
	encoding := base64.StdEncoding
	if strings.ContainsAny(text, "-_") {
		encoding = base64.URLEncoding
	}
	if strings.ContainsAny(text, "\r\n") {
		return nil, false
	}
	b, err := encoding.Strict().DecodeString(text)
	return b, err == nil
}

// PAE returns the bytes that a signature of a payload is made of: DSSE's
// pre-authentication encoding, version 1.
func PAE(payloadType string, payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}
