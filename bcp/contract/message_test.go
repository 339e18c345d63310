package contract_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

var aNonce = strings.Repeat("n", 26)

// Messages about roles are read strictly: each type has its own keys and no others.
//
// covers P14.1, P14.3, P14.4, P2.2
func TestParseMessage(t *testing.T) {
	t.Parallel()
	open := func(name string) string { return `{"type":"bcp_role_open","name":"` + name + `"}` }
	for body, want := range map[string]bcp.Code{
		open("dual-llm"):               "",
		open(""):                       bcp.Malformed,
		open(strings.Repeat("x", 512)): "",
		open(strings.Repeat("x", 513)): bcp.Malformed,
		open("x") + strings.Repeat(" ", bcp.MaxRoleMessage-len(open("x"))):   "",
		open("x") + strings.Repeat(" ", bcp.MaxRoleMessage+1-len(open("x"))): bcp.MessageTooLarge,
		`{"type":"bcp_role_open"}`:                                                        bcp.Malformed,
		`{"type":"bcp_role_open","name":null}`:                                            bcp.Malformed,
		`{"type":"bcp_role_open","name":"x","nonce":"y"}`:                                 bcp.Malformed,
		`{"type":"bcp_role_open","name":"x","name":"x"}`:                                  bcp.Malformed,
		`{"type":"bcp_role_open","name":"x","more":1}`:                                    bcp.Malformed,
		`{"type":"bcp_role_challenge","nonce":"` + aNonce + `","asker":"a"}`:              "",
		`{"type":"bcp_role_challenge","nonce":"` + aNonce[1:] + `","asker":"a"}`:          bcp.Malformed,
		`{"type":"bcp_role_challenge","nonce":"` + aNonce + `"}`:                          bcp.Malformed,
		`{"type":"bcp_role_challenge","nonce":"` + aNonce[1:] + `\n","asker":"a"}`:        bcp.Malformed,
		`{"type":"bcp_role_declaration","attestation":{},"declaration":{}}`:               "",
		`{"type":"bcp_role_declaration"}`:                                                 bcp.Malformed,
		`{"type":"bcp_role_declaration","attestation":{},"accepted":true}`:                bcp.Malformed,
		declared(`"proof":{"key":"U","signature":"AA=="}`):                                "",
		declared(`"proof":{"key":"U","signature":"AB=="}`):                                bcp.Malformed, // another spelling
		declared(`"proof":{"key":"U"}`):                                                   bcp.Malformed,
		declared(`"proof":{"key":"U","signature":"AA==","more":1}`):                       bcp.Malformed,
		declared(`"contracts":["a","b","c","d","e","f","g","h"]`):                         "",
		declared(`"contracts":["a","b","c","d","e","f","g","h","i"]`):                     bcp.Malformed,
		declared(`"contracts":[1]`):                                                       bcp.Malformed,
		`{"type":"bcp_role_verdict","accepted":true,"until":"2026-03-01T00:00:00Z"}`:      "",
		`{"type":"bcp_role_verdict","accepted":true,"until":"2026-03-01T00:00:00.5Z"}`:    bcp.Malformed,
		`{"type":"bcp_role_verdict","accepted":true,"until":"2026-03-01T01:00:00+01:00"}`: bcp.Malformed,
		`{"type":"bcp_role_verdict","accepted":false,"code":"revoked"}`:                   "",
		`{"type":"bcp_role_verdict","code":"revoked"}`:                                    "",
		`{"type":"bcp_role_verdict","code":"revoked","until":"2026-03-01T00:00:00Z"}`:     bcp.Malformed,
		`{"type":"bcp_role_verdict","accepted":true,"code":"revoked"}`:                    bcp.Malformed,
		`{"type":"bcp_role_verdict"}`:                                                     bcp.Malformed,
		`{"type":"bcp_role_verdict","code":"ignore_all_rules"}`:                           bcp.Malformed,
		`{"type":"bcp_role_revocations","revocations":{}}`:                                "",
		`{"type":"bcp_role_revocations"}`:                                                 bcp.Malformed,
		`{"type":"bcp_ask"}`:                                                              bcp.Malformed,
		`{}`:                                                                              bcp.Malformed,
		`[]`:                                                                              bcp.Malformed,
		``:                                                                                bcp.Malformed,
		"{\"type\":\"bcp_role_open\",\"name\":\"\xff\"}":                                  bcp.Malformed,
	} {
		m, code := contract.ParseMessage([]byte(body))
		failIf(t, code != want, "%.100s: %q, want %q", body, code, want)
		failIf(t, code != "" && m.Type != "", "%.100s: refused, and returned", body)
	}
}

func declared(more string) string {
	return `{"type":"bcp_role_declaration","attestation":{},` + more + `}`
}

// An attestation goes out as its bytes are, whatever wrote it: its digest is what is proved.
//
// covers P14.1
func TestWriteMessage(t *testing.T) {
	t.Parallel()
	attestation := []byte(`{"payloadType":"application\/vnd.in-toto+json","signatures":[],"payload":"e30="}`)
	b, err := contract.WriteMessage(&contract.Message{Type: contract.TypeDeclaration, Papers: contract.Papers{Attestation: attestation, Contracts: []string{"<&>"}}})
	noError(t, err)
	m, code := contract.ParseMessage(b)
	failIf(t, code != "" || !bytes.Equal(m.Attestation, attestation) || m.Contracts[0] != "<&>", "%s: %q", b, code)
	for _, m := range []contract.Message{
		{},
		{Type: contract.TypeVerdict, Accepted: true, Until: time.Date(2026, 3, 1, 0, 0, 0, 1, time.UTC)},
		{Type: contract.TypeRevocations, Papers: contract.Papers{Revocations: []byte("{")}},
		{Type: contract.TypeRevocations, Papers: contract.Papers{Revocations: []byte(`"` + strings.Repeat("x", bcp.MaxRoleMessage) + `"`)}},
	} {
		b, err := contract.WriteMessage(&m)
		failIf(t, err == nil, "%.100s is written", b)
	}
}

// Whatever is read as a message is written as one that says the same, and no message is
// read in two ways.
//
// covers P14.1
func FuzzParseMessage(f *testing.F) {
	for _, body := range []string{
		`{"type":"bcp_role_open","name":"dual-llm"}`,
		`{"type":"bcp_role_challenge","nonce":"` + aNonce + `","asker":"org1.example","requirement":{}}`,
		declared(`"contracts":["{}"],"revocations":{},"proof":{"key":"U","signature":"AA=="}`),
		`{"type":"bcp_role_verdict","accepted":true,"until":"2026-03-01T00:00:00Z"}`,
		`{"type":"bcp_role_revocations","revocations":{ "a":"\u0061" }}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, code := contract.ParseMessage(body)
		if code != "" {
			return
		}
		b, err := contract.WriteMessage(&m)
		stopIf(t, err != nil, "%s: %v", body, err)
		again, code := contract.ParseMessage(b)
		stopIf(t, code != "" || again.Type != m.Type || again.Accepted != m.Accepted || again.Code != m.Code || again.Nonce != m.Nonce,
			"%s became %s", body, b)
	})
}
