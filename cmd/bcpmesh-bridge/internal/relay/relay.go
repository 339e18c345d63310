// Package relay forwards deliveries of a site's mesh to a mesh above it: it is
// a Controller below and a Reader above. Each delivery of a subscription below
// becomes one push to a subscription above, exactly once and in the order of
// its channel, however often the link, the relay or one of the meshes fails.
//
// The mesh above validates and charges the answer like any Reader's. The relay
// has only the rights of its two agents, and neither mesh trusts it.
package relay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/hashicorp/go-hclog"

	"github.com/bcpmesh/bcpmesh/accounts/disk"
	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

const (
	// idLife is how long the relay relies on the mesh above to recognise the id of a
	// push. It remembers them for 24 hours (PROTOCOL P2.6).
	idLife = 23 * time.Hour
	// clockStep is how far back the clock may be set without putting a push in doubt.
	clockStep = time.Minute
	// attemptTime bounds one attempt of a push.
	attemptTime = 20 * time.Second
	// firstPause and maxPause bound the backoff after refusals of the mesh above.
	firstPause, maxPause = time.Second, time.Minute
	// linkPause is the interval of checks whether the mesh above is connected again.
	linkPause = 100 * time.Millisecond
	// maxFile bounds the file of a channel, in bytes.
	maxFile = 16 << 10
	// maxDone is the window of deliveries of a gateway.
	maxDone = 64
)

// Route says where to forward the deliveries of a subscription below.
type Route struct {
	Reader     bcp.AgentName      // below
	From       bcp.SubscriptionID // below
	Controller bcp.AgentName      // above
	To         bcp.SubscriptionID // above
}

// ParseRoute reads READER/SUBSCRIPTION=CONTROLLER/SUBSCRIPTION.
func ParseRoute(text string) (r Route, err error) {
	below, above, ok := strings.Cut(text, "=")
	reader, from, okBelow := strings.Cut(below, "/")
	controller, to, okAbove := strings.Cut(above, "/")
	if !ok || !okBelow || !okAbove {
		return r, errRoute
	}
	r = Route{bcp.AgentName(reader), bcp.SubscriptionID(from), bcp.AgentName(controller), bcp.SubscriptionID(to)}
	for _, name := range []bcp.AgentName{r.Reader, r.Controller} {
		if _, err := bcp.ParseAgentName(string(name)); err != nil {
			return Route{}, fmt.Errorf("%w: %w", errRoute, err)
		}
	}
	for _, id := range []bcp.SubscriptionID{r.From, r.To} {
		if _, err := bcp.ParseSubscriptionID(string(id)); err != nil {
			return Route{}, fmt.Errorf("%w: %w", errRoute, err)
		}
	}
	return r, nil
}

var errRoute = errors.New("relay: expected READER/SUBSCRIPTION=CONTROLLER/SUBSCRIPTION")

// String returns the input of [ParseRoute].
func (r Route) String() string {
	return fmt.Sprintf("%s/%s=%s/%s", r.Reader, r.From, r.Controller, r.To)
}

// InDoubt says how to handle a delivery that may have been pushed longer ago than the
// mesh above remembers.
type InDoubt string

// The ways to settle it.
const (
	Stop   InDoubt = ""       // stop the channel
	Repeat InDoubt = "repeat" // it is pushed, perhaps a second time
	Skip   InDoubt = "skip"   // it is not pushed, perhaps never
)

// Config configures a relay. Routes, Folder, Push, Connected and Logger are required.
type Config struct {
	Routes []Route
	// Folder is where the relay keeps its state: a file for each Reader below.
	Folder string
	// Push pushes above, as [agents.Reader.Push].
	Push func(context.Context, bcp.AgentName, bcp.SubscriptionID, any, agents.PushOptions) (bcp.ValidationResult, error)
	// Connected reports whether there is a connection to the mesh above.
	Connected func() bool
	// Report, if set, tells the mesh above that this agent read what others may have
	// written, as [agents.Controller.ReportTaint]. It is called before each push of a
	// delivery that is tainted below.
	Report  func(context.Context) error
	InDoubt InDoubt
	Logger  hclog.Logger
}

// Relay carries deliveries. Its methods may be called concurrently.
type Relay struct {
	config Config
	routes map[place]Route
	now    func() time.Time

	mu      sync.Mutex
	away    bool
	carried uint64
}

type place struct {
	reader bcp.AgentName
	id     bcp.SubscriptionID
}

// New returns a relay. An error says which routes conflict.
func New(c Config) (*Relay, error) {
	r := &Relay{config: c, routes: map[place]Route{}, now: time.Now}
	for _, route := range c.Routes {
		at := place{route.Reader, route.From}
		if other, taken := r.routes[at]; taken {
			return nil, fmt.Errorf("relay: %s and %s begin at the same subscription", other, route)
		}
		r.routes[at] = route
	}
	return r, nil
}

// Carried is how many deliveries were carried, and are above.
func (r *Relay) Carried() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.carried
}

// Check compares the routes with the channels of the Controller below: a subscription
// without a route would stop its channel, and one with a batch_window cannot be relayed.
// The error lists all problems.
func (r *Relay) Check(below []bcp.ChannelView) error {
	var errs []error
	begun := map[place]bool{}
	for _, channel := range below {
		for _, s := range channel.Subscriptions {
			at := place{channel.Reader, s.SubscriptionID}
			begun[at] = true
			if r.routes[at] == (Route{}) {
				errs = append(errs, fmt.Errorf("%w: %s/%s", errNoRoute, channel.Reader, s.SubscriptionID))
			} else if s.BatchWindow != "" {
				errs = append(errs, fmt.Errorf("%w: %s/%s", errBatch, channel.Reader, s.SubscriptionID))
			}
		}
	}
	for _, route := range r.config.Routes {
		if !begun[place{route.Reader, route.From}] {
			errs = append(errs, fmt.Errorf("relay: there is no subscription %s/%s below", route.Reader, route.From))
		}
	}
	return errors.Join(errs...)
}

// memory is the stored state of a channel below.
type memory struct {
	// Done are the newest forwarded deliveries, as many as the gateway below sends
	// before they are acknowledged: one of them may come again.
	Done []bcp.DeliveryID `json:"done,omitempty"`
	// Doing is the current one, and Attempt how often it was refused: after a refusal
	// each attempt has a new id, since an id keeps its refusal.
	Doing   bcp.DeliveryID `json:"doing,omitempty"`
	Attempt int            `json:"attempt,omitzero"`
	// Since is when the attempt was first sent, zero if it was not.
	Since time.Time `json:"since,omitzero"`
}

// done returns the state after the delivery was forwarded.
func (m *memory) done() memory {
	all := append(slices.Clone(m.Done), m.Doing)
	return memory{Done: all[max(0, len(all)-maxDone):]}
}

// inDoubt reports whether the attempt was sent, and perhaps so long ago that the mesh
// above has forgotten its id. It cannot tell if the clock was set back.
func (r *Relay) inDoubt(m memory) bool {
	age := r.now().Sub(m.Since)
	return !m.Since.IsZero() && (age >= idLife || age < -clockStep)
}

// The errors for which the gateway below keeps a delivery.
var (
	errNoRoute = errors.New("relay: no route begins at the subscription of this delivery")
	errBatch   = errors.New("relay: deliveries with a batch_window cannot be relayed: the subscription above takes one answer")
	errTaint   = errors.New("relay: the mesh above knows no taint as high as this delivery's")
	errDoubt   = errors.New("relay: this delivery may have been pushed longer ago than the mesh above knows; look there, then start the relay with --in-doubt repeat or skip")
)

// Deliver forwards a delivery, and returns when the mesh above has it: it is a handler
// for [agents.Controller.OnDelivery], which calls it in the order of a channel. While it
// cannot be forwarded it waits, or returns an error that says why; then it must be called
// again. Deliveries other than pushes of a Reader below are not forwarded.
func (r *Relay) Deliver(ctx context.Context, d bcp.Delivery) error {
	if d.SubscriptionID == "" {
		return nil
	}
	route, ok := r.routes[place{d.FromAgent, d.SubscriptionID}]
	switch {
	case !ok:
		return fmt.Errorf("%w: %s/%s", errNoRoute, d.FromAgent, d.SubscriptionID)
	case d.Batch != nil:
		return errBatch
	case d.Taint != bcp.TaintLow && d.Taint != bcp.TaintMedium:
		return errTaint
	case d.Response == nil: // the end of a summary that was not released
		return nil
	}
	m, err := r.remember(d.FromAgent)
	if err != nil || slices.Contains(m.Done, d.DeliveryID) {
		return err
	}
	if m.Doing != d.DeliveryID {
		m = memory{Done: m.Done, Doing: d.DeliveryID}
	}
	if r.inDoubt(m) {
		switch r.config.InDoubt {
		case Skip:
			return r.write(d.FromAgent, m.done())
		case Repeat:
			m.Attempt, m.Since = m.Attempt+1, time.Time{}
		default:
			return errDoubt
		}
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		wait, err := r.push(ctx, route, d, &m)
		switch {
		case err != nil:
			return err
		case wait < 0:
			r.mu.Lock()
			r.carried++
			r.mu.Unlock()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(wait, pause)):
		}
	}
}

// push tries once. wait is the time until the next attempt, negative if the delivery
// was forwarded.
func (r *Relay) push(ctx context.Context, route Route, d bcp.Delivery, m *memory) (wait time.Duration, err error) {
	if err := r.link(ctx); err != nil {
		return 0, err
	}
	// It is written before it is sent: what the file does not mark as in doubt was not
	// sent.
	if m.Since.IsZero() {
		m.Since = r.now().UTC()
		if err := r.write(route.Reader, *m); err != nil {
			return 0, err
		}
	} else if r.inDoubt(*m) {
		return 0, errDoubt
	}
	attempt, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	if r.config.Report != nil && d.Taint > bcp.TaintLow {
		if err := r.config.Report(attempt); err != nil {
			r.config.Logger.Warn("the taint could not be reported above; the delivery waits", "delivery", d.DeliveryID, "error", err)
			return 0, ctx.Err()
		}
	}
	_, err = r.config.Push(attempt, route.Controller, route.To, d.Response, agents.PushOptions{PushID: pushID(route, d.DeliveryID, m.Attempt)})
	var refused *agents.RefusedError
	switch {
	case err == nil:
		return -1, r.write(route.Reader, m.done())
	case errors.As(err, &refused):
		r.config.Logger.Warn("the mesh above refuses; this delivery and later ones wait", "route", route, "code", refused.Code, "detail", refused.Detail)
		if refused.Code != bcp.RateLimited { // which uses no id up
			m.Attempt++
		}
		m.Since = time.Time{}
		return refused.RetryAfter, r.write(route.Reader, *m)
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	r.config.Logger.Warn("no answer from above; the same push is sent again", "route", route, "error", err)
	return 0, nil
}

// link waits for a connection to the mesh above.
func (r *Relay) link(ctx context.Context) error {
	for {
		connected := r.config.Connected()
		r.mu.Lock()
		changed := r.away == connected
		r.away = !connected
		r.mu.Unlock()
		switch {
		case changed && !connected:
			r.config.Logger.Warn("the mesh above cannot be reached: deliveries wait below, in order")
		case changed:
			r.config.Logger.Info("the mesh above is there again")
		}
		if connected {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(linkPause):
		}
	}
}

// pushID names an attempt of a delivery on a route: the same one each time.
func pushID(route Route, d bcp.DeliveryID, attempt int) bcp.ClientID {
	sum := sha256.Sum256([]byte("bcpmesh relay 1\n" + route.String() + "\n" + string(d) + "\n" + strconv.Itoa(attempt) + "\n"))
	return bcp.ClientID(hex.EncodeToString(sum[:]))
}

func (r *Relay) file(reader bcp.AgentName) string {
	return filepath.Join(r.config.Folder, string(reader)+".json")
}

// remember reads the state of a channel. An unreadable file stops the channel: without it
// a delivery could be pushed twice.
func (r *Relay) remember(reader bcp.AgentName) (m memory, err error) {
	content, err := os.ReadFile(r.file(reader))
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil && len(content) > maxFile {
		err = errors.New("it is too long")
	}
	if err == nil {
		err = json.Unmarshal(content, &m, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return memory{}, fmt.Errorf("relay: %s cannot be read: %w", r.file(reader), err)
	}
	return m, nil
}

func (r *Relay) write(reader bcp.AgentName, m memory) error {
	content, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return disk.Replace(r.file(reader), content, 0o600)
}
