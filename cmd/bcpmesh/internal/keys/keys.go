package keys

import (
	"context"
	"errors"
	"time"

	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// Seal encrypts the keys with a passphrase.
type Seal struct{ meshdir.StateFlags }

func (o *Seal) Run(_ context.Context, p *cli.Program, _ []string) error {
	folder, store, err := o.KeyStore()
	if err != nil {
		return err
	}
	if err := meshdir.SealKeys(store); err != nil {
		return err
	}
	serves := folder.Serves()
	if !serves {
		err = mesh.RemoveCommandCreds(folder.State)
		serves = errors.Is(err, server.ErrInUse)
	}
	switch {
	case serves:
		p.Out.Talkf("the mesh keeps running; to follow later key changes it needs the passphrase: restart it. Until it stops, the credentials of the agents that it starts stay in the clear, in run/")
	case err != nil:
		return cli.Failf("the keys are sealed; the credentials that a killed mesh left in run/ are not removed: %s", cli.FileReason(err))
	}
	return p.Out.Show(struct {
		State  string `json:"state"`
		Sealed bool   `json:"sealed"`
	}{folder.State, true}, func() { p.Out.Printf("the keys in %s are sealed\n", cli.Plain(folder.State)) })
}

// Rotate replaces the keys that sign credentials.
// What a replaced key has signed is still taken long enough to replace files by hand.
type Rotate struct {
	meshdir.StateFlags
	Expires cli.DurationFlag `default:"24h"`
}

func (o *Rotate) Run(ctx context.Context, p *cli.Program, _ []string) error {
	folder, store, err := o.KeyStore()
	if err != nil {
		return err
	}
	shortened, err := store.RotateAccounts(o.Expires.Value)
	if err != nil {
		return err
	}
	running, err := follow(ctx, p, folder, store)
	if err != nil {
		return err
	}
	ending, until := []string{}, time.Now().Add(o.Expires.Value)
	for _, u := range shortened {
		if !u.Own {
			ending = append(ending, u.PublicKey)
		}
	}
	return p.Out.Show(struct {
		Ending  []string  `json:"ending"` // public keys of files that end with the overlap
		Until   time.Time `json:"until"`
		Applied bool      `json:"applied"` // by a running mesh
	}{ending, until.UTC().Truncate(time.Second), running}, func() {
		p.Out.Printf("all accounts have new signing keys\n")
		if len(ending) > 0 {
			p.Out.Talkf("%s refused from %s on: bcpmesh creds issue makes others", cli.Count(len(ending), "file"), cli.Moment(until))
		}
		if running {
			p.Out.Talkf("the mesh has applied it")
		} else {
			p.Out.Talkf("it takes effect at the next start: no mesh runs here")
		}
	})
}
