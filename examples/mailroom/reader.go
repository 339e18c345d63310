package mailroom

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// Said is something that the Reader sent, before anybody judged it: hostile
// bytes, for the eyes of whoever watches the demonstration.
type Said struct {
	Query    bcp.QueryID  // of an answer
	Push     bcp.ClientID // of a push
	Raw      string       // the answer as JSON
	Hijacked bool         // the attacker is talking
}

// reader answers about the mail that it was given so far.
type reader struct {
	client   *agents.Reader
	said     func(Said)
	readings map[string]reading

	mu   sync.Mutex
	mail []reading // by number, from 1
}

// handleMail reads one more mail and pushes what it has to say about it. A refusal is an answer too.
func (r *reader) handleMail(ctx context.Context, m *mailbox.Message) error {
	found := r.of(m)
	r.mu.Lock()
	r.mail = append(r.mail, found)
	number := len(r.mail)
	r.mu.Unlock()
	for n, p := range found.Pushes {
		a := maps.Clone(p.Answer)
		a["message"] = number
		if p.Subscription == replyNeeded { // of category 2: a text
			a["message"] = strconv.Itoa(number)
		}
		raw, err := json.Marshal(a, json.Deterministic(true))
		if err != nil {
			return err
		}
		id := bcp.ClientID(fmt.Sprintf("mail-%d-push-%d", number, n+1))
		r.said(Said{Push: id, Raw: string(raw), Hijacked: found.Injection != nil})
		var refused *agents.RefusedError
		if _, err = r.client.Push(ctx, AssistantAgent, p.Subscription, a, agents.PushOptions{PushID: id}); err != nil && !errors.As(err, &refused) {
			return err
		}
	}
	return nil
}

// query answers a question about one mail. The assistant names the mail by its
// number: in the names of the fields, or in the words of the question or the
// directive.
func (r *reader) query(_ context.Context, q agents.Query) (any, error) {
	number, names := asked(q.Query)
	var found reading
	r.mu.Lock()
	if number >= 1 && number <= len(r.mail) {
		found = r.mail[number-1]
	}
	r.mu.Unlock()
	a := answer{}
	for name, of := range names {
		value, ok := found.Answers[of]
		if !ok {
			return agents.NotEnoughInformation{}, nil
		}
		a[name] = value
	}
	raw, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	r.said(Said{Query: q.QueryID, Raw: string(raw), Hijacked: found.Injection != nil})
	return a, nil
}

// asked returns the number of the mail that a query is about, and what is asked of it, by the name in the answer.
func asked(q bcp.Query) (number int, names map[string]string) {
	names = map[string]string{}
	text := q.Directive
	if q.Category == 3 {
		names["summary"] = "summary"
	}
	for _, field := range q.Fields { // message_7_asks_for_money
		words := strings.SplitN(field.Name, "_", 3)
		names[field.Name] = words[len(words)-1]
		text = strings.Join(words, " ")
	}
	for i, question := range q.Questions {
		names[question.ID] = question.ID
		if i == 0 {
			text = question.Question
		}
	}
	for _, word := range strings.Fields(text) {
		if n, err := strconv.Atoi(strings.Trim(word, ",.?:")); err == nil {
			return n, names
		}
	}
	return 0, names
}
