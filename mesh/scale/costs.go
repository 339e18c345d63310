package scale

// Costs are the costs measured on one machine. Processor times are in microseconds,
// sizes in bytes. The zero value costs nothing, and is of no machine.
type Costs struct {
	// Source says when, where and how busy the machine was.
	Source string `json:"source"`

	Push Exchange `json:"push"` // a push, its receipt, its delivery and the acknowledgement
	Ask  Exchange `json:"ask"`  // a question, its answer, the delivery and the acknowledgement

	// Serial is the part of all processor time that the gateway's one goroutine
	// takes, from 0 to 1.
	Serial float64 `json:"serial"`
	// CommitP50 and CommitP99 are how long one record takes until it is on the disk,
	// in microseconds.
	CommitP50 float64 `json:"commit_p50_us"`
	CommitP99 float64 `json:"commit_p99_us"`

	// Connect is the processor time of an agent that connects, and Connection the
	// memory of a connected one.
	Connect    float64 `json:"connect_us"`
	Connection float64 `json:"connection_bytes"`

	// Of each channel: the definition's text and its memory, the state's memory, the
	// processor time of loading one and of making or restoring the other, and its
	// part of a snapshot.
	DefinitionText   float64 `json:"definition_text_bytes"`
	DefinitionMemory float64 `json:"definition_memory_bytes"`
	DefinitionLoad   float64 `json:"definition_load_us"`
	StateMemory      float64 `json:"state_memory_bytes"`
	StateRestore     float64 `json:"state_restore_us"`
	Snapshot         float64 `json:"snapshot_bytes"`
	// Permissions is the processor time of compiling its permissions, Claim its part
	// of its Reader's account JWT, and AgentClaim an agent's own part.
	Permissions float64 `json:"permissions_us"`
	Claim       float64 `json:"claim_bytes"`
	AgentClaim  float64 `json:"agent_claim_bytes"`
	// SealingKey is the gateway's time for making a channel's sealing keys of a day.
	SealingKey float64 `json:"sealing_key_us"`

	// For each request or push id, remembered for a day: its memory, its part of a
	// snapshot, and the processor time of restoring it.
	IDMemory   float64 `json:"id_memory_bytes"`
	IDSnapshot float64 `json:"id_snapshot_bytes"`
	IDRestore  float64 `json:"id_restore_us"`
	// QueryMemory is that of an open question.
	QueryMemory float64 `json:"query_memory_bytes"`
	// Replay is the processor time of reading one decision of the journal at a start.
	Replay float64 `json:"replay_us"`
}

// Exchange is the cost of a question or a push with all its consequences.
type Exchange struct {
	Decisions int `json:"decisions"`
	// Answered is how many of them are made when the agent that began has its
	// result.
	Answered int `json:"answered"`
	// Processor is the time of server and gateway, without the following.
	Processor float64 `json:"processor_us"`
	// Apart is the additional time if each message comes and goes alone on its
	// connection. Messages that come together share it.
	Apart float64 `json:"apart_us"`
	// Record is the processor time of one record of the journal, independent of its
	// content.
	Record float64 `json:"record_us"`
	// Projection is the later time of audit and ledger.
	Projection float64 `json:"projection_us"`
	// Agents is the time of the agents' own processes, on any machine.
	Agents float64 `json:"agents_us"`
	// Journal and Streams are its bytes in the journal and in all streams with it.
	Journal float64 `json:"journal_bytes"`
	Streams float64 `json:"stream_bytes"`
}
