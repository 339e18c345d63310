package mesh_test

import (
	"context"
	"errors"
	"io"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/status"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// The verbs of an operator, each in one place where a mesh is.

func backUp(ctx context.Context, state string, def *bcp.Mesh, w io.Writer, o mesh.BackupOptions) (m jetstream.Manifest, err error) {
	err = mesh.Use(ctx, state, def, func(s *mesh.Source) (err error) {
		m, err = s.Backup(ctx, w, o)
		return err
	}, o.Keys...)
	return m, err
}

func backUpCluster(ctx context.Context, access server.ClusterConfig, state string, w io.Writer, o mesh.BackupOptions) (jetstream.Manifest, error) {
	s, err := mesh.DialCluster(ctx, access, state)
	if err != nil {
		return jetstream.Manifest{}, err
	}
	m, err := s.Backup(ctx, w, o)
	return m, errors.Join(err, s.Close())
}

func redecideFolder(ctx context.Context, state string, def *bcp.Mesh, o mesh.RedecideOptions) (by bcp.Digest, err error) {
	err = mesh.Use(ctx, state, def, func(s *mesh.Source) (err error) {
		by, err = s.Redecide(ctx, o)
		return err
	})
	return by, err
}

func reconcileFolder(ctx context.Context, state string, def *bcp.Mesh, version string) (r status.Reconciliation, err error) {
	err = mesh.Use(ctx, state, def, func(s *mesh.Source) (err error) {
		r, err = s.Reconcile(ctx, version)
		return err
	})
	return r, err
}

func readSealed(ctx context.Context, state string, def *bcp.Mesh, read func(jetstream.Records, *jetstream.SealingKeys) error, keys ...accounts.OpenOption) error {
	return mesh.Use(ctx, state, def, func(s *mesh.Source) error { return read(s.Records, s.Keys) }, keys...)
}

// operatorOf is a running mesh, as its operator asks it.
func operatorOf(o *agents.Operator) mesh.Operator {
	return mesh.Operator{Records: journalOf(o), Key: o.Key, Reconcile: o.Reconcile,
		Truncate: func(ctx context.Context, t bcp.Truncation) (jetstream.Position, error) {
			r, err := o.Truncate(ctx, t)
			if err == nil && r.Failed != "" {
				err = errors.New(r.Failed)
			}
			return jetstream.Position{Sequence: r.Sequence, Decision: r.Decision, Head: r.Head}, err
		},
	}
}
