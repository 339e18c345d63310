package accounts

import "github.com/nats-io/nkeys"

// Verify reports whether signature is of statement, by the holder of a public
// user key.
func Verify(key string, statement, signature []byte) bool {
	if !nkeys.IsValidPublicUserKey(key) {
		return false
	}
	public, err := nkeys.FromPublicKey(key)
	return err == nil && public.Verify(statement, signature) == nil
}
