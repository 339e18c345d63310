package keys

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

// Invite makes a token with which somebody makes credentials of their own.
type Invite struct {
	meshdir.StateFlags
	restrictionFlags
	meshdir.RoleFlag
	Web     string
	Within  cli.DurationFlag `default:"1h" least:"1s"`
	Expires cli.DurationFlag `least:"1s"`
}

func (o *Invite) Run(ctx context.Context, p *cli.Program, args []string) error {
	page := o.Web
	agent, err := meshdir.AgentArgument("creds invite", args[0])
	if err != nil {
		return err
	}
	if o.Within.Value > accounts.MaxInvitation {
		return cli.Usagef("creds invite: --within: at most 7d")
	}
	if _, ok := accounts.PasskeySite(page); page != "" && !ok {
		return cli.Usagef("creds invite: --web: expected the --origin of bcpmesh web, such as https://mesh.example.org, got %s", cli.Quoted(page))
	}
	r, err := o.restriction("creds invite")
	if err != nil {
		return err
	}
	folder, store, err := o.KeyStore()
	if err != nil {
		return err
	}
	token, err := store.Invite(agent, o.Parsed(), o.Within.Value, o.Expires.Value, r, page != "") // where a passkey is made
	if err != nil {
		return err
	}
	if _, err := follow(ctx, p, folder, store); err != nil {
		return err
	}
	if p.Out.JSON {
		return p.Out.Value(struct {
			accounts.Invitation
			Token string `json:"token"`
			Page  string `json:"page,omitempty"`
		}{token.Invitation, token.Text(), enrolAt(page, token)})
	}
	if page != "" {
		p.Out.Printf("%s\n", enrolAt(page, token))
		p.Out.Talkf("%s enrols a passkey there, once until %s: then compare the six words of bcpmesh creds with theirs", token.Agent, cli.Moment(token.Ends))
		return nil
	}
	p.Out.Printf("%s\n", token.Text())
	with := ""
	if _, err := os.Stat(accounts.AuthorityFile(folder.State)); err == nil {
		with = " --ca ca.pem"
		p.Out.Talkf("give them %s with the token", accounts.AuthorityFile(folder.State))
	}
	p.Out.Talkf("%s as %s, good once until %s: bcpmesh join TOKEN --url URL --out FILE%s", token.Agent, token.Role, cli.Moment(token.Ends), with)
	return nil
}

// enrolAt is the address at which somebody enrols with a token, which is after the # that
// no server is told. It is empty without a page.
func enrolAt(page string, token accounts.Token) string {
	if page == "" {
		return ""
	}
	return page + "/enrol?as=" + string(token.Agent) + "#" + token.Text()
}

// Join makes credentials with a token.
type Join struct {
	URL, CA string `how:"given"`
	Out     string
	Wait    cli.DurationFlag `default:"30s"`
}

func (o *Join) Run(ctx context.Context, p *cli.Program, args []string) error {
	token, url, out := args[0], o.URL, o.Out
	switch {
	case url == "":
		return cli.Usagef("join: expected --url URL").WithHint("ask the operator of the mesh: bcpmesh up shows it")
	case out == "":
		return cli.Usagef("join: expected --out FILE").WithHint("for example --out agent.creds")
	}
	if token == "-" {
		const longest = 64 << 10
		content, err := io.ReadAll(io.LimitReader(p.In, longest))
		if err != nil {
			return cli.Failf("the token cannot be read: %s", cli.FileReason(err))
		}
		token = strings.TrimSpace(string(content))
	}
	secure, err := meshdir.Trust{CA: o.CA}.Options()
	if err != nil {
		return err
	}
	// What cannot be written is found before the token is used.
	file, err := cli.CreateFile(out)
	if err != nil {
		return err
	}
	defer file.Discard()
	ctx, cancel := context.WithTimeout(ctx, o.Wait.Value)
	defer cancel()
	creds, agent, role, err := agents.Join(ctx, url, token, bcp.Digest{}, secure...)
	var refused *agents.RefusedError
	switch {
	case errors.Is(err, agents.ErrToken):
		return cli.Usagef("join: this is not a token").WithHint("bcpmesh creds invite makes one; copy it whole")
	case errors.As(err, &refused) && refused.Code == bcp.NotPermitted, agents.CredsRefused(err):
		return (&cli.Failure{Code: cli.ExitRefused, Message: "the mesh does not accept this token"}).
			WithHint("it was used, has expired, was cancelled, or is of another mesh: ask for a new one. If it was used and not by you, report it")
	case errors.Is(err, nats.ErrNoServers), errors.As(err, new(*tls.CertificateVerificationError)):
		return meshdir.NotReached(url, err)
	case err != nil:
		return err
	}
	_, err = file.Write(creds)
	if err == nil {
		_, _, err = file.Keep()
	}
	if err != nil {
		return cli.Failf("%s cannot be written: %s", cli.Quoted(out), cli.FileReason(err)).WithHint("the token is used: ask for a new one")
	}
	return p.Out.Show(struct {
		Agent bcp.AgentName `json:"agent"`
		Role  bcp.Role      `json:"role"`
		File  string        `json:"file"`
	}{agent, role, out}, func() {
		p.Out.Printf("%s\n", cli.Plain(out))
		p.Out.Talkf("%s as %s: keep it as you keep a password", agent, role)
	})
}
