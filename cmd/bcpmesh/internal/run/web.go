package run

import (
	"context"

	"github.com/bcpmesh/bcpmesh/cmd/bcpmesh/internal/pages"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/meshdir"
	"github.com/bcpmesh/bcpmesh/mesh/web"
)

// listenWeb takes the port of the pages before anything is started; nil without --web.
func (o *upOptions) listenWeb(p *cli.Program) (*web.Server, error) {
	if o.web == "" {
		return nil, nil
	}
	return pages.Listen(p, "--web", o.web, nil)
}

// serving are pages that are served with a mesh. The zero value is none.
type serving struct {
	failed chan error
	stop   func()
}

// serveWeb serves pages about the mesh that runs in a folder until ctx ends or they are
// stopped.
func serveWeb(ctx context.Context, server *web.Server, where meshdir.StateFlags) serving {
	if server == nil {
		return serving{stop: func() {}}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := serving{failed: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := pages.Serve(ctx, server, where); err != nil && ctx.Err() == nil {
			s.failed <- err
		}
	}()
	s.stop = func() {
		cancel()
		<-ended
	}
	return s
}
