package mcp

import (
	"crypto/rand"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// parseQuery parses the arguments of BCPQuery: those of a spec, as on the wire,
// and the Reader. The gateway decides whether it may be asked, but an invalid spec
// is not sent: it would count as a refusal.
func parseQuery(arguments []byte) (bcp.Ask, *fault) {
	q := bcp.Ask{RequestID: bcp.ClientID(rand.Text())}
	invalid := func(code bcp.Code, err error) (bcp.Ask, *fault) { return bcp.Ask{}, wrongArguments(code, err) }
	own := struct {
		Target        string         `json:"target"`
		Justification string         `json:"justification"`
		RequestID     string         `json:"request_id"`
		Spec          jsontext.Value `json:",embed"`
	}{Spec: jsontext.Value("{}")}
	err := read(arguments, &own)
	if err != nil {
		return invalid(bcp.Malformed, err)
	}
	if q.Target, err = bcp.ParseAgentName(own.Target); err != nil {
		return bcp.Ask{}, noReader()
	}
	if own.RequestID != "" {
		if q.RequestID, err = bcp.ParseClientID(own.RequestID); err != nil {
			return invalid(bcp.Malformed, err)
		}
	}
	q.Escalation = &bcp.Escalation{Justification: own.Justification}
	if q.Spec, err = bcp.ParseSpec(own.Spec); err != nil {
		return invalid(bcp.InvalidQuery, plain(err))
	}
	if _, err := validator(q.Spec, bcp.Settings{Sealed: true}); err != nil {
		return invalid(bcp.InvalidQuery, err)
	}
	return q, nil
}

// parseSubscribe parses the arguments of BCPSubscribe: those of a subscription, as
// in a definition, and its Reader. An invalid one is not sent to the gateway: it
// would count as a refusal.
func parseSubscribe(arguments []byte) (bcp.Proposal, *fault) {
	invalid := func(code bcp.Code, err error) (bcp.Proposal, *fault) {
		return bcp.Proposal{}, wrongArguments(code, err)
	}
	own := struct {
		Target       string         `json:"target"`
		Subscription jsontext.Value `json:",embed"`
	}{Subscription: jsontext.Value("{}")}
	err := read(arguments, &own)
	if err != nil {
		return invalid(bcp.Malformed, err)
	}
	var p bcp.Proposal
	if p.Reader, err = bcp.ParseAgentName(own.Target); err != nil {
		return bcp.Proposal{}, noReader()
	}
	if p.Subscription, err = bcp.ParseProposedSubscription(own.Subscription); err != nil {
		return invalid(bcp.InvalidQuery, plain(err))
	}
	if _, err := validator(p.Subscription.Spec, bcp.Settings{Subscriptions: 1}); err != nil {
		return invalid(bcp.InvalidQuery, err)
	}
	return p, nil
}

func wrongArguments(code bcp.Code, err error) *fault {
	return newFault(code).saying("%s", strings.TrimPrefix(err.Error(), "wire: ")).next("correct the arguments: the tool's schema says their form")
}

func noReader() *fault {
	return newFault(bcp.NoChannel).saying("target names no reader").next("BCPBudget lists the readers")
}

// validator compiles a spec. It returns none for a spec that only the gateway can judge: one that names a word list of its mesh,
// or has constraints, which this package cannot compile.
func validator(spec bcp.Spec, settings bcp.Settings) (*bcp.Validator, error) {
	if len(spec.Constraints) > 0 || slices.ContainsFunc(spec.Questions, func(q bcp.Question) bool {
		return q.Vocabulary != "" || q.ExpectedFormat == bcp.FormatVocabulary
	}) {
		return nil, nil
	}
	return bcp.Compile(spec, settings)
}
