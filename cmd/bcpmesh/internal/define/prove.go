package define

import (
	"crypto/sha256"
	"os"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// prove proves the JWTs that the server of a mesh served last, from its state folder or
// from a copy of operator.jwt and accounts there, and returns their digest; nil of a mesh
// that was never started. A peer has the same digest of the same JWTs.
func prove(state string) (*proof.Report, bcp.Digest, error) {
	served := server.Claims(state)
	if _, err := os.Stat(served.Operator); err != nil {
		return nil, bcp.Digest{}, nil //nolint:nilerr // it was never started
	}
	var claims proof.Claims
	sum := sha256.New()
	for _, name := range []string{served.Accounts, served.Operator} { // in the order that peers digest
		if err := addTokens(&claims, name, sum); err != nil {
			return nil, bcp.Digest{}, err
		}
	}
	report, err := proof.Prove(claims, proof.Policy{})
	return &report, bcp.Digest(sum.Sum(nil)), err
}
