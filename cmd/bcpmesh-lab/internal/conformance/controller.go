package conformance

import (
	"context"
	"slices"
	"time"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/subjects"
)

// maxRepeats is how often a Controller may repeat an ask refused as
// rate_limited, within a second.
const maxRepeats = 3

// message is one delivery of the rig.
func (r *Rig) message() bcp.Delivery {
	return bcp.Delivery{
		Type: bcp.TypeResponseDelivery, DeliveryID: bcp.DeliveryID(fresh()), SubscriptionID: "status", Category: 1, FromAgent: peer,
		Response: []byte(`{"changed":true}`), BandwidthBits: bcp.Bit, CapacityBits: 2 * bcp.Bit, Taint: bcp.TaintMedium, ChannelMode: "bcp",
	}
}

// ended is a delivery with the end of a query.
func (r *Rig) ended(query bcp.QueryID, outcome bcp.Code) bcp.Delivery {
	d := r.message()
	d.SubscriptionID, d.Response, d.QueryID, d.Outcome = "", nil, query, outcome
	return d
}

// deliverUntil sends a delivery until it is acknowledged, as a gateway does.
func (r *Rig) deliverUntil(ctx context.Context, d bcp.Delivery) (sent int, ok bool) {
	return r.persist(ctx, peer, d.DeliveryID, r.encode(d))
}

// checkController plays the gateway and a Reader.
func (r *Rig) checkController(ctx context.Context) {
	first := r.message()
	sent, ok := r.deliverUntil(ctx, first)
	if r.check(controllerPush, ok, "no acknowledgement came"); !ok {
		return
	}
	again := r.attempt(first.DeliveryID, sent)
	r.publish(r.deliver(), again, r.encode(first))
	r.check(controllerAgain, r.answered(ctx, again), "no acknowledgement came on the new reply subject")

	for _, c := range bcp.Catalogue() {
		if c.Outcome && c.To&bcp.ToController != 0 && c.Code != bcp.Held {
			_, ok := r.deliverUntil(ctx, r.ended(bcp.QueryID(fresh()), c.Code))
			r.check(controllerOutcomes, ok, "the outcome "+string(c.Code)+" was not acknowledged")
		}
	}
	query := bcp.QueryID(fresh())
	_, held := r.deliverUntil(ctx, r.ended(query, bcp.Held))
	final := r.message()
	final.SubscriptionID, final.QueryID = "", query
	_, released := r.deliverUntil(ctx, final)
	r.check(controllerHeld, held && released, "one of the two was not acknowledged")

	r.check(controllerPrompt, r.promptUntil(ctx, r.encode), "no acknowledgement came")
	r.laterDeliveries(ctx)
	r.dropDeliveries(ctx)
	back := r.rejoin(ctx)
	if back {
		_, back = r.deliverUntil(ctx, r.message())
	}
	r.check(controllerReturns, back, "it did not come back, or did not acknowledge")
	r.asked()
	r.checkOnce(controllerOnce)
	r.permitted(controllerPermitted)
}

// promptUntil sends a prompt until it is acknowledged.
func (r *Rig) promptUntil(ctx context.Context, encode func(any) []byte) bool {
	p := bcp.Prompt{Type: bcp.TypePrompt, PromptID: bcp.DeliveryID(fresh()), Message: "It is time.", Time: time.Now().UTC().Truncate(time.Second)}
	_, ok := r.persist(ctx, bcp.Gateway, p.PromptID, encode(p))
	return ok
}

// laterDeliveries sends what a newer gateway may send: a push, an outcome and a prompt
// with members that the Controller does not know, and an unknown outcome.
func (r *Rig) laterDeliveries(ctx context.Context) {
	for _, d := range []bcp.Delivery{r.message(), r.ended(bcp.QueryID(fresh()), laterCode)} {
		_, ok := r.persist(ctx, peer, d.DeliveryID, r.extended(d))
		r.check(controllerLater, ok, "a delivery was not acknowledged")
	}
	if r.checks[controllerPrompt].Result != Failed {
		r.check(controllerLater, r.promptUntil(ctx, r.extended), "a prompt was not acknowledged")
	}
}

// dropDeliveries sends what must be dropped, and then a delivery.
func (r *Rig) dropDeliveries(ctx context.Context) {
	foreign := r.message()
	wants := subjects.Reply(bcp.RoleController, bystander, foreign.DeliveryID, 0)
	r.publish(r.deliver(), wants, r.encode(foreign))

	other := r.message()
	borrowed := subjects.Reply(bcp.RoleController, r.config.Agent, bcp.DeliveryID(fresh()), 0)
	r.publish(r.deliver(), borrowed, r.encode(other))

	wrong := r.message()
	wrong.FromAgent = bystander
	sender := subjects.Reply(bcp.RoleController, r.config.Agent, wrong.DeliveryID, 0)
	r.publish(r.deliver(), sender, r.encode(wrong))

	var broken []string
	whole := r.encode(r.message())
	for _, data := range [][]byte{whole[:len(whole)-3], nil, {0xff, 0xff}} {
		broken = append(broken, subjects.Reply(bcp.RoleController, r.config.Agent, bcp.DeliveryID(fresh()), 0))
		r.publish(r.deliver(), broken[len(broken)-1], data)
	}
	_, ok := r.deliverUntil(ctx, r.message())
	r.check(controllerMalformed, ok, "the delivery after them was not acknowledged")
	r.quiet(ctx)
	r.check(controllerForeign, len(r.messagesOn(wants)) == 0 && !r.refused(wants), "it acknowledged on another agent's subject")
	r.check(controllerOther, len(r.messagesOn(borrowed)) == 0, "it acknowledged on the reply subject of another delivery")
	r.check(controllerSender, len(r.messagesOn(sender)) == 0, "it acknowledged")
	for _, reply := range broken {
		if len(r.messagesOn(reply)) > 0 {
			r.decide(controllerMalformed, Failed, "it acknowledged a message that is not well-formed")
		}
	}
}

// receipt answers an ask: the first valid one is refused as rate_limited, and
// each later one is accepted.
func (r *Rig) receipt(to subjects.Subject, data []byte) any {
	ask, code := bcp.ParseAsk(data, r.config.Encoding, to.Reader)
	if code != "" {
		return bcp.RefusalOf(code)
	}
	if _, err := bcp.Compile(ask.Spec, bcp.Settings{Sealed: true}); err != nil {
		return bcp.RefusalOf(bcp.InvalidQuery)
	}
	r.mu.Lock()
	asks := 0
	for _, h := range r.heard {
		if h.to.Kind == subjects.KindAsk {
			asks++
		}
	}
	r.mu.Unlock()
	if asks == 1 {
		return bcp.RefusalOf(bcp.RateLimited)
	}
	return bcp.Accepted{QueryID: bcp.QueryID(fresh()), NominalBits: bcp.Bit, CapacityBits: 2 * bcp.Bit, RemainingBits: 1000 * bcp.Bit}
}

// asked judges what the Controller asked meanwhile.
func (r *Rig) asked() {
	r.mu.Lock()
	list := slices.DeleteFunc(slices.Clone(r.heard), func(h heard) bool { return h.to.Kind != subjects.KindAsk })
	r.mu.Unlock()
	if len(list) == 0 {
		r.decide(controllerAsks, Unseen, "it did not ask")
		r.decide(controllerPatience, Unseen, "it did not ask")
		return
	}
	repeats := 0
	for _, h := range list {
		ask, code := bcp.ParseAsk(h.data, r.config.Encoding, h.to.Reader)
		_, err := bcp.Compile(ask.Spec, bcp.Settings{Sealed: true})
		r.check(controllerAsks, code == "" && err == nil, "an ask is not well-formed")
		if h.at.Sub(list[0].at) < time.Second {
			repeats++
		}
	}
	r.check(controllerPatience, repeats <= 1+maxRepeats, "it asked again at once")
}
