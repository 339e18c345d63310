package main

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

func credsShowCommand(p *program) *cobra.Command {
	var where stateFlags
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show whose credentials a file holds, and never its private key",
		Long: `Show whose credentials a file holds: agent, role, keys and times. Its private key
is checked and never shown.

Where the keys of the mesh are at hand, the status is what the mesh says of the
credentials; otherwise it is what the file says of itself, which only a server
can judge. The exit code is 1 where they are expired, revoked, or not of this mesh.

With --json the result is {agent, role, public_key, issuer_key, account_key,
issued, expires, status}.`,
		Example: `  bcpmesh creds show researcher.creds
  bcpmesh creds show researcher.creds --json`,
		Args:              arguments(1, "FILE"),
		ValidArgsFunction: firstArgument(cobra.FixedCompletions([]string{"creds"}, cobra.ShellCompDirectiveFilterFileExt)),
		RunE:              func(_ *cobra.Command, args []string) error { return showCreds(p, where, args[0]) },
	}
	where.addTo(cmd)
	return cmd
}

// shownCreds is what a creds file says. It holds no secret.
type shownCreds struct {
	Agent      bcp.AgentName `json:"agent"`
	Role       bcp.Role      `json:"role"`
	PublicKey  string        `json:"public_key"`
	IssuerKey  string        `json:"issuer_key"`
	AccountKey string        `json:"account_key"`
	Issued     time.Time     `json:"issued"`
	Expires    time.Time     `json:"expires,omitzero"` // zero: never
	Status     string        `json:"status"`           // valid, expired, revoked, unknown (to the mesh) or unchecked
}

func showCreds(p *program, where stateFlags, name string) error {
	content, err := readSmall(name)
	if err != nil {
		return failf("%s cannot be read: %s", quoted(name), reasonOf(err))
	}
	shown, err := parseCreds(content)
	if err != nil {
		return failf("%s holds no credentials of a mesh: %s", quoted(name), err)
	}
	if err := shown.judge(where); err != nil {
		return err
	}
	if info, err := os.Stat(name); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		p.out.talkf("warning: others may read %s: chmod 600 %s", name, name)
	}
	if p.out.json {
		err = p.out.value(shown)
	} else {
		expires := "never"
		if !shown.Expires.IsZero() {
			expires = moment(shown.Expires)
		}
		p.out.printf("agent       %s\nrole        %s\nstatus      %s\nissued      %s\nexpires     %s\npublic key  %s\nissuer key  %s\naccount key %s\n",
			shown.Agent, shown.Role, shown.Status, moment(shown.Issued), expires, shown.PublicKey, shown.IssuerKey, shown.AccountKey)
	}
	switch {
	case err != nil:
		return err
	case shown.Status == "unknown":
		return failf("the credentials are not of this mesh")
	case shown.Status == "expired" || shown.Status == "revoked":
		return failf("the credentials are %s", shown.Status)
	}
	return nil
}

// parseCreds reads a creds file. Its errors quote nothing of it.
func parseCreds(content []byte) (shownCreds, error) {
	token, err := jwt.ParseDecoratedJWT(content)
	if err != nil {
		return shownCreds{}, errors.New("it has no valid user JWT")
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return shownCreds{}, errors.New("it has no valid user JWT")
	}
	pair, err := jwt.ParseDecoratedUserNKey(content)
	if err != nil {
		return shownCreds{}, errors.New("it has no private key of a user")
	}
	defer pair.Wipe()
	if public, err := pair.PublicKey(); err != nil || public != claims.Subject {
		return shownCreds{}, errors.New("its private key is not that of its JWT")
	}
	shown := shownCreds{
		PublicKey: claims.Subject, IssuerKey: claims.Issuer, AccountKey: claims.IssuerAccount,
		Issued: time.Unix(claims.IssuedAt, 0).UTC(), Status: "unchecked",
	}
	var ok bool
	if shown.Agent, shown.Role, ok = subjects.ParseUserName(claims.Name); !ok {
		return shownCreds{}, errors.New("it is not an agent's")
	}
	if !nkeys.IsValidPublicUserKey(shown.PublicKey) || !nkeys.IsValidPublicAccountKey(shown.AccountKey) {
		return shownCreds{}, errors.New("its keys are not those of a user and an account")
	}
	if claims.Expires != 0 {
		shown.Expires = time.Unix(claims.Expires, 0).UTC()
		if !time.Now().Before(shown.Expires) {
			shown.Status = "expired"
		}
	}
	return shown, nil
}

// judge asks the keys of the mesh about the credentials, where there are any.
// Without flags that name a mesh, its absence is no failure.
func (s *shownCreds) judge(where stateFlags) error {
	folder, err := where.folder()
	named := where != stateFlags{}
	if err != nil {
		if named {
			return err
		}
		return nil
	}
	store, err := accounts.Open(folder.state)
	if err != nil {
		if named {
			return keysFailure(err, folder.state)
		}
		return nil
	}
	users, err := store.Users()
	if err != nil {
		return failf("%s", err)
	}
	s.Status = "unknown"
	for _, u := range users {
		if u.PublicKey == s.PublicKey && u.Agent == s.Agent && u.Role == s.Role {
			s.Status = statusOf(u, time.Now())
		}
	}
	return nil
}
