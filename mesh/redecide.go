package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/state"
	"github.com/bcpmesh/bcpmesh/jetstream"
)

// RedecideOptions select the decisions to make again, and with what.
type RedecideOptions struct {
	// Definition has the rules of the new decisions; Version names the program
	// that makes them. Both are required.
	Definition *bcp.Mesh
	Version    string
	// Since is the first moment and Until the one after the last; zero means no
	// limit. Channel, if set, selects one channel; the zero channel stands for
	// decisions that belong to none.
	Since, Until time.Time
	Channel      *bcp.ChannelKey
	// Each is called with every decision of the journal up to Until, in order. The
	// result is zero if the decision is not made again, or not selected. An error
	// stops it.
	Each func(*bcp.Decision, state.Redecision) error
	// Progress, if set, is called with the number of records done and the total.
	Progress func(done, all uint64)
}

func (o *RedecideOptions) wants(d *bcp.Decision) bool {
	key, _ := d.Channel()
	return !d.At().Before(o.Since) && (o.Channel == nil || *o.Channel == key)
}

// Redecide makes the decisions about recorded messages again and compares them
// (PROTOCOL P11.3), up to the newest when it begins. A truncated journal is decided again
// from its base on. Nothing is changed. The digest is of the program and definitions:
// decisions with this digest as context were made by the same.
func (s *Source) Redecide(ctx context.Context, o RedecideOptions) (bcp.Digest, error) {
	by, err := s.redecide(ctx, o)
	if err != nil {
		return bcp.Digest{}, fmt.Errorf("decide again: %w", err)
	}
	return by, nil
}

// DecidedBy returns the digest of definitions and a version: decisions with this
// digest as context were made by the same.
func DecidedBy(def *bcp.Mesh, version string) (bcp.Digest, error) {
	r, err := state.NewRedecider(newStateConfig(def, version))
	if err != nil {
		return bcp.Digest{}, err
	}
	return r.Context(), nil
}

var errUntil = errors.New("the rest is not asked for")

func (s *Source) redecide(ctx context.Context, o RedecideOptions) (by bcp.Digest, err error) {
	redecider, _, err := origin(ctx, s, state.NewRedecider, state.NewRedeciderBehind, newStateConfig(o.Definition, o.Version))
	if err != nil {
		return by, err
	}
	done := uint64(0)
	err = s.Records(ctx, 0, 0, func(r jetstream.Record) error {
		for _, record := range r.Decisions {
			rec, err := s.Keys.Recorded(ctx, record)
			if err != nil {
				return err
			}
			if !o.Until.IsZero() && !rec.Decision.At().Before(o.Until) {
				return errUntil
			}
			result, err := redecider.Next(&rec, o.wants(&rec.Decision))
			if err == nil {
				err = o.Each(&rec.Decision, result)
			}
			if err != nil {
				return err
			}
		}
		if done++; o.Progress != nil {
			o.Progress(done, done+r.Left)
		}
		return ctx.Err()
	})
	if errors.Is(err, errUntil) {
		err = nil
	}
	return redecider.Context(), err
}
