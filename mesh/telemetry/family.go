package telemetry

import (
	"slices"

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

// families collects what the functions below declare, in that order.
var families []*Family

// Families returns every metric, in the order of docs/metrics.md.
func Families() []*Family { return slices.Clone(families) }

func declare(kind Type, name, unit, help string, labels ...string) *Family {
	f := &Family{Name: name, Type: kind, Unit: unit, Labels: labels, Help: help,
		desc: prometheus.NewDesc(namespace+name, help+".", labels, nil)}
	families = append(families, f)
	return f
}

func counterFamily(name, unit, help string, labels ...string) *Family {
	return declare(Counter, name, unit, help, labels...)
}

func gaugeFamily(name, unit, help string, labels ...string) *Family {
	return declare(Gauge, name, unit, help, labels...)
}

func histogramFamily(name, help string, buckets []float64, labels ...string) *Family {
	f := declare(Histogram, name, "seconds", help, labels...)
	f.buckets = buckets
	return f
}

// The labels. Those of a channel are both empty for data without a channel of
// the definitions.
const (
	controllerLabel   = "controller"
	readerLabel       = "reader"
	subscriptionLabel = "subscription" // empty if not declared
	agentLabel        = "agent"        // a person's name too; empty for an unknown one
	categoryLabel     = "category"
	verdictLabel      = "verdict"
	codeLabel         = "code" // empty if nothing was refused
	outcomeLabel      = "outcome"
	kindLabel         = "kind"
)

// delivered is the outcome of a query whose Controller got an answer.
const delivered = "delivered"

// What messages led to.
var (
	queriesTotal = counterFamily("queries_total", "queries", "Asks that became a query, by the category of the query: accepted, or held until a person decides about the escalation",
		controllerLabel, readerLabel, categoryLabel)
	asksTotal = counterFamily("asks_total", "asks", "Decided asks, without repeats, by what the Controller heard",
		controllerLabel, readerLabel, verdictLabel, codeLabel)
	answersTotal = counterFamily("answers_total", "answers", "Decided answers to queries, by what the Reader heard",
		controllerLabel, readerLabel, verdictLabel, codeLabel)
	endedTotal = counterFamily("queries_ended_total", "queries", "Queries that ended, by what the Controller got: delivered, or an outcome without an answer",
		controllerLabel, readerLabel, outcomeLabel)
	pushesTotal = counterFamily("pushes_total", "pushes", "Decided pushes, without repeats, by what the Reader heard",
		controllerLabel, readerLabel, subscriptionLabel, verdictLabel, codeLabel)
	windowsTotal = counterFamily("push_windows_total", "deliveries", "Windows of a batch_window that ended with a delivery",
		controllerLabel, readerLabel, subscriptionLabel)
	escalationsTotal = counterFamily("escalations_total", "queries", "Queries that were escalations",
		controllerLabel, readerLabel, categoryLabel)
	approvalsTotal = counterFamily("approvals_total", "acts", "What people did about held items, by what they heard",
		controllerLabel, readerLabel, "act", verdictLabel, codeLabel)
)

// Bits.
var (
	settledNominal = counterFamily("settled_nominal_bits_total", "bits", "Nominal bits that were settled, by whether a query or a push took them",
		controllerLabel, readerLabel, "source")
	settledCapacity = counterFamily("settled_capacity_bits_total", "bits", "Capacity bits that were settled: the bound of what the Controller may have learnt",
		controllerLabel, readerLabel, "source")
	pushNominal = counterFamily("push_nominal_bits_total", "bits", "Nominal bits that pushes of a subscription took",
		controllerLabel, readerLabel, subscriptionLabel)
	pushCapacity = counterFamily("push_capacity_bits_total", "bits", "Capacity bits that pushes of a subscription took",
		controllerLabel, readerLabel, subscriptionLabel)
)

// Agents, people, and their events.
var (
	sessionsTotal = counterFamily("sessions_total", "sessions", "Sessions that began, by whether the Controller or a delivery began them",
		controllerLabel, "begun_by")
	refusalsTotal = counterFamily("refusals_total", "messages", "Refused messages of an agent or a person, those included that were only counted",
		agentLabel)
	violationsTotal = counterFamily("violations_total", "operations", "Operations that the server denied to an agent or a person",
		agentLabel)
	alertsTotal = counterFamily("alerts_total", "alerts", "Alerts", "alert")

	notificationsTotal = counterFamily("notifications_total", "attempts", "Attempts to send a message by a notification route of the definitions, by whether it was taken", "route", outcomeLabel)

	egressRequests = counterFamily("egress_requests_total", "requests", "Requests to hosts that an agent's keeper asked for, or told of, by why they were refused; code is empty for those that were recorded and could be sent",
		agentLabel, codeLabel)
	egressBits  = counterFamily("egress_bits_total", "bits", "What requests to hosts told them at most", agentLabel)
	egressBytes = counterFamily("egress_bytes_total", "bytes", "What went over the wire to hosts and from them, as far as it was settled", agentLabel)

	modelCalls  = counterFamily("model_calls_total", "calls", "Calls of an agent's model that its keeper asked for, by why they were refused; code is empty for those that were recorded and could be made", agentLabel, codeLabel)
	modelTokens = counterFamily("model_tokens_total", "tokens", "Tokens that providers counted of an agent's model, as far as calls were settled", agentLabel, "kind")
	modelCost   = counterFamily("model_cost_usd_total", "US dollars", "What an agent's model cost, as far as calls were settled and the price is known", agentLabel)
	modelFails  = gaugeFamily("model_failing_since_seconds", "Unix time", "Since when an agent's model fails, and why; 0 and no fault while it works", agentLabel, "fault")

	promptsTotal = counterFamily("prompts_total", "prompts", "Prompts of an agent's schedules", agentLabel)
	missedTotal  = counterFamily("missed_runs_total", "runs", "Runs of an agent's schedules that were missed", agentLabel)

	processTotal   = counterFamily("process_events_total", "events", "What became of an agent's command", agentLabel, "event")
	processRunning = gaugeFamily("process_running", "0 or 1", "Whether an agent's command was started by this process and has not ended", agentLabel)
)

// The gateway.
var (
	decisionsTotal = counterFamily("decisions_total", "decisions", "Decisions that are in the journal, by what happened", kindLabel)
	reloadsTotal   = counterFamily("reloads_total", "reloads", "Reloads of the definitions")
	querySeconds   = histogramFamily("query_seconds", "Time from an ask to the end of its query; of queries that were asked before this process began nothing is shown",
		[]float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600}, outcomeLabel)
	recordSeconds = histogramFamily("record_seconds", "Time from a decision until its record was stored",
		[]float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5})
)

// Traces. They stay at 0 if none are sent.
var (
	spansSent = counterFamily("trace_spans_sent_total", "spans", "Spans that the collector has taken")
	spansLost = counterFamily("trace_spans_dropped_total", "spans", "Spans that the collector does not have: too many were waiting, or it could not be reached or refused them", "reason")
	untraced  = counterFamily("trace_decisions_missed_total", "decisions", "Decisions that came faster than spans are made of them")
)

// What is read from the gateway at a scrape. All but the first two are missing
// while it does not answer.
var (
	gatewayUp       = gaugeFamily("gateway_up", "0 or 1", "Whether the gateway answers")
	connectedAgents = gaugeFamily("connected_agents", "agents", "Agents and people that are connected, by role", "role")

	journalDecisions   = gaugeFamily("journal_decisions", "decisions", "Decisions in the journal, those of processes before included")
	projectedDecisions = gaugeFamily("projected_decisions", "decisions", "Decisions that audit and ledger show: those that the journal has more wait for it to rest")
	lastDecision       = gaugeFamily("last_decision_timestamp_seconds", "seconds since 1970", "Journal time of the newest decision")

	storageUsed    = gaugeFamily("storage_used_bytes", "bytes", "What all streams hold")
	storageLimit   = gaugeFamily("storage_limit_bytes", "bytes", "What all streams may hold: max_disk_mb")
	journalBytes   = gaugeFamily("journal_bytes", "bytes", "What the journal holds")
	journalLimit   = gaugeFamily("journal_limit_bytes", "bytes", "What the journal may hold: half of max_disk_mb")
	journalRecords = gaugeFamily("journal_records", "records", "Records in the journal, of one decision or more each")
	journalBegins  = gaugeFamily("journal_begins_behind", "number", "The decision after which the journal begins, 0 if it is whole")
	diskFree       = gaugeFamily("disk_free_bytes", "bytes", "What is free of the file system of the state folder; on a cluster, of what the fullest node lets JetStream take")
	diskSize       = gaugeFamily("disk_size_bytes", "bytes", "What of that file system the mesh's user may use, used and free; on a cluster, all that node lets JetStream take")
	snapshotMade   = gaugeFamily("snapshot_timestamp_seconds", "seconds since 1970", "When the newest snapshot was made, 0 if there is none")

	channelEpoch        = gaugeFamily("channel_epoch", "number", "The channel's epoch, from 1: the one that the next charge belongs to", controllerLabel, readerLabel)
	channelBudget       = gaugeFamily("channel_budget_bits", "bits", "Nominal bits of an epoch", controllerLabel, readerLabel)
	channelLeft         = gaugeFamily("channel_left_bits", "bits", "Nominal bits of the epoch that are neither settled nor reserved", controllerLabel, readerLabel)
	channelPushBudget   = gaugeFamily("channel_push_budget_bits", "bits", "Nominal bits of an epoch that pushes may take", controllerLabel, readerLabel)
	channelPushed       = gaugeFamily("channel_pushed_bits", "bits", "Nominal bits of the epoch that pushes took", controllerLabel, readerLabel)
	channelWindow       = gaugeFamily("channel_window_budget_bits", "bits", "Nominal bits of the sliding window; missing if it is switched off", controllerLabel, readerLabel)
	channelWindowLeft   = gaugeFamily("channel_window_left_bits", "bits", "Nominal bits of the sliding window that are left", controllerLabel, readerLabel)
	channelCapacity     = gaugeFamily("channel_capacity_budget_bits", "bits", "Capacity bits of an epoch; missing if the channel has no such budget", controllerLabel, readerLabel)
	channelCapacityLeft = gaugeFamily("channel_capacity_left_bits", "bits", "Capacity bits of the epoch that are neither settled nor reserved", controllerLabel, readerLabel)
	channelOpen         = gaugeFamily("channel_open_queries", "queries", "Queries without an answer, those included that wait at their gate", controllerLabel, readerLabel)
	channelUndelivered  = gaugeFamily("channel_undelivered_deliveries", "deliveries", "Deliveries that the Controller has not acknowledged", controllerLabel, readerLabel)
	heldItems           = gaugeFamily("held_items", "items", "Items that wait for a person", controllerLabel, readerLabel, kindLabel)
	heldAge             = gaugeFamily("held_oldest_age_seconds", "seconds", "How long the oldest item waits; 0 where none does", controllerLabel, readerLabel, kindLabel)
	sessionOpen         = gaugeFamily("session_open", "0 or 1", "Whether the Controller has a session that is neither closed nor idle", controllerLabel)
	agentUnavailable    = gaugeFamily("agent_unavailable", "0 or 1", "Whether the agent's command could not be started; of agents with a command", agentLabel)
)

var (
	acts          = []bcp.Act{bcp.Approve, bcp.RejectItem, bcp.EditItem}
	processEvents = []string{bcp.ProcessStarted, bcp.ProcessEnded, bcp.ProcessUnavailable}
	roles         = []bcp.Role{bcp.RoleController, bcp.RoleReader, bcp.RoleApprover, bcp.RoleAuditor, bcp.RoleOperator, bcp.RoleKeeper}
	categories    = []bcp.Category{1, 2, 3}
)

// refusalCodes returns the codes that refuse a message of this audience,
// without those that only end a query.
func refusalCodes(to bcp.Audience) []bcp.Code {
	var codes []bcp.Code
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
