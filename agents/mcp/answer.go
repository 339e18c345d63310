package mcp

import (
	"crypto/rand"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents"
	"github.com/bcpmesh/bcpmesh/bcp"
)

// answer is the arguments of BCPRespond: one member, or that the Reader does not
// know.
type answer struct {
	member  string // fields, answers or summary
	raw     jsontext.Value
	unknown bool
}

// value returns the result of a query's handler.
func (a answer) value() any {
	if a.unknown {
		return agents.NotEnoughInformation{}
	}
	return map[string]jsontext.Value{a.member: a.raw}
}

// json returns the answer as it is sent to the gateway.
func (a answer) json() []byte { return fmt.Appendf(nil, `{%q:%s}`, a.member, a.raw) }

// parseAnswer reads the arguments of BCPRespond. What the answer says is not
// judged.
func parseAnswer(arguments []byte) (bcp.QueryID, answer, *fault) {
	var in struct {
		QueryID              string         `json:"query_id"`
		Fields               jsontext.Value `json:"fields"`
		Answers              jsontext.Value `json:"answers"`
		Summary              jsontext.Value `json:"summary"`
		NotEnoughInformation *bool          `json:"not_enough_information"`
	}
	malformed := newFault(bcp.Malformed).next("send query_id and what the query's answer_schema says")
	if err := read(arguments, &in); err != nil {
		return "", answer{}, malformed.saying("%s", err)
	}
	id, err := bcp.ParseQueryID(in.QueryID)
	if err != nil {
		return "", answer{}, malformed.saying("query_id: %s", err)
	}
	var given []answer
	for _, one := range []answer{{member: "fields", raw: in.Fields}, {member: "answers", raw: in.Answers}, {member: "summary", raw: in.Summary}} {
		if one.raw != nil {
			given = append(given, one)
		}
	}
	if in.NotEnoughInformation != nil {
		if !*in.NotEnoughInformation {
			return "", answer{}, malformed.saying("not_enough_information is true or not there")
		}
		given = append(given, answer{unknown: true})
	}
	if len(given) != 1 {
		return "", answer{}, malformed.saying("expected exactly one of fields, answers, summary and not_enough_information")
	}
	return id, given[0], nil
}

// parsePublish reads the arguments of BCPPublish. What the response says is not
// judged.
func parsePublish(arguments []byte) (bcp.Response, *fault) {
	var in struct {
		SubscriptionID string         `json:"subscription_id"`
		Controller     string         `json:"controller"`
		Response       jsontext.Value `json:"response"`
		PushID         string         `json:"push_id"`
	}
	malformed := newFault(bcp.Malformed).next("send subscription_id, controller and response as the tool's schema says")
	if err := read(arguments, &in); err != nil {
		return bcp.Response{}, malformed.saying("%s", err)
	}
	p := bcp.Response{Response: in.Response, PushID: bcp.ClientID(rand.Text())}
	var err error
	if p.SubscriptionID, err = bcp.ParseSubscriptionID(in.SubscriptionID); err != nil {
		return bcp.Response{}, malformed.saying("subscription_id: %s", err)
	}
	if p.Controller, err = bcp.ParseAgentName(in.Controller); err != nil {
		return bcp.Response{}, malformed.saying("controller: %s", err)
	}
	if in.Response.Kind() != '{' {
		return bcp.Response{}, malformed.saying("response is no object")
	}
	if in.PushID != "" {
		if p.PushID, err = bcp.ParseClientID(in.PushID); err != nil {
			return bcp.Response{}, malformed.saying("push_id: %s", err)
		}
	}
	return p, nil
}
