package contract_test

import (
	"crypto/ed25519"
	"slices"
	"testing"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/contract"
)

func writable(t testing.TB) *contract.Statement {
	ref := func(name string) contract.ContractRef {
		c, ok := contract.ParseBuiltin(name)
		stopIf(t, !ok, "%v", name)
		return contract.RefTo(c.Digest)
	}
	return &contract.Statement{
		Declaration: contract.Declaration{
			Agent: contract.AgentID{Name: "agent-a", Organisation: "org1.example"}, Parts: contract.Parts{
				Architecture: contract.DualLLM,
				Planner:      contract.Part{Is: "claude <sonnet> & co", Contract: ref("planner-v1")},
				Processor:    contract.Part{Is: "claude-haiku", Contract: ref("processor-v1")},
				Orchestrator: contract.Interpreter{Is: contract.DeterministicInterpreter, Contract: ref("orchestrator-v1")},
			}},
		Keys: []string{"UKEY"}, Issued: issued, Expires: issued.Add(24 * time.Hour), Serial: "a-1",
	}
}

// What is written is read as it was meant, and accepted; the same statement has the same
// bytes.
// covers DUAL-85, DUAL-86, DUAL-87, DUAL-88, DUAL-89
func TestWritten(t *testing.T) {
	t.Parallel()
	evidence := contract.AttestedEvidence{Proof: &contract.PermissionProof{Claims: 7, JWTs: "aa"}, Definitions: bcp.Digest{1}, Build: "test", Checkpoint: "a\nb\n"}
	payload, err := contract.WriteStatement(writable(t), evidence)
	noError(t, err)
	again, err := contract.WriteStatement(writable(t), evidence)
	failIf(t, err != nil || string(again) != string(payload), "written twice: %s and %s, %v", payload, again, err)
	envelope := contract.WriteEnvelope(payload, "hint", ed25519.Sign(signingKey, contract.PAE(contract.PayloadType, payload)))
	e := examination(t, envelope)
	e.Requirement.Proof = true
	list := e.Revocations
	written, err := contract.WriteRevocations("org1.example", &list)
	noError(t, err)
	signed := contract.WriteEnvelope(written, "", ed25519.Sign(signingKey, contract.PAE(contract.PayloadType, written)))
	read, code := contract.OpenRevocations(signed, "org1.example", e.Trust, e.Now, verify)
	failIf(t, code != "" || read.Number != list.Number || read.Serials[0] != list.Serials[0] || !read.Next.Equal(list.Next),
		"%q: %+v", code, read)
	e.Revocations = read
	a := contract.JudgeAttestation(&e)
	failIf(t, !a.Accepted || a.Statement.Declaration != writable(t).Declaration || a.Statement.Proof == nil,
		"%q: %+v", a.Code, a.Statement)
}

// What no reader would take is not written.
func TestUnwritable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *contract.Statement){
		"nothing":   func(s *contract.Statement) { *s = contract.Statement{} },
		"no serial": func(s *contract.Statement) { s.Serial = "" },
		"too long":  func(s *contract.Statement) { s.Expires = s.Issued.Add(contract.MaxValidity + time.Second) },
		"no time":   func(s *contract.Statement) { s.Expires = s.Issued },
		"no digest": func(s *contract.Statement) {
			s.Declaration.Orchestrator.Contract = "https://org1.example/orchestrator-v1"
		},
		"no UTF-8":      func(s *contract.Statement) { s.Declaration.Planner.Is = "\xff" },
		"year 0 and on": func(s *contract.Statement) { s.Issued = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		s := writable(t)
		change(s)
		b, err := contract.WriteStatement(s, contract.AttestedEvidence{})
		failIf(t, err == nil, "%s: %s", name, b)
	}
	for name, list := range map[string]contract.Revocations{
		"nothing": {}, "number": {Number: -1, Issued: issued, Next: issued.Add(time.Hour)}, "next": {Number: 1, Issued: issued, Next: issued},
		"serials": {Number: 1, Issued: issued, Next: issued.Add(time.Hour), Serials: make([]string, 1)},
		"many":    {Number: 1, Issued: issued, Next: issued.Add(time.Hour), Keys: slices.Repeat([]string{"U"}, 1001)},
	} {
		b, err := contract.WriteRevocations("org1.example", &list)
		failIf(t, err == nil, "%s: %s", name, b)
	}
	list := contract.Revocations{Number: 1, Issued: issued, Next: issued.Add(time.Hour), Keys: slices.Repeat([]string{"U"}, 1000)}
	_, err := contract.WriteRevocations("org1.example", &list)
	failIf(t, err != nil, "1000 keys: %v", err)
}
