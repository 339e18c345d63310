package server

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// Enforced is what the server of a state folder lets agents do, by its claims.
type Enforced struct {
	Accounts int // 0: it never started
	Largest  int // bytes of the largest account's JWT

	grants map[string]string
}

// ReadEnforced reads the claims that the server of a state folder was given last, whether it
// runs or not. The error names the file.
func ReadEnforced(state string) (Enforced, error) {
	files, _ := filepath.Glob(filepath.Join(Claims(state).Accounts, "*.jwt")) // a bad pattern finds none
	c := Enforced{Accounts: len(files), grants: map[string]string{}}
	for _, file := range files {
		content, err := os.ReadFile(file)
		var account *jwt.AccountClaims
		if err == nil {
			account, err = jwt.DecodeAccountClaims(string(content))
		}
		if err != nil {
			return Enforced{}, fmt.Errorf("%s are damaged: %s", filepath.Base(file), disk.Reason(err))
		}
		c.Largest = max(c.Largest, len(content))
		for _, key := range account.SigningKeys {
			if scope, ok := key.(*jwt.UserScope); ok {
				c.grants[scope.Role] = granted(scope.Template.Pub.Allow, scope.Template.Sub.Allow)
			}
		}
	}
	return c, nil
}

// Grant reports whether the claims have the subjects of a scope, and no others.
func (c *Enforced) Grant(s subjects.Scope) bool {
	return c.grants[s.Role.String()+"-"+string(s.Agent)] == granted(s.PubAllow, s.SubAllow)
}

func granted(publish, subscribe []string) string {
	publish, subscribe = slices.Clone(publish), slices.Clone(subscribe)
	slices.Sort(publish)
	slices.Sort(subscribe)
	return strings.Join(publish, " ") + " / " + strings.Join(subscribe, " ")
}
