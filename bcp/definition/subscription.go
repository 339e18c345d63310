package definition

import (
	"errors"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
)

// subscriptions fills the channel's subscriptions and checks each of them
// (PROTOCOL P1.4; SUB-29, SUB-32).
func (b *builder) subscriptions(m *bcp.Mesh, c *channelForm, ch *bcp.Channel) {
	for _, s := range c.SubscriptionEntries {
		if s.bad {
			continue
		}
		if c.has("max_category") && s.Spec.Category > ch.MaxCategory {
			s.errorf("category", CodeAboveCategory, "expected at most %d, the smaller max_category of both ends of the channel", ch.MaxCategory)
			continue
		}
		if ch.ReleaseInterval > 0 && s.BatchWindow%ch.ReleaseInterval != 0 {
			s.errorf("batch_window", CodeReleaseInterval, "expected a multiple of the channel's release_interval: what a window holds leaves at one of its slots")
		}
		ch.Subscriptions = append(ch.Subscriptions, s.Subscription)
		b.checkSubscription(m, &s.object, *ch, s.Subscription, len(c.SubscriptionEntries))
	}
}

// checkSubscription compiles the spec and warns of what an operator may not
// want (PROTOCOL P4.2, P4.6).
func (b *builder) checkSubscription(m *bcp.Mesh, o *object, ch bcp.Channel, sub bcp.Subscription, subscriptions int) {
	spec := sub.Spec
	validator, err := b.compiler.Compile(spec, ch.Settings(m, constraint.Compile).OfSubscription(sub, subscriptions))
	if err != nil {
		key, message := "", err.Error()
		var wrong *bcp.SpecError
		if errors.As(err, &wrong) {
			key, message = wrong.Key, wrong.Message
		}
		o.errorf(key, CodeInvalidSpec, "%s", message)
		return
	}
	prices := validator.Prices()
	if prices.Nominal > ch.Budget {
		o.warnf("", CodeOverBudget, "a push costs %s and budget_bits is %s: none can ever be accepted", prices.Nominal.Words(), ch.Budget.Rounded())
	} else if prices.Nominal > ch.PushBudget {
		o.warnf("", CodeOverBudget, "a push costs %s and push_budget_bits is %s: none can ever be accepted", prices.Nominal.Words(), ch.PushBudget.Rounded())
	}
	if ch.CapacityBudget > 0 && prices.Capacity > ch.CapacityBudget {
		o.warnf("", CodeOverBudget, "a push costs %s of capacity and capacity_budget_bits is %s: none can ever be accepted", prices.Capacity.Words(), ch.CapacityBudget.Rounded())
	}
	if prices.Capacity > 4*prices.Nominal {
		o.warnf("", CodeCapacity, "a push can carry %s, more than 4 x its nominal %s: max_chars, alphabet, values or vocabulary narrow it", prices.Capacity.Words(), prices.Nominal.Rounded())
	}
	if validator.Constant() {
		o.warnf("", CodeConstant, "all answers are the same: a push tells only that it came, and costs 1 bit; give it something to say, or use one subscription for all that do not")
	}
	if spec.Category == 3 {
		o.warnf("category", CodeCategory3, "every push waits for a person's approval")
	}
	if allow := spec.AllowNotEnoughInformation; allow != nil && *allow {
		o.warnf("allow_not_enough_information", CodeNoEffect, "no effect")
	}
}
