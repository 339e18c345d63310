package pages

import (
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
	"github.com/bcpmesh/bcpmesh/mesh/server"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// siteFlags say where browsers of other machines find the pages.
type siteFlags struct{ origin, cert, key, store string }

func (f *siteFlags) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.origin, "origin", "", "serve browsers elsewhere at this `URL`, such as https://mesh.example.org, with passkeys")
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "with --origin: the certificate in this PEM `FILE`")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "the key of --tls-cert, a PEM `FILE`")
	cmd.Flags().StringVar(&f.store, "store", "", "with --origin: keep who enrolled in this `DIR` (default: web in the state folder)")
	cli.Complete(cmd, "origin", cobra.NoFileCompletions)
}

// open returns the site, nil without --origin.
func (f *siteFlags) open(p *cli.Program, who *client.Flags) (*web.Site, error) {
	switch {
	case f.origin == "" && f.cert+f.key+f.store != "":
		return nil, cli.Usagef("web: --tls-cert, --tls-key and --store need --origin")
	case f.origin == "":
		return nil, nil
	case (f.cert == "") != (f.key == ""):
		return nil, cli.Usagef("web: --tls-cert and --tls-key must be given together")
	case f.store == "" && who.Creds != "":
		return nil, cli.Usagef("web: with --creds, --origin needs --store DIR").WithHint("it keeps the passkeys of people, and the creds that are bound to them")
	}
	store := f.store
	if store == "" {
		folder, err := who.Where.Folder()
		if err != nil {
			return nil, err
		}
		store = filepath.Join(folder.State, "web")
	}
	log := cli.NewLogger(hclog.Info, p.Out.Stderr)
	people, err := openPeople(store, who, log)
	if err != nil {
		return nil, err
	}
	site := &web.Site{Origin: f.origin, People: people}
	if f.cert != "" {
		if site.TLS, err = server.FileTLS(f.cert, f.key, log); err != nil {
			return nil, cli.Failf("--tls-cert %s: %s", cli.Quoted(f.cert), cli.FileReason(err)).WithHint("it needs a certificate and its key, as PEM files")
		}
	}
	return site, nil
}
