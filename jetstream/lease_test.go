package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/bcpmesh/bcpmesh/jetstream"
)

// inTime takes steps with leases, of which none may end meanwhile: where
// they fail and took long, as on a busy machine, it takes them again with others.
func inTime(t *testing.T, steps func(open func() *jetstream.Lease) error) {
	t.Helper()
	for last := time.Now().Add(patience); ; {
		js := streams(t)
		begin := time.Now()
		err := steps(func() *jetstream.Lease {
			return must(jetstream.OpenLease(t.Context(), js, 1))(t)
		})
		if err == nil {
			return
		}
		now := time.Now()
		stopIf(t, now.Sub(begin) < jetstream.LeaseTime-time.Second || now.After(last), "after %s: %v", now.Sub(begin), err)
	}
}

// A mesh has one holder at a time. Who is gone without a word is waited for, who
// goes in order is not, and whoever has lost the lease hears of it.
// covers P11.1
func TestLeaseHasOneHolder(t *testing.T) {
	t.Parallel()
	var one, two *jetstream.Lease
	var begin time.Time // of two's lease
	holder := jetstream.LeaseHolder{Gateway: "one", Since: time.Unix(1, 0).UTC()}
	inTime(t, func(open func() *jetstream.Lease) error {
		one, two = open(), open()
		if err := one.Take(t.Context(), holder); err != nil {
			return err
		}
		if got, err := two.Holder(t.Context()); err != nil || got != holder {
			return fmt.Errorf("the holder is %+v, %v", got, err)
		}
		if err := two.Take(t.Context(), jetstream.LeaseHolder{Gateway: "two"}); !errors.Is(err, jetstream.ErrLeaseLost) {
			return fmt.Errorf("a second one takes it: %v", err)
		}
		if err := one.Keep(t.Context()); err != nil {
			return err
		}
		if err := one.Release(t.Context()); err != nil {
			return err
		}
		if err := one.Keep(t.Context()); !errors.Is(err, jetstream.ErrLeaseLost) {
			return fmt.Errorf("one that was given back is kept: %v", err)
		}
		begin = time.Now()
		if err := two.Take(t.Context(), jetstream.LeaseHolder{Gateway: "two"}); err != nil {
			return err
		}
		if err := one.Release(t.Context()); err == nil {
			return errors.New("somebody else's lease was given back")
		}
		return nil
	})

	for {
		err := one.Take(t.Context(), holder)
		if err == nil {
			break
		}
		stopIf(t, !errors.Is(err, jetstream.ErrLeaseLost), "%v", err)
		stopIf(t, time.Since(begin) > patience, "a lease that nobody keeps does not end")
		time.Sleep(50 * time.Millisecond)
	}
	failIf(t, time.Since(begin) < jetstream.LeaseTime-time.Second, "it ended after %s", time.Since(begin))
	fails(t, two.Keep(t.Context()), jetstream.ErrLeaseLost, "a lease that has ended is kept")
}

// A holder that was not told that the bucket took what it said still holds the lease:
// its own word does not stand in its way.
// covers P11.1
func TestLeaseStaysWithItsHolder(t *testing.T) {
	t.Parallel()
	holder := jetstream.LeaseHolder{Gateway: "one", Since: time.Unix(1, 0).UTC()}
	later := jetstream.LeaseHolder{Gateway: "one", Since: time.Unix(2, 0).UTC()}
	inTime(t, func(open func() *jetstream.Lease) error {
		held, unheard := open(), open()
		take := func(l *jetstream.Lease, h jetstream.LeaseHolder) func(context.Context) error {
			return func(ctx context.Context) error { return l.Take(ctx, h) }
		}
		for _, step := range []struct {
			what string
			do   func(context.Context) error
			want error
		}{
			{"taken", take(held, holder), nil}, {"what was taken, and not said", take(unheard, holder), nil},
			{"kept", held.Keep, nil}, {"what was kept, and not said", unheard.Keep, nil}, {"and then", unheard.Keep, nil},
			{"the same gateway, later", take(unheard, later), jetstream.ErrLeaseLost},
			{"given back what was kept, and not said", held.Release, nil}, {"once it was given back", take(unheard, later), nil},
		} {
			if err := step.do(t.Context()); !errors.Is(err, step.want) {
				return fmt.Errorf("%s: %w", step.what, err)
			}
		}
		return nil
	})
}

// beginning answers as a cluster does that has just begun: some of it does not know the
// account yet.
type beginning struct {
	natsjs.JetStream
	refusals int
}

func (b *beginning) CreateOrUpdateKeyValue(ctx context.Context, c natsjs.KeyValueConfig) (natsjs.KeyValue, error) {
	if b.refusals--; b.refusals >= 0 {
		return nil, &natsjs.APIError{Code: 503, ErrorCode: 10035, Description: "account not found"}
	}
	return b.JetStream.CreateOrUpdateKeyValue(ctx, c)
}

// A gateway that comes to a cluster which has just begun gets its leases all the same;
// another refusal it is told at once.
//
// covers P4.5, A-RECONN
func TestLeasesOfAClusterThatBegins(t *testing.T) {
	t.Parallel()
	js := streams(t)
	must(jetstream.OpenLease(within(t), &beginning{js, 3}, 1))(t)
	var refused *natsjs.APIError
	_, err := jetstream.OpenLease(within(t), js, 3)
	failIf(t, !errors.As(err, &refused), "three copies on one server: %v", err)
}
