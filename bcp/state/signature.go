package state

import (
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// signedApproval reports whether the sender of an approval signed it, alone or in a batch.
func (s *State) signedApproval(from bcp.Sender, a *bcp.Approval, act bcp.Act) bool {
	statement, ok := a.Signed(act)
	return ok && s.signedBy(from, a.Signature, a.Passkey, statement)
}

// signedBy reports whether a sender signed a statement: with the passkey of its creds where
// they are bound to one, else with their key.
func (s *State) signedBy(from bcp.Sender, signature string, passkey *bcp.Assertion, statement []byte) bool {
	switch {
	case from.Passkey.IsZero() != (passkey == nil) || passkey != nil && signature != "":
		return false
	case passkey != nil:
		return s.passkeys != nil && s.passkeys(from.Passkey, passkey, statement)
	}
	b, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && s.verify != nil && s.verify(from.Key, statement, b)
}

// signed notes what makes an approval count.
func signed(d *bcp.Decision, from bcp.Sender, a *bcp.Approval) {
	sign(d, from, a.Signature, a.Passkey, a.SHA256, a.Expires)
	if statement, ok := a.Signed(bcp.Act(d.Event)); ok && len(a.Batch) > 0 {
		d.Batch, d.Statement = a.Batch, sha256.Sum256(statement)
	}
}

// sign notes who signed, what, and until when that holds.
func sign(d *bcp.Decision, from bcp.Sender, signature string, passkey *bcp.Assertion, digest bcp.Digest, until time.Time) {
	d.Key, d.Passkey, d.Released, d.SignedUntil, d.Unsealed = from.Key, from.Passkey, digest, until.UnixNano(), passkey == nil
	if passkey == nil {
		d.Signature, _ = base64.StdEncoding.DecodeString(signature) // judged before
		return
	}
	d.Signature, _ = json.Marshal(passkey) // of texts that were read
	d.Synced = passkey.Synced()
}
