package mailroom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

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

	mu     sync.Mutex
	mail   []*mailbox.Message // by number, from 1
	pushes int
}

// answer is what the Reader says: names to values, as JSON objects.
type answer map[string]any

// handleMail reads one more mail and pushes what it has to say about it.
func (r *reader) handleMail(ctx context.Context, m *mailbox.Message) error {
	r.mu.Lock()
	r.mail = append(r.mail, m)
	number := len(r.mail)
	r.mu.Unlock()

	found := r.of(m)
	injection := found.Injection
	if injection == nil {
		if err := r.push(ctx, number, newMail, sorted(number, found), false); err != nil {
			return err
		}
		if found.NeedsReply {
			return r.push(ctx, number, replyNeeded, reply(number, m, found), false)
		}
		return nil
	}
	// The attacker talks: it says what it wants where a word of a closed list
	// belongs, then where text does, then in as many words as may be, and at
	// last it lies within the rules.
	talking := sorted(number, found)
	talking["kind"] = injection.Text
	wanting := reply(number, m, found)
	wanting["gist"] = injection.Text
	fitting := reply(number, m, found)
	fitting["gist"] = firstWords(injection.Text, 12)
	lying := sorted(number, found)
	lying["kind"], lying["urgent"], lying["needs_reply"] = "billing", true, true
	if strings.Contains(strings.ToLower(injection.Plain), "summar") {
		// It wants to be read by whoever approves a summary: newsletters get one.
		lying["kind"], lying["urgent"], lying["needs_reply"] = "newsletter", false, false
	}
	return errors.Join(
		r.push(ctx, number, newMail, talking, true),
		r.push(ctx, number, replyNeeded, wanting, true),
		r.push(ctx, number, replyNeeded, fitting, true),
		r.push(ctx, number, newMail, lying, true))
}

// sorted is what the subscription new-mail asks for.
func sorted(number int, found reading) answer {
	return answer{"message": number, "kind": found.Kind, "urgent": found.Urgent, "needs_reply": found.NeedsReply, "sentiment": found.Sentiment}
}

// reply is what the subscription reply-needed asks for.
func reply(number int, m *mailbox.Message, found reading) answer {
	return answer{"message": strconv.Itoa(number), "sender": cmp.Or(m.From.Name, m.From.Address), "received": m.Date.UTC().Format(time.DateOnly), "gist": firstWords(found.Gist, 12)}
}

// push sends an answer against a subscription. A refusal is an answer too.
func (r *reader) push(ctx context.Context, number int, id bcp.SubscriptionID, a answer, hijacked bool) error {
	raw, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.pushes++
	pushID := bcp.ClientID(fmt.Sprintf("mail-%d-push-%d", number, r.pushes))
	r.mu.Unlock()
	r.said(Said{Push: pushID, Raw: string(raw), Hijacked: hijacked})
	_, err = r.client.Push(ctx, AssistantAgent, id, a, agents.PushOptions{PushID: pushID})
	var refused *agents.RefusedError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// query answers a question about one mail. The assistant names the mail by its
// number: in the names of the fields, or in the words of the question or the
// directive.
func (r *reader) query(_ context.Context, q agents.Query) (any, error) {
	number := numberIn(q.Query)
	r.mu.Lock()
	known := number >= 1 && number <= len(r.mail)
	var m *mailbox.Message
	if known {
		m = r.mail[number-1]
	}
	r.mu.Unlock()
	if !known {
		return agents.NotEnoughInformation{}, nil
	}
	found := r.of(m)
	injection := found.Injection
	hijacked := injection != nil
	a, ok := factual(q.Query, m, found)
	if q.Category == 3 {
		// A word as the gateway counts it may be half of one.
		said := m.Text
		if hijacked {
			said = injection.Text
		}
		a, ok = answer{"summary": firstWords(said, q.MaxWords/2)}, true
	} else if hijacked {
		for name, value := range a {
			if _, text := value.(string); text {
				a[name] = injection.Text
			}
		}
	}
	if !ok {
		return agents.NotEnoughInformation{}, nil
	}
	raw, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	r.said(Said{Query: q.QueryID, Raw: string(raw), Hijacked: hijacked})
	return a, nil
}

// factual answers what the assistant of this example asks.
func factual(q bcp.Query, m *mailbox.Message, found reading) (answer, bool) {
	a := answer{}
	for _, field := range q.Fields {
		switch {
		case strings.HasSuffix(field.Name, "_asks_for_money"):
			a[field.Name] = found.AsksForMoney
		case strings.HasSuffix(field.Name, "_days_old"):
			a[field.Name] = 1
		default:
			return nil, false
		}
	}
	for _, question := range q.Questions {
		switch question.ID {
		case "address":
			a["address"] = m.From.Address
		case "day":
			if m.Date.IsZero() {
				return nil, false
			}
			a["day"] = m.Date.UTC().Format("January 2, 2006")
		case "in_first_quarter":
			a["in_first_quarter"] = m.Date.UTC().Month() <= 3
		case "actions":
			if len(found.Actions) == 0 {
				return nil, false
			}
			var actions []string
			for _, action := range found.Actions {
				actions = append(actions, firstWords(action, 8))
			}
			a["actions"] = strings.Join(actions, "\n")
		default:
			return nil, false
		}
	}
	return a, len(a) > 0
}

func numberIn(q bcp.Query) int {
	text := q.Directive
	if len(q.Fields) > 0 {
		text = strings.ReplaceAll(q.Fields[0].Name, "_", " ")
	} else if len(q.Questions) > 0 {
		text = q.Questions[0].Question
	}
	for _, word := range strings.Fields(text) {
		if n, err := strconv.Atoi(strings.Trim(word, ",.?:")); err == nil {
			return n
		}
	}
	return 0
}

// firstWords is as much of a text as has at most n words, as PROTOCOL P3.3 counts them:
// "follow-up" has two, and each character of Chinese or Japanese is one.
func firstWords(s string, n int) string {
	inside := false
	for i, r := range s {
		part := r == '\'' || unicode.IsLetter(r) || unicode.IsDigit(r)
		if alone := unicode.In(r, unicode.Han, unicode.Hiragana); part && (!inside || alone) {
			if n--; n < 0 {
				return strings.TrimSpace(s[:i])
			}
			part = !alone
		}
		inside = part
	}
	return s
}
