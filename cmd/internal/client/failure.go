package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/bcpmesh/bcpmesh/accounts"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/jetstream"
	"github.com/bcpmesh/bcpmesh/mesh"
	"github.com/bcpmesh/bcpmesh/mesh/server"
)

// BaseHint says where a base is taken from.
const BaseHint = "it is in that file: tar -xzf FILE -C .bcpmesh base"

// After is what an error says after the one that it wraps.
func After(err, wrapped error) string {
	_, rest, found := strings.Cut(err.Error(), wrapped.Error()+": ")
	if !found {
		return cli.Plain(err.Error())
	}
	return cli.Plain(rest)
}

// JournalFailure says what is wrong with a journal or a backup, and what to do.
func JournalFailure(err error, folder string) error {
	var said *cli.Failure
	switch {
	case errors.As(err, &said):
		return said
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, server.ErrInUse):
		return cli.Failf("a mesh is starting on %s", cli.Quoted(folder)).WithHint("try again when it serves")
	case errors.Is(err, mesh.ErrSalvage):
		return cli.Failf("a mesh runs on %s", cli.Quoted(folder)).WithHint("stop it first: the journal of a running mesh is backed up, and not salvaged")
	case errors.Is(err, jetstream.ErrBase):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint(BaseHint)
	case errors.Is(err, state.ErrDefinitions):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("bcpmesh restore OLDEST... NEWEST DIR rebuilds the whole journal from backups: look there")
	case errors.Is(err, jetstream.ErrHashes):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("they are in that file: tar -xzf FILE -C .bcpmesh tree/hashes")
	case errors.Is(err, jetstream.ErrNothingToSalvage):
		return cli.Failf("%s", cli.Plain(err.Error()))
	case errors.Is(err, jetstream.ErrLost), errors.Is(err, jetstream.ErrRewritten):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("bcpmesh backup --salvage saves what is left")
	case errors.Is(err, jetstream.ErrRecord):
		return cli.Failf("the journal is damaged: %s", cli.Plain(err.Error())).WithHint("bcpmesh backup --salvage saves everything before the damage")
	case errors.Is(err, accounts.ErrBusy):
		return cli.Failf("%s", cli.Plain(err.Error())).WithHint("another command is using %s: try again", cli.Plain(folder))
	}
	return cli.Failf("%s", cli.Plain(err.Error()))
}

// RecordProgress draws a bar on a terminal. finish removes it.
func RecordProgress(p *cli.Program, what string) (progress func(done, all uint64), finish func()) {
	if !p.Out.TalkTerminal {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	return func(done, all uint64) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(all), progressbar.OptionSetWriter(p.Out.Stderr), progressbar.OptionShowCount(),
					progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(what))
			}
			_ = bar.Set64(int64(done)) // it is talk
		}, func() {
			if bar != nil {
				_ = bar.Finish()
			}
		}
}
