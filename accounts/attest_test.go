package accounts_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

func attestedStatement(keys ...string) *contract.Statement {
	ref := func(name string) contract.ContractRef {
		for _, b := range contract.Builtins() {
			if b.Name == name {
				return contract.RefTo(sha256.Sum256([]byte(b.Bytes)))
			}
		}
		panic(name)
	}
	return &contract.Statement{Keys: keys, Declaration: contract.Declaration{
		Agent: contract.AgentID{Name: "agent-a", Organisation: "org1.example"}, Parts: contract.Parts{
			Architecture: contract.DualLLM,
			Planner:      contract.Part{Is: "claude-sonnet", Contract: ref("planner-v1")},
			Processor:    contract.Part{Is: "claude-haiku", Contract: ref("processor-v1")},
			Orchestrator: contract.Interpreter{Is: contract.DeterministicInterpreter, Contract: ref("orchestrator-v1")},
		}}}
}

var shown = contract.AttestedEvidence{Proof: &contract.PermissionProof{Claims: 7, JWTs: "aa"}, Build: "test", Definitions: bcp.Digest{1}}

func attestPublic(t *testing.T, text []byte) (key [32]byte) {
	t.Helper()
	block, _ := pem.Decode(text)
	stopIf(t, block == nil, "%q is no PEM", text)
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	edwards, ok := public.(ed25519.PublicKey)
	stopIf(t, err != nil || !ok, "%T: %v", public, err)
	copy(key[:], edwards)
	return key
}

func judged(t *testing.T, store *accounts.Store, envelope, revocations []byte, last int64) contract.Acceptance {
	t.Helper()
	signer := must(store.Attester())(t)
	verify := func(key [32]byte, message, signature []byte) bool { return ed25519.Verify(key[:], message, signature) }
	e := contract.Examination{
		Envelope: envelope, Agent: "agent-a@org1.example", Trust: []bcp.Trust{{Organisation: "org1.example", Key: attestPublic(t, signer.PublicPEM())}},
		LastNumber: last, Now: time.Now(), Requirement: contract.DualLLMRequirement(), Verify: verify,
	}
	for _, b := range contract.Builtins() {
		e.Contracts = append(e.Contracts, []byte(b.Bytes))
	}
	list, code := contract.OpenRevocations(revocations, "org1.example", e.Trust, e.Now, verify)
	stopIf(t, code != "", "the list of revocations: %s", code)
	e.Revocations = list
	return contract.JudgeAttestation(&e)
}

// What a store signs is accepted, until its serial, its agent, its key or its user is
// revoked; and each list has a greater number than the one before.
// covers DUAL-90, DUAL-93, DUAL-105
func TestAttest(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	must(accounts.Compile(store, scopes(), now))(t)
	creds := must(store.Issue("researcher", bcp.RoleReader, time.Hour))(t)
	last := int64(0)
	attest := func(keys ...string) (string, []byte) {
		t.Helper()
		s := attestedStatement(keys...)
		envelope := must(store.Attest(s, shown, time.Hour))(t)
		return s.Serial, envelope
	}
	want := func(what string, envelope []byte, code contract.VerdictCode) {
		t.Helper()
		list, parsed, err := store.Revocations("org1.example", time.Hour)
		stopIf(t, err != nil || parsed.Number <= last, "%s: number %d follows %d: %v", what, parsed.Number, last, err)
		a := judged(t, store, envelope, list, last)
		failIf(t, a.Code != code || a.Accepted != (code == ""), "%s: %q, want %q", what, a.Code, code)
		last = parsed.Number
	}
	serial, first := attest("UONE")
	_, second := attest(creds.PublicKey)
	want("signed", first, "")
	want("signed", second, "")
	must(store.RevokeAttestations(serial))(t)
	want("its serial is revoked", first, contract.Revoked)
	want("another serial is revoked", second, "")
	noError(t, store.Revoke(creds.PublicKey))
	want("its user is revoked", second, contract.Revoked)
	_, third := attest("UTWO")
	want("signed after that", third, "")
	noError(t, errors.Join(store.RevokeAttestedKey("UTWO"), store.RevokeAttestedKey("UTWO")))
	want("its key is revoked", third, contract.Revoked)
	_, fourth := attest("UTHREE")
	serials, err := store.RevokeAttestations("agent-a@org1.example")
	stopIf(t, err != nil || len(serials) != 4, "%v: %v", serials, err)
	want("all of the agent are revoked", fourth, contract.Revoked)
	for _, unknown := range []string{"agent-b@org1.example", "x"} {
		fails(t, errorOf(store.RevokeAttestations(unknown)), accounts.ErrNotAttested, "%s", unknown)
	}
	// Another process sees all of it.
	again := openStore(t, folder)
	if _, parsed, err := again.Revocations("org1.example", time.Hour); err != nil || len(parsed.Serials) != 4 || parsed.Number <= last || parsed.Number < time.Now().Unix()-60 {
		t.Errorf("%+v: %v", parsed, err)
	}
}

// Attestations are good for a second to seven days, and lists too; what nobody would
// accept is not signed.
func TestAttestLimits(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	for validity, ok := range map[time.Duration]bool{0: false, time.Second - 1: false, time.Second: true, contract.MaxValidity: true, contract.MaxValidity + 1: false, -1: false} {
		_, err := store.Attest(attestedStatement("U"), shown, validity)
		failIf(t, (err == nil) != ok, "an attestation for %s: %v", validity, err)
		_, _, err = store.Revocations("org1.example", validity)
		failIf(t, (err == nil) != ok, "a list for %s: %v", validity, err)
	}
	_, _, err := store.Revocations("Org 1", time.Hour)
	failIf(t, err == nil, "a list of no organisation is signed")
	for name, change := range map[string]func(s *contract.Statement){
		"no keys":       func(s *contract.Statement) { s.Keys = nil },
		"65 keys":       func(s *contract.Statement) { s.Keys = strings.Split(strings.Repeat("U,", 64)+"U", ",") },
		"no agent":      func(s *contract.Statement) { s.Declaration.Agent = contract.AgentID{} },
		"no contract":   func(s *contract.Statement) { s.Declaration.Processor.Contract = "" },
		"no family":     func(s *contract.Statement) { s.Declaration.Planner.Is = "" },
		"a long family": func(s *contract.Statement) { s.Declaration.Planner.Is = strings.Repeat("x", 513) },
	} {
		s := attestedStatement("U")
		change(s)
		fails(t, errorOf(store.Attest(s, shown, time.Hour)), nil, "%s: signed", name)
	}
	var none accounts.Attester
	_, err = none.Sign(nil)
	failIf(t, err == nil || none.PublicPEM() != nil || none.KeyID() != "", "the zero attester has a key")
}

// The key is made once, by whoever is first, and is sealed with the others.
func TestAttestKey(t *testing.T) {
	t.Parallel()
	store, folder := newStore(t)
	var made [8][]byte
	done := make(chan int)
	for i := range made {
		go func() {
			if signer, err := store.Attester(); err == nil {
				made[i] = signer.PublicPEM()
			}
			done <- i
		}()
	}
	for range made {
		<-done
	}
	for i := range made {
		stopIf(t, made[i] == nil || !bytes.Equal(made[i], made[0]), "%q and %q", made[i], made[0])
	}
	file := filepath.Join(folder, "keys", accounts.AttestKeyFile)
	open := must(os.ReadFile(file))(t)
	store.LittleWork()
	noError(t, store.Seal(passphrase))
	sealed, err := os.ReadFile(file)
	stopIf(t, err != nil || !bytes.HasPrefix(sealed, []byte("age-encryption.org/v1\n")),
		"the key lies open: %.20q, %v", sealed, err)
	closed := openStore(t, folder)
	fails(t, errorOf(closed.Attester()), accounts.ErrSealed, "without the passphrase")
	opened := openStore(t, folder, asks(passphrase, nil))
	signer, err := opened.Attester()
	failIf(t, err != nil || !bytes.Equal(signer.PublicPEM(), made[0]), "another key: %v", err)
	for name, content := range map[string][]byte{"nothing": nil, "no PEM": []byte("x"), "two": append(open, open...), "another type": bytes.ReplaceAll(open, []byte("PRIVATE"), []byte("PUBLIC"))} {
		noError(t, os.WriteFile(file, content, 0o600))
		fails(t, errorOf(opened.Attester()), nil, "%s is taken for a key", name)
	}
}
