package telemetry

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bcpmesh/bcpmesh/bcp"
)

// namespace begins the name of every metric.
const namespace = "bcpmesh_"

// Type is the type of a metric, as Prometheus names it.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Family is one metric with all its series.
type Family struct {
	Name   string // without the namespace
	Type   Type
	Unit   string // unit of the value
	Labels []string
	Help   string // a sentence without its full stop

	desc    *prometheus.Desc
	buckets []float64
}

// FullName is the name in the exposition.
func (f *Family) FullName() string { return namespace + f.Name }

// families collects what is declared below, in that order.
var families []*Family

// Families returns every metric, in the order of docs/metrics.md.
func Families() []*Family { return slices.Clone(families) }

// declare declares a metric; labels are separated by spaces.
func declare(kind Type, name, labels, unit, help string, buckets ...float64) *Family {
	f := &Family{Name: name, Type: kind, Unit: unit, Labels: strings.Fields(labels), Help: help, buckets: buckets}
	f.desc = prometheus.NewDesc(f.FullName(), help+".", f.Labels, nil)
	families = append(families, f)
	return f
}

// delivered is the outcome of a query whose Controller got an answer.
const delivered = "delivered"

// What is counted. Both labels of a channel are empty for data without a channel of the definitions.
var (
	decisionsTotal = declare(Counter, "decisions_total", "kind", "decisions", "Decisions that are in the journal, by what happened")
	messagesTotal  = declare(Counter, "messages_total", "controller reader subscription kind verdict code", "messages", "Decided messages, without repeats, by what their sender heard: an ask of the Controller, an answer or push of the Reader, the act of a person about a held item (approve, reject, edit); and the window of a batch_window that ended with a delivery")
	queriesTotal   = declare(Counter, "queries_total", "controller reader category escalation", "queries", "Asks that became a query: accepted, or held until a person decides about the escalation")
	endedTotal     = declare(Counter, "queries_ended_total", "controller reader outcome", "queries", "Queries that ended, by what the Controller got: delivered, or an outcome without an answer")
	settledBits    = declare(Counter, "settled_bits_total", "controller reader subscription source measure", "bits", "Bits that were settled, by whether a query or a push took them: nominal, and capacity, the bound of what the Controller may have learnt")
	eventsTotal    = declare(Counter, "agent_events_total", "agent kind code", "events", "What happened to an agent or a person: a refused message (refusal, with those that were only counted), an operation that the server denied (violation), a session that the Controller or a delivery began, a prompt of a schedule and a run that was missed, the command that started, ended or could not be started (process), a request to a host and a call of the model that the keeper asked for, with why it was refused; code is empty for those that were recorded and could be sent")
	egressBits     = declare(Counter, "egress_bits_total", "agent", "bits", "What requests to hosts told them at most")
	egressBytes    = declare(Counter, "egress_bytes_total", "agent", "bytes", "What went over the wire to hosts and from them, as far as it was settled")
	modelTokens    = declare(Counter, "model_tokens_total", "agent kind", "tokens", "Tokens that providers counted of an agent's model, as far as calls were settled")
	modelCost      = declare(Counter, "model_cost_usd_total", "agent", "US dollars", "What an agent's model cost, as far as calls were settled and the price is known")
	alertsTotal    = declare(Counter, "alerts_total", "alert", "alerts", "Alerts")
	notified       = declare(Counter, "notifications_total", "route outcome", "attempts", "Attempts to send a message by a notification route of the definitions, by whether it was taken")
	spansTotal     = declare(Counter, "trace_spans_total", "outcome", "spans", "Spans that the collector took, and that it does not have: too many were waiting, or it could not be reached or refused them. 0 if no traces are sent, like the next")
	untracedTotal  = declare(Counter, "trace_decisions_missed_total", "", "decisions", "Decisions that came faster than spans are made of them")
	querySeconds   = declare(Histogram, "query_seconds", "outcome", "seconds", "Time from an ask to the end of its query; of queries that were asked before this process began nothing is shown",
		.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 24*3600)
	recordSeconds = declare(Histogram, "record_seconds", "", "seconds", "Time from a decision until its record was stored",
		.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5)
)

// What is read from the gateway at a scrape. All but the first three are missing
// while it does not answer.
var (
	gatewayUp    = declare(Gauge, "gateway_up", "", "0 or 1", "Whether the gateway answers")
	connected    = declare(Gauge, "connected_agents", "role", "agents", "Agents and people that are connected, by role")
	storageBytes = declare(Gauge, "storage_bytes", "kind", "bytes", "What all streams hold (used) and may hold (limit: max_disk_mb), the journal of it (journal, and journal_limit: a half), what is free of the file system of the state folder (disk_free) and what the mesh's user may use of it (disk_size); on a cluster, of what the fullest node lets JetStream take")
	journal      = declare(Gauge, "journal", "kind", "number", "Of the journal: its decisions, also those before this process; how many of them audit and ledger show (projected: the others wait for it to rest); its records, of one decision or more each; the decision after which it begins (begins_behind, 0 if it is whole)")
	timestamps   = declare(Gauge, "timestamp_seconds", "kind", "seconds since 1970", "Journal time of the newest decision (last_decision), and when the newest snapshot was made (snapshot, 0 if there is none)")
	channelBits  = declare(Gauge, "channel_bits", "controller reader budget kind", "bits", "Each budget of a channel, nominal, push, window or capacity, if it is declared: its limit for an epoch or window, and what is left of it, neither settled nor reserved")
	channelEpoch = declare(Gauge, "channel_epoch", "controller reader", "number", "The channel's epoch, from 1: the one that the next charge belongs to")
	channelOpen  = declare(Gauge, "channel_open", "controller reader kind", "messages", "Queries without an answer, those included that wait at their gate, and deliveries that the Controller has not acknowledged")
	heldItems    = declare(Gauge, "held_items", "controller reader kind", "items", "Items that wait for a person")
	heldAge      = declare(Gauge, "held_oldest_age_seconds", "controller reader kind", "seconds", "How long the oldest item waits; 0 where none does")
	sessionOpen  = declare(Gauge, "session_open", "controller", "0 or 1", "Whether the Controller has a session that is neither closed nor idle")
	unavailable  = declare(Gauge, "agent_unavailable", "agent", "0 or 1", "Whether the agent's command could not be started; of agents with a command")
	modelFails   = declare(Gauge, "model_failing_since_seconds", "agent fault", "Unix time", "Since when an agent's model fails, and why; 0 and no fault while it works")
)

var roles = []bcp.Role{bcp.RoleController, bcp.RoleReader, bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator, bcp.RoleKeeper}

// refusalCodes returns the codes that refuse a message of this audience, without those that only end a query; the empty
// one is for all that are not expected.
func refusalCodes(to bcp.Audience) []bcp.Code {
	codes := []bcp.Code{""}
	for _, line := range bcp.Catalogue() {
		if line.To&to != 0 && !(line.Outcome && line.To == bcp.ToController) {
			codes = append(codes, line.Code)
		}
	}
	return codes
}

// outcomes are the words of how a query can end.
func outcomes() []bcp.Code {
	list := []bcp.Code{delivered}
	for _, line := range bcp.Catalogue() {
		switch {
		case !line.Outcome, line.To&bcp.ToController == 0:
		case line.Code == bcp.Held, line.Code == bcp.Unavailable, line.Code == bcp.Internal: // they end nothing
		default:
			list = append(list, line.Code)
		}
	}
	return list
}
