package byhand

import (
	"errors"
	"strings"

	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/cmd/internal/cli"
	"github.com/bcpmesh/bcpmesh/cmd/internal/client"
)

// maxChoices is how many values a hint lists.
const maxChoices = 20

// subscriptionSpec returns what a push to a subscription answers, if the definitions are at hand.
func subscriptionSpec(c *client.Client, controller bcp.AgentName, id bcp.SubscriptionID) *bcp.Spec {
	channel, err := c.FindChannel(controller, bcp.RoleReader)
	if err != nil || channel == nil {
		return nil
	}
	for i := range channel.Subscriptions {
		if channel.Subscriptions[i].ID == id {
			return &channel.Subscriptions[i].Spec
		}
	}
	return nil
}

// withChoices lists the values of a field in the hint of a refusal that says only that
// the answer has none of them. It is for people who answer by hand: an agent has the
// spec that it answers.
func withChoices(err error, spec *bcp.Spec) error {
	var failure *cli.Failure
	if spec == nil || !errors.As(err, &failure) {
		return err
	}
	for _, f := range spec.Fields {
		if len(f.Values) == 0 || !strings.Contains(failure.Message, ": "+f.Name+": is not one of the values") {
			continue
		}
		words := f.Values
		if len(words) > maxChoices {
			words = append(words[:maxChoices:maxChoices], "others")
		}
		return failure.WithHint("%s is %s", f.Name, cli.JoinOr(words))
	}
	return err
}
