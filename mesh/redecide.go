package mesh

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
// from its base on: if the definitions need more than the base has, the error wraps
// [state.ErrDefinitions]. Nothing is changed. The digest is of the program and
// definitions: decisions with this digest as context were made by the same.
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

const (
	// openTogether is how many decisions one goroutine opens, and openAhead the
	// number of such goroutines.
	openTogether = 256
	openAhead    = 8
)

// opening is a part of the journal that is being decoded and opened.
type opening struct {
	records   [][]byte
	done, all uint64
	recorded  []state.Recorded
	err       error
	ready     chan struct{}
}

var errUntil = errors.New("the rest is not asked for")

// redecider returns what decides again, from where the journal begins.
func (s *Source) redecider(ctx context.Context, o RedecideOptions) (*state.Redecider, error) {
	config := newStateConfig(o.Definition, o.Version)
	begin, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	if !begin.Truncated() {
		return state.NewRedecider(config)
	}
	checkpoint, err := s.baseCheckpoint(ctx, begin)
	if err != nil {
		return nil, err
	}
	redecider, err := state.NewRedeciderBehind(config, checkpoint)
	if err != nil {
		err = fmt.Errorf("%w; the journal was truncated after decision %d", err, begin.Decision)
	}
	return redecider, err
}

// redecide decides in the order of the journal, while the following records are opened.
func (s *Source) redecide(ctx context.Context, o RedecideOptions) (by bcp.Digest, err error) {
	redecider, err := s.redecider(ctx, o)
	if err != nil {
		return by, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	parts := make(chan *opening, openAhead)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel(errUntil)
	var readErr error // before parts is closed
	work.Go(func() {
		defer close(parts)
		readErr = s.readParts(ctx, parts, &work)
	})
	for part := range parts {
		<-part.ready
		if part.err != nil {
			return by, part.err
		}
		for i := range part.recorded {
			rec := &part.recorded[i]
			if !o.Until.IsZero() && !rec.Decision.At().Before(o.Until) {
				return redecider.Context(), nil
			}
			result, err := redecider.Next(rec, o.wants(&rec.Decision))
			if err == nil {
				err = o.Each(&rec.Decision, result)
			}
			if err != nil {
				return by, err
			}
		}
		if o.Progress != nil {
			o.Progress(part.done, part.all)
		}
	}
	return redecider.Context(), readErr
}

// readParts sends the journal in parts, each opened by its own goroutine.
func (s *Source) readParts(ctx context.Context, parts chan<- *opening, work *sync.WaitGroup) error {
	part := &opening{}
	send := func() error {
		p := part
		p.ready = make(chan struct{})
		part = &opening{}
		work.Go(func() {
			defer close(p.ready)
			p.open(ctx, s.Keys)
		})
		select {
		case parts <- p:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	done := uint64(0)
	err := s.Records(ctx, func(decisions [][]byte, left uint64) error {
		done++
		part.records, part.done, part.all = append(part.records, decisions...), done, done+left
		if len(part.records) < openTogether {
			return ctx.Err()
		}
		return send()
	})
	if err == nil && len(part.records) > 0 {
		err = send()
	}
	return err
}

func (p *opening) open(ctx context.Context, keys *jetstream.SealingKeys) {
	p.recorded = make([]state.Recorded, len(p.records))
	for i, record := range p.records {
		if p.recorded[i], p.err = keys.Recorded(ctx, record); p.err != nil {
			return
		}
	}
}
