package definition

import (
	"errors"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// subscriptions fills the channel's subscriptions and checks each of them
// (PROTOCOL P1.4; SUB-29, SUB-32).
func (b *builder) subscriptions(m *bcp.Mesh, c, r *end, ch *bcp.Channel) {
	objects := c.object.get("subscriptions").objects
	first := map[bcp.SubscriptionID]position{}
	for _, o := range objects {
		if !o.has("id") {
			continue
		}
		id := bcp.SubscriptionID(o.get("id").text)
		if before, again := first[id]; again {
			c.agent.source.errorf(o.at("id"), CodeDuplicate, join(o.path, "id"), "the subscription in line %d has the same id", before.line)
			continue
		}
		first[id] = o.position
		if o.bad {
			continue
		}
		var sub bcp.Subscription
		o.fill(&sub)
		if c.object.has("max_category") && sub.Spec.Category > ch.MaxCategory {
			c.agent.source.errorf(o.at("category"), CodeAboveCategory, join(o.path, "category"),
				"expected at most %d, the smaller max_category of both ends of the channel", ch.MaxCategory)
			continue
		}
		if ch.ReleaseInterval > 0 && sub.BatchWindow%ch.ReleaseInterval != 0 {
			c.agent.source.errorf(o.at("batch_window"), CodeReleaseInterval, join(o.path, "batch_window"),
				"expected a multiple of the channel's release_interval: what a window holds leaves at one of its slots")
		}
		ch.Subscriptions = append(ch.Subscriptions, sub)
		b.checkSubscription(m, c, o, *ch, sub, len(objects))
	}
}

// checkSubscription compiles the spec and warns of what an operator may not
// want (PROTOCOL P4.2, P4.6).
func (b *builder) checkSubscription(m *bcp.Mesh, c *end, o *object, ch bcp.Channel, sub bcp.Subscription, subscriptions int) {
	s, spec := c.agent.source, sub.Spec
	validator, err := b.compiler.Compile(spec, ch.Settings(m, nil, constraint.Compile).OfSubscription(sub, subscriptions))
	if err != nil {
		at, key, message := o.position, o.path, err.Error()
		var wrong *bcp.SpecError
		if errors.As(err, &wrong) {
			at, message = o.find(wrong.Key), wrong.Message
			key = o.path
			if wrong.Key != "" {
				key = join(o.path, wrong.Key)
			}
		}
		s.errorf(at, CodeInvalidSpec, key, "%s", message)
		return
	}
	prices := validator.Prices()
	if prices.Nominal > ch.Budget {
		s.warnf(o.position, CodeOverBudget, o.path, "a push costs %s and budget_bits is %s: none can ever be accepted", prices.Nominal.Words(), ch.Budget.Rounded())
	} else if prices.Nominal > ch.PushBudget {
		s.warnf(o.position, CodeOverBudget, o.path, "a push costs %s and push_budget_bits is %s: none can ever be accepted", prices.Nominal.Words(), ch.PushBudget.Rounded())
	}
	if ch.CapacityBudget > 0 && prices.Capacity > ch.CapacityBudget {
		s.warnf(o.position, CodeOverBudget, o.path, "a push costs %s of capacity and capacity_budget_bits is %s: none can ever be accepted", prices.Capacity.Words(), ch.CapacityBudget.Rounded())
	}
	if prices.Capacity > 4*prices.Nominal {
		s.warnf(o.position, CodeCapacity, o.path, "a push can carry %s, more than 4 x its nominal %s: max_chars, alphabet, values or vocabulary narrow it", prices.Capacity.Words(), prices.Nominal.Rounded())
	}
	if validator.Constant() {
		s.warnf(o.position, CodeConstant, o.path, "all answers are the same: a push tells only that it came, and costs 1 bit; give it something to say, or use one subscription for all that do not")
	}
	if spec.Category == 3 {
		s.warnf(o.at("category"), CodeCategory3, join(o.path, "category"), "every push waits for a person's approval")
	}
	if allow := o.values["allow_not_enough_information"]; allow != nil && allow.boolean {
		s.warnf(allow.position, CodeNoEffect, join(o.path, "allow_not_enough_information"), "no effect")
	}
}

// find returns where the key of a [bcp.SpecError] stands, or the nearest
// object or list around it.
func (o *object) find(path string) position {
	name, rest, nested := strings.Cut(path, ".")
	name, number, indexed := strings.Cut(name, "[")
	v := o.values[name]
	if v == nil {
		return o.position
	}
	i := 0
	for _, digit := range strings.TrimSuffix(number, "]") {
		i = i*10 + int(digit-'0')
	}
	switch {
	case indexed && i >= 0 && i < len(v.objects):
		if nested {
			return v.objects[i].find(rest)
		}
		return v.objects[i].position
	case indexed && i >= 0 && i < len(v.texts):
		return v.texts[i].position
	default:
		return v.position
	}
}

// buildSpec turns a mapping with the keys of a spec into it.
func buildSpec(o *object) bcp.Spec {
	var sub bcp.Subscription
	o.fill(&sub)
	return sub.Spec
}
