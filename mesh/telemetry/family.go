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
	decisionsTotal = declare(Counter, "decisions_total", "kind", "decisions", "Decisions in the journal")
	messagesTotal  = declare(Counter, "messages_total", "controller reader subscription kind verdict code", "messages", "Messages by what their sender heard, without repeats")
	queriesTotal   = declare(Counter, "queries_total", "controller reader category escalation", "queries", "Asks that became a query, held escalations included")
	endedTotal     = declare(Counter, "queries_ended_total", "controller reader outcome", "queries", "Queries that ended, by what the Controller got")
	settledBits    = declare(Counter, "settled_bits_total", "controller reader subscription source measure", "bits", "Bits that queries and pushes took: nominal, and capacity")
	eventsTotal    = declare(Counter, "agent_events_total", "agent kind code", "events", "What happened to an agent or a person, with the code of what was refused")
	egressBits     = declare(Counter, "egress_bits_total", "agent", "bits", "What requests could tell hosts, at most")
	egressBytes    = declare(Counter, "egress_bytes_total", "agent", "bytes", "Settled traffic to hosts and from them")
	modelTokens    = declare(Counter, "model_tokens_total", "agent kind", "tokens", "Tokens of an agent's model, of settled calls")
	modelCost      = declare(Counter, "model_cost_usd_total", "agent", "US dollars", "What settled calls of an agent's model cost, where the price is known")
	alertsTotal    = declare(Counter, "alerts_total", "alert", "alerts", "Alerts")
	notified       = declare(Counter, "notifications_total", "route outcome", "attempts", "Attempts to send a notification")
	spansTotal     = declare(Counter, "trace_spans_total", "outcome", "spans", "Spans that the collector took (sent), that did not reach it (undelivered), and that came too fast (dropped)")
	querySeconds   = declare(Histogram, "query_seconds", "outcome", "seconds", "Time from an ask to the end of its query, if this process saw the ask",
		.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 24*3600)
	decidedSigns  = declare(Counter, "decided_signs_total", "controller reader rule false", "items", "Items that people decided, by the rule that held them, and once for the rule any; false ones were approved unchanged")
	decideSeconds = declare(Histogram, "decision_seconds", "controller reader", "seconds", "Time from the notice of an item to the decision of a person, if this process saw both",
		1, 5, 10, 30, 60, 300, 900, 3600, 4*3600, 12*3600, 24*3600)
	recordSeconds = declare(Histogram, "record_seconds", "", "seconds", "Time from a decision until its record was stored",
		.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5)
)

// What is read from the gateway at a scrape. All but the first three are missing
// while it does not answer.
var (
	gatewayUp    = declare(Gauge, "gateway_up", "", "0 or 1", "Whether the gateway answers")
	connected    = declare(Gauge, "connected_agents", "role", "agents", "Connected agents and people")
	storageBytes = declare(Gauge, "storage_bytes", "kind", "bytes", "What all streams hold (used) and may hold (limit), the journal alone (journal, journal_limit), and the file system (disk_free, disk_size); on a cluster, JetStream's at the fullest node")
	journal      = declare(Gauge, "journal", "kind", "number", "Decisions of the journal, how many of them audit and ledger show (projected), its records, and the decision after which it begins (begins_behind)")
	timestamps   = declare(Gauge, "timestamp_seconds", "kind", "seconds since 1970", "Time of the newest decision (last_decision), and of the newest snapshot (snapshot)")
	channelBits  = declare(Gauge, "channel_bits", "controller reader budget kind", "bits", "Each declared budget of a channel: its limit, and what is left, neither settled nor reserved")
	channelEpoch = declare(Gauge, "channel_epoch", "controller reader", "number", "The channel's epoch, from 1")
	channelOpen  = declare(Gauge, "channel_open", "controller reader kind", "messages", "Queries without an answer, and deliveries without an acknowledgement")
	heldItems    = declare(Gauge, "held_items", "controller reader kind", "items", "Items that wait for a person")
	heldAge      = declare(Gauge, "held_oldest_age_seconds", "controller reader kind", "seconds", "How long the oldest item waits")
	sessionOpen  = declare(Gauge, "session_open", "controller", "0 or 1", "Whether the Controller has an open session")
	unavailable  = declare(Gauge, "agent_unavailable", "agent", "0 or 1", "Whether the agent's command cannot be started")
	modelFails   = declare(Gauge, "model_failing_since_seconds", "agent fault", "Unix time", "Since when an agent's model fails, or 0")
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
