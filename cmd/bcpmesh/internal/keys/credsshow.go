package keys

import (
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

func credsShowCommand(p *cli.Program) *cobra.Command {
	var where meshdir.StateFlags
	cmd := &cobra.Command{
		Use:               "show FILE",
		Args:              cli.Arguments(1, "FILE"),
		ValidArgsFunction: cli.FirstArgument(cobra.FixedCompletions([]string{"creds"}, cobra.ShellCompDirectiveFilterFileExt)),
		RunE:              func(_ *cobra.Command, args []string) error { return showCreds(p, where, args[0]) },
	}
	where.AddTo(cmd)
	return cmd
}

func showCreds(p *cli.Program, where meshdir.StateFlags, name string) error {
	content, err := cli.ReadSmall(name)
	if err != nil {
		return cli.Failf("%s cannot be read: %s", cli.Quoted(name), cli.FileReason(err))
	}
	shown, err := meshdir.ParseCreds(content)
	if err != nil {
		return cli.Failf("%s holds no credentials of a mesh: %s", cli.Quoted(name), err)
	}
	if err := judgeCreds(&shown, where); err != nil {
		return err
	}
	if info, err := os.Stat(name); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		p.Out.Talkf("warning: others may read %s: chmod 600 %s", name, name)
	}
	if p.Out.JSON {
		err = p.Out.Value(shown)
	} else {
		expires := "never"
		if !shown.Expires.IsZero() {
			expires = cli.Moment(shown.Expires)
		}
		p.Out.Printf("agent       %s\nrole        %s\nstatus      %s\nissued      %s\nexpires     %s\npublic key  %s\nissuer key  %s\naccount key %s\n",
			shown.Agent, shown.Role, shown.Status, cli.Moment(shown.Issued), expires, shown.PublicKey, shown.IssuerKey, shown.AccountKey)
	}
	switch {
	case err != nil:
		return err
	case shown.Status == "unknown":
		return cli.Failf("the credentials are not of this mesh")
	case shown.Status == "expired" || shown.Status == "revoked":
		return cli.Failf("the credentials are %s", shown.Status)
	}
	return nil
}

// judgeCreds asks the keys of the mesh about the credentials, if there are any.
// Without flags that name a mesh, its absence is no failure.
func judgeCreds(s *meshdir.Creds, where meshdir.StateFlags) error {
	folder, err := where.Folder()
	named := where != meshdir.StateFlags{}
	if err != nil {
		if named {
			return err
		}
		return nil
	}
	store, err := accounts.Open(folder.State)
	if err != nil {
		if named {
			return meshdir.KeysFailure(err, folder.State)
		}
		return nil
	}
	users, err := store.Users()
	if err != nil {
		return cli.Failf("%s", err)
	}
	s.Status = "unknown"
	for _, u := range users {
		if u.PublicKey == s.PublicKey && u.Agent == s.Agent && u.Role == s.Role {
			s.Status = meshdir.CredsStatus(u, time.Now())
		}
	}
	return nil
}
