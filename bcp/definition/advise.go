package definition

import (
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/constraint"
	"github.com/bcpmesh/bcpmesh/bcp/lint"
)

// advise says where a lower category, a narrower format or fewer words would
// do (BCP-73). It comes after all warnings: they must not get lost in it. A
// folder with errors has others to think of first.
func (b *builder) advise(m *bcp.Mesh) {
	if b.incomplete || !b.report.OK() {
		return
	}
	known := make(map[*bcp.Validator][]lint.Advice)
	for i := range m.Channels {
		ch := &m.Channels[i]
		e := b.controllers[ch.ChannelKey]
		settings := ch.Settings(m, nil, constraint.Compile)
		prices := make([]bcp.Prices, len(ch.Subscriptions))
		// Without errors, each object became one subscription.
		for j, o := range e.object.get("subscriptions").objects {
			validator, err := b.compiler.Compile(ch.Subscriptions[j].Spec, settings.OfSubscription(ch.Subscriptions[j], len(ch.Subscriptions)))
			if err != nil {
				return // checkSubscription has said why
			}
			prices[j] = validator.Prices()
			advice, again := known[validator]
			if !again {
				advice = lint.Advise(validator)
				known[validator] = advice
			}
			for _, a := range advice {
				write, key := a.Write, o.path
				if a.Key == "" {
					write = "{id: " + string(ch.Subscriptions[j].ID) + ", " + write + "}"
				} else {
					key = join(o.path, a.Key)
				}
				e.agent.source.warnf(o.find(a.Key), a.Code, key, "%s%s%s", a.Text, InsteadWrite, write)
			}
		}
		for _, a := range lint.ChannelAdvice(m, ch, prices) {
			e.warnf(a.Key, a.Code, "%s%s%s", a.Text, InsteadWrite, a.Write)
		}
	}
}
