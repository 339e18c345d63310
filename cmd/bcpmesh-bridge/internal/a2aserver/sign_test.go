package a2aserver_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh-bridge/internal/a2aserver"
)

// A signed card is verified as an outsider does, from its JSON alone: without the member
// signatures, its members sorted and without white space, it is what was signed. Of a card
// that says anything else the signature is none.
//
// covers DUAL-90
func TestSignedCardIsVerified(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	noError(t, err)
	card := a2aserver.Card("https://org1.example", "v1.2.3")
	digest := sha256.Sum256([]byte("a statement"))
	a2aserver.Attest(card, "desk@org1.example", "https://example.com/role", digest)
	signed := must(a2aserver.Sign(card, "k1", func(message []byte) ([]byte, error) { return ed25519.Sign(private, message), nil }))
	must(a2aserver.ParseCard(signed))
	verified := func(card []byte) bool {
		var members map[string]any
		noError(t, json.Unmarshal(card, &members))
		signature, ok := members["signatures"].([]any)[0].(map[string]any)
		stopIf(t, !ok, "%s", card)
		delete(members, "signatures")
		var payload bytes.Buffer
		e := json.NewEncoder(&payload) // sorts members; the card has no number and nothing that it escapes otherwise
		e.SetEscapeHTML(false)
		noError(t, e.Encode(members))
		protected, _ := signature["protected"].(string)
		text, _ := signature["signature"].(string)
		header, err := base64.RawURLEncoding.DecodeString(protected)
		failIf(t, err != nil || string(header) != `{"alg":"EdDSA","kid":"k1","typ":"JOSE"}`, "header %s, %v", header, err)
		sum := must(base64.RawURLEncoding.DecodeString(text))
		return ed25519.Verify(public, []byte(protected+"."+base64.RawURLEncoding.EncodeToString(bytes.TrimSpace(payload.Bytes()))), sum)
	}
	failIf(t, !verified(signed), "the signature of %s is none", signed)
	for _, change := range [][2]string{{"desk@org1", "mesk@org1"}, {"v1.2.3", "v1.2.4"}, {"https://org1.example", "https://org3.example"}, {`"sha256": "`, `"sha256": "0`}} {
		other := strings.ReplaceAll(string(signed), change[0], change[1])
		failIf(t, other == string(signed) || verified([]byte(other)), "with %s it is verified, too", change[1])
	}
	for _, value := range []string{": false", ": null", `: ""`, ": 0", ": {}"} {
		failIf(t, strings.Contains(string(signed), value), "it has the default value %q: %s", value, signed)
	}
	failed := errors.New("no key")
	_, err = a2aserver.Sign(card, "k1", func([]byte) ([]byte, error) { return nil, failed })
	failIf(t, !errors.Is(err, failed), "without a key: %v", err)
}
