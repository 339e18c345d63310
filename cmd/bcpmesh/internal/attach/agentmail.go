package attach

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/imap"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
)

const (
	// mailFolder has, in the state folder, a folder for each agent whose mailbox a server has, with the Maildir that it is
	// copied into.
	mailFolder = "mail"
	// mailPatience is how long an agent that starts waits for the newest mail.
	mailPatience = 20 * time.Second
)

// copyMail copies the mailbox of an agent until end is called, and returns its Maildir. An agent whose mailbox no server has
// has none. What was copied of another mailbox is removed.
func copyMail(ctx context.Context, folder meshdir.Folder, def *bcp.Mesh, agent *bcp.Agent, state string, log hclog.Logger) (maildir []string, end func(), err error) {
	all, name := filepath.Join(state, mailFolder, string(agent.Name)), ""
	var server guard.MailServer
	if slices.Contains(agent.Tools, mailbox.Name) && guard.IsMailServer(agent.Mailbox) {
		if server, err = guard.ParseMailServer(agent.Mailbox); err != nil {
			return nil, nil, cli.Failf("the mailbox of %s: %s", agent.Name, err)
		}
		digest := sha256.Sum256([]byte(server.User + "\n" + server.Target.Authority() + "\n" + server.Mailbox))
		name = hex.EncodeToString(digest[:8])
	}
	if err := removeOthers(all, name); err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, cli.FileReason(err))
	}
	if name == "" {
		return nil, func() {}, nil
	}
	key := func() (string, error) { return folder.MailKey(agent.MailboxKey) }
	if _, err := key(); err != nil {
		return nil, nil, cli.Failf("%s: %s", agent.Name, err)
	}
	path, err := filepath.Abs(filepath.Join(all, name))
	if err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, cli.FileReason(err))
	}
	copier, err := imap.NewCopier(imap.Options{
		Server: server, Key: key, Folder: path, Logger: log,
		Dialer: &fetch.Dialer{Policy: fetch.Policy([]string{server.Target.Authority()}, os.LookupEnv), Addresses: def.AllowAddresses, Resolver: fetch.NewResolver()},
	})
	if err != nil {
		return nil, nil, cli.Failf("the mail of %s: %s", agent.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		copier.Run(ctx)
	}()
	select {
	case <-copier.Looked():
	case <-ctx.Done():
	case <-time.After(mailPatience):
		log.Info("the mailbox is still being copied, the newest messages first")
	}
	return []string{path}, func() {
		cancel()
		<-ended
	}, nil
}

// removeOthers removes what is in a folder under other names, and the folder if nothing is left.
func removeOthers(folder, name string) error {
	entries, err := os.ReadDir(folder)
	if os.IsNotExist(err) {
		return nil
	}
	for _, e := range entries {
		if e.Name() != name {
			if err := os.RemoveAll(filepath.Join(folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return err
}
