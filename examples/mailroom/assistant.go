package mailroom

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// assistant is the clean Controller. All that it ever learns of a mail is in
// the deliveries that come to hear.
type assistant struct {
	client *agents.Controller
	did    func(string)

	meetings, summaries int
}

// maxSummaries is how many summaries the assistant wants in a session: so many
// escalations its channel allows.
const maxSummaries = 2

// mailNews is a delivery of the subscription new-mail.
type mailNews struct {
	Message    int    `json:"message"`
	Kind       string `json:"kind"`
	Urgent     bool   `json:"urgent"`
	NeedsReply bool   `json:"needs_reply"`
	Sentiment  string `json:"sentiment"`
}

// handleDelivery decides what to do about a delivery. It asks and goes on: the answer is
// a delivery of its own.
func (a *assistant) handleDelivery(ctx context.Context, d bcp.Delivery) error {
	if d.SubscriptionID != newMail {
		return nil
	}
	var news mailNews
	if err := json.Unmarshal(d.Response, &news); err != nil {
		return fmt.Errorf("mailroom: a delivery does not match its spec: %w", err)
	}
	if spec, justification, ask := a.followUp(news); ask {
		_, err := a.client.Ask(ctx, ReaderAgent, spec, agents.AskOptions{Justification: justification})
		var refused *agents.RefusedError
		if err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	switch {
	case news.Kind == "spam":
		a.did(fmt.Sprintf("mail %d: moved to junk", news.Message))
	case news.Urgent:
		a.did(fmt.Sprintf("mail %d: %s, urgent: put on top of the list", news.Message, news.Kind))
	case news.NeedsReply:
		a.did(fmt.Sprintf("mail %d: %s: a reply is due", news.Message, news.Kind))
	}
	return nil
}

// followUp chooses a question in the lowest category that will do.
func (a *assistant) followUp(news mailNews) (spec bcp.Spec, justification string, ask bool) {
	about := fmt.Sprintf("In message %d, ", news.Message)
	switch {
	case news.Kind == "billing" && (news.Urgent || news.NeedsReply):
		return bcp.Spec{Category: 1, Fields: []bcp.Field{
			{Name: fmt.Sprintf("message_%d_asks_for_money", news.Message), Type: bcp.TypeBoolean},
		}}, "", true
	case news.Kind == "meeting":
		if a.meetings++; a.meetings > 3 {
			return bcp.Spec{}, "", false
		}
		return bcp.Spec{Category: 2, Questions: []bcp.Question{
			{ID: "day", Question: about + "on what date was it sent?", MaxWords: 4, ExpectedFormat: bcp.FormatDate},
			{ID: "in_first_quarter", Question: "Is that in the first quarter?", MaxWords: 1, ExpectedFormat: bcp.FormatBoolean},
		}, Constraints: []string{"(day.month <= 3) == in_first_quarter"}}, "", true
	case news.Kind == "support" && news.NeedsReply:
		return bcp.Spec{Category: 2, Questions: []bcp.Question{
			{ID: "address", Question: about + "what is the sender's address?", MaxWords: 1, ExpectedFormat: bcp.FormatEmail},
			{ID: "actions", Question: "What does the sender ask for?", MaxWords: 24, ExpectedFormat: bcp.FormatShortList},
		}}, "", true
	case news.Kind == "newsletter":
		if a.summaries++; a.summaries > maxSummaries {
			return bcp.Spec{}, "", false
		}
		return bcp.Spec{Category: 3, Directive: fmt.Sprintf("Summarise the newsletter, message %d.", news.Message), MaxWords: 60},
			"A newsletter has no questions with short answers.", true
	}
	return bcp.Spec{}, "", false
}
