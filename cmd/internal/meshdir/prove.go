package meshdir

import (
	"crypto/sha256"
	"os"
	"path/filepath"

	"github.com/bcpmesh/bcpmesh/accounts/proof"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Prove proves the JWTs that the server of a mesh served last, from its state folder or
// from a copy of operator.jwt and accounts there, and returns their digest; nil of a mesh
// that was never started. A peer has the same digest of the same JWTs.
func Prove(state string) (*proof.Report, bcp.Digest, error) {
	served := server.Claims(state)
	operator, err := os.ReadFile(served.Operator)
	if err != nil {
		return nil, bcp.Digest{}, nil //nolint:nilerr // it was never started
	}
	files, err := filepath.Glob(filepath.Join(served.Accounts, "*.jwt"))
	if err != nil {
		return nil, bcp.Digest{}, cli.Failf("%s cannot be read: %s", cli.Quoted(served.Accounts), cli.FileReason(err))
	}
	var claims proof.Claims
	sum := sha256.New()
	for _, file := range files { // sorted
		token, err := os.ReadFile(file)
		if err != nil {
			return nil, bcp.Digest{}, cli.Failf("%s cannot be read: %s", cli.Quoted(file), cli.FileReason(err))
		}
		if err := claims.Add(string(token)); err != nil {
			return nil, bcp.Digest{}, cli.Failf("%s: %s", cli.Quoted(file), err)
		}
		_, _ = sum.Write(token)
	}
	if err := claims.Add(string(operator)); err != nil {
		return nil, bcp.Digest{}, cli.Failf("%s: %s", cli.Quoted(served.Operator), err)
	}
	_, _ = sum.Write(operator)
	report, err := proof.Prove(claims, proof.Policy{})
	return &report, bcp.Digest(sum.Sum(nil)), err
}
