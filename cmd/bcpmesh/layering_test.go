package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Imports point from effects to decisions. The table below is the rule for every package of the module; the check
// parses the source, whatever its build tags say, so that an import under any tag counts. Tests may import what they like.

const modulePath = "github.com/bcpmesh/bcpmesh"

// A rule says what the non-test files of one folder may do. Nothing is allowed but what it names.
type rule struct {
	folder string
	// core: decides and has no effect. A closed list of the standard library, no clock, goroutine, init or float.
	core bool
	// program: a command or an example, which may print, exit and read its environment.
	program bool
	// testSupport: for tests alone; no other package may import it.
	testSupport bool
	// foreign: says on purpose what the mesh never says, and so spells subjects and streams out.
	foreign  bool
	internal []string // folders of this module
	external []string // import paths of other modules, each with what lies below it; "*" is any
}

// Other modules, where more than one rule names them.
const (
	cronParser       = "github.com/netresearch/go-cron"
	noteFormat       = "golang.org/x/mod/sumdb/note"
	treeHashes       = "golang.org/x/mod/sumdb/tlog"
	zstdFormat       = "github.com/klauspost/compress/zstd"
	fileLock         = "github.com/gofrs/flock"
	jsonText         = "github.com/go-json-experiment/json"
	jwtClaims        = "github.com/nats-io/jwt/v2"
	jsonSchema       = "github.com/santhosh-tekuri/jsonschema/v6"
	logging          = "github.com/hashicorp/go-hclog"
	jsonWithComments = "github.com/tailscale/hujson"
	agentToAgent     = "github.com/a2aproject/a2a-go/v2"
	mcpSDK           = "github.com/modelcontextprotocol/go-sdk"
	msgpack          = "github.com/vmihailenco/msgpack/v5"
	natsClient       = "github.com/nats-io/nats.go"
	natsServer       = "github.com/nats-io/nats-server/v2"
	openTelemetry    = "go.opentelemetry.io/otel"
	prometheus       = "github.com/prometheus/client_golang/prometheus"
	nkeys            = "github.com/nats-io/nkeys"
	ageSeal          = "filippo.io/age"
	textLib          = "golang.org/x/text"
	yamlText         = "go.yaml.in/yaml/v4"

	commandLines = "github.com/spf13/cobra"
	textTables   = "github.com/jedib0t/go-pretty/v6"
	progressBars = "github.com/schollz/progressbar/v3"
	patches      = "github.com/rogpeppe/go-internal"

	internationalNames = "golang.org/x/net/idna"
	readability        = "codeberg.org/readeck/go-readability/v2"
)

var rules = []rule{
	{folder: "bcp", core: true, internal: []string{"bcp/guard", "bcp/text", "bcp/wire"}, external: []string{jsonText, msgpack, textLib}},
	// Decides from what it remembers, and is told of records alone.
	{folder: "bcp/state", core: true, internal: []string{"bcp", "bcp/contract", "bcp/guard", "bcp/kernel", "bcp/status", "bcp/text", "bcp/wire"}, external: []string{jsonText, msgpack}},
	// Narrows definitions to what was said, and knows nothing of where that is kept.
	{folder: "bcp/tighten", core: true, internal: []string{"bcp"}, external: []string{jsonText}},
	// Judges bytes by rules of its own; whether a model wrote a number the library says.
	{folder: "bcp/wire", core: true, external: []string{jsonText}},
	{folder: "bcp/status", core: true, internal: []string{"bcp"}},
	{folder: "bcp/text", core: true, external: []string{jsonText, textLib}},
	// Decides what agents read and where they reach; package bcp asks it, so it knows nothing of bcp.
	{folder: "bcp/guard", core: true, external: []string{internationalNames, jsonText, textLib}},
	{folder: "bcp/constraint", core: true, internal: []string{"bcp"}, external: []string{"cel.dev/cel-go"}},
	// Shows hostile text to people, and knows nothing of what it is.
	{folder: "bcp/inert", core: true},
	{folder: "bcp/bcptest", testSupport: true, external: []string{"pgregory.net/rapid"}},
	// Writes decisions as sentences.
	{folder: "bcp/tell", core: true, internal: []string{"bcp", "bcp/definition", "bcp/guard", "bcp/inert", "bcp/kernel", "bcp/status", "bcp/text"}, external: []string{jsonText}},
	// Turns tasks into effects by rules, and has no way to make one: it never sees the state of channels, nor the guard.
	{folder: "bcp/kernel", core: true, internal: []string{"bcp", "bcp/constraint", "bcp/text", "bcp/wire"}, external: []string{jsonText, textLib}},
	// Judges promises and attestations; the check of a signature is an argument. Counts what records say of agents, and looks at no content.
	{folder: "bcp/contract", core: true, internal: []string{"bcp", "bcp/wire"}, external: []string{jsonText, textLib}},
	{
		folder: "bcp/definition", core: true,
		internal: []string{"bcp", "bcp/constraint", "bcp/contract", "bcp/guard", "bcp/inert", "bcp/kernel", "bcp/text", "bcp/wire"},
		external: []string{cronParser, jsonText, textLib, yamlText},
	},

	{folder: "subjects", core: true, internal: []string{"bcp"}},
	// Opens files to read them, and writes them whole: it knows nothing of what is in them.
	{folder: "accounts/disk"},
	// What a browser signed is read by the strict reader: that of the standard library takes
	// a member in any case, and the last of two.
	{folder: "accounts", internal: []string{"accounts/disk", "bcp", "bcp/contract", "subjects"}, external: []string{ageSeal, fileLock, jsonText, jwtClaims, nkeys, noteFormat}},
	// Shows what claims allow. It only reads them: it has no key, and knows nothing of what they were made from.
	{folder: "accounts/proof", core: true, internal: []string{"bcp", "bcp/contract", "subjects"}, external: []string{jwtClaims}},

	{
		folder: "jetstream", internal: []string{"accounts/disk", "bcp", "bcp/state", "bcp/status", "bcp/wire", "subjects"},
		external: []string{jsonText, logging, msgpack, natsClient, noteFormat, treeHashes, zstdFormat},
	},
	// Shares nothing with what it checks. Unpacking is here so that the limits of a file and the place of a fault are.
	{folder: "jetstream/verify", core: true, external: []string{noteFormat, treeHashes, zstdFormat}},

	// What an agent links against: it never sees the mesh, its streams or its keys.
	{folder: "agents", internal: []string{"accounts/disk", "bcp", "bcp/contract", "bcp/guard", "bcp/status", "bcp/wire", "subjects"}, external: []string{jsonText, jwtClaims, logging, natsClient, nkeys}},

	// Starts and confines somebody's program, and knows nothing of what it is for.
	{folder: "agents/process", internal: []string{"bcp/guard", "bcp/inert"}, external: []string{jsonText, "github.com/landlock-lsm/go-landlock/landlock", logging, "golang.org/x/net/bpf", "golang.org/x/sys/unix"}},

	// Makes agents of programs in any language.
	{folder: "agents/stdio", internal: []string{"agents", "agents/process", "bcp", "bcp/wire"}, external: []string{"golang.org/x/sync/semaphore", jsonText, logging, natsClient}},

	// Calls tools of foreign MCP servers, for Readers, kernels and models: it trusts nothing that a server says.
	{folder: "agents/wrap", internal: []string{"agents", "agents/fetch", "agents/process", "agents/stdio", "agents/tool", "bcp", "bcp/constraint", "bcp/guard", "bcp/kernel", "bcp/wire"}, external: []string{jsonText, logging, mcpSDK}},
	// What hosts of MCP are served by: a client of the mesh like any other.
	{folder: "agents/mcp", internal: []string{"agents", "agents/wrap", "bcp", "bcp/wire"}, external: []string{jsonText, jsonWithComments, logging, mcpSDK, natsClient}},

	// Gets pages; who fetches for an agent reads nothing of what it gets: one file makes text of pages, by exceptions.
	{folder: "agents/fetch", internal: []string{"agents/llm", "agents/tool", "bcp/guard"}, external: []string{"code.dny.dev/ssrf", "golang.org/x/net/html", jsonText}},
	// Makes text of pages where hostile bytes are read.
	{folder: "agents/decode", external: []string{"github.com/andybalholm/cascadia", "golang.org/x/image/colornames", "golang.org/x/net/html", textLib}},
	// What the tools of a model share.
	{folder: "agents/tool", internal: []string{"accounts/disk", "agents/llm", "bcp/guard"}, external: []string{jsonText}},
	// Reads mail, for a model as well; who copies it from a server reads none, and alone has a network, by an exception.
	{folder: "agents/mailbox", internal: []string{"accounts/disk", "agents/decode", "agents/llm", "agents/tool", "bcp/guard"}, external: []string{fileLock, jsonText, logging}},
	// Holds the network of an agent: it asks the mesh, and decides nothing.
	{folder: "agents/keeper", internal: []string{"agents", "agents/cell", "agents/fetch", "agents/llm", "agents/llm/wires", "agents/stdio", "agents/tool", "bcp", "bcp/guard", "bcp/kernel"}, external: []string{"golang.org/x/sync/semaphore", jsonText, logging}},
	// Reads hostile text for a model, behind one door: it has neither creds nor network.
	{folder: "agents/cell", internal: []string{"accounts/disk", "agents/fetch", "agents/llm", "agents/mailbox", "agents/mcp", "agents/stdio", "agents/tool", "bcp", "bcp/guard"}, external: []string{jsonText}},
	// Talks to models.
	{folder: "agents/llm", internal: []string{"bcp/guard", "bcp/wire"}, external: []string{jsonSchema, jsonText}},
	// The ways to models: wires of our own and a script.
	{folder: "agents/llm/wires", internal: []string{"accounts/disk", "agents/llm", "bcp", "bcp/guard", "bcp/inert", "bcp/wire"}, external: []string{jsonText}},

	// What one version of the server has on disk and says, and the way to servers of a cluster, with creds and no key.
	{folder: "mesh/server", internal: []string{"accounts", "accounts/disk", "bcp", "bcp/guard", "subjects"}, external: []string{fileLock, jwtClaims, logging, natsClient, natsServer, nkeys}},
	// Runs agents' commands, and knows nothing of what they may say.
	{folder: "mesh/supervisor", internal: []string{"agents/process", "bcp", "bcp/status"}, external: []string{logging}},
	{
		folder:   "mesh/gateway",
		internal: append([]string{"accounts/disk", "jetstream"}, corePackages...),
		external: []string{"golang.org/x/sync/singleflight", jsonText, logging, msgpack, natsClient, nkeys},
	},
	// Tells people, and knows nothing of what agents said. It only reads the journal.
	{folder: "mesh/notify", internal: []string{"accounts/disk", "agents/fetch", "agents/process", "bcp", "bcp/guard", "jetstream"}, external: []string{jsonText, logging, "github.com/wneessen/go-mail/smtp", natsClient}},
	{
		folder:   "mesh",
		internal: append([]string{"accounts", "accounts/proof", "accounts/disk", "agents/process", "jetstream", "jetstream/verify", "mesh/gateway", "mesh/server", "mesh/notify", "mesh/supervisor"}, corePackages...),
		external: []string{fileLock, jsonText, logging, natsClient, nkeys, noteFormat, treeHashes},
	},
	// It is told what happened, may look at the state, and talks to a collector of traces; the mesh does not know of it.
	{folder: "mesh/telemetry", internal: []string{"agents/fetch", "bcp", "bcp/guard", "bcp/state", "bcp/status", "bcp/text"}, external: []string{"github.com/go-logr/logr", logging, openTelemetry, prometheus}},
	// Pages for people: a client of the mesh like any other.
	{folder: "mesh/web", internal: []string{"accounts", "accounts/disk", "agents", "bcp", "bcp/inert", "bcp/status", "bcp/tell"}, external: []string{jsonText, logging}},
	{
		folder: "mesh/meshtest", testSupport: true,
		internal: append([]string{"accounts", "agents", "bcp/bcptest", "jetstream", "jetstream/verify", "mesh", "mesh/server"}, corePackages...),
		external: []string{jsonText, logging, msgpack, natsClient, noteFormat, treeHashes},
	},

	// Stock servers, which know nothing of a mesh, and which it does not link.
	{folder: "mesh/clustertest", testSupport: true, internal: []string{"bcp/bcptest"}, external: []string{natsClient}},

	{folder: "examples"},
	{
		folder: "examples/mailroom", program: true,
		internal: append([]string{"accounts", "agents", "agents/mailbox", "mesh"}, corePackages...),
		external: []string{"*"},
	},
	// The commands, from what all are written with to what uses most of it. Package main imports all of them; none
	// imports one that is below it here.
	{
		folder: "cmd/internal/cli", program: true,
		internal: []string{"accounts/disk", "bcp", "bcp/guard", "bcp/inert", "bcp/tell", "bcp/text"},
		external: []string{commandLines, "github.com/mattn/go-isatty", "github.com/muesli/cancelreader", "github.com/spf13/pflag", "golang.org/x/term", jsonText, logging, textTables},
	},
	{
		folder: "cmd/internal/meshdir", program: true,
		internal: []string{"accounts", "accounts/disk", "agents", "agents/fetch", "agents/llm", "agents/llm/wires", "agents/mailbox", "agents/process", "bcp", "bcp/guard", "bcp/definition", "cmd/internal/cli", "mesh", "mesh/server", "subjects"},
		external: []string{commandLines, fileLock, "golang.org/x/term", jsonText, jwtClaims, natsClient, nkeys},
	},
	{
		folder: "cmd/internal/client", program: true,
		internal: []string{"accounts", "agents", "bcp", "bcp/guard", "bcp/state", "bcp/status", "bcp/tell", "cmd/internal/cli", "cmd/internal/meshdir", "jetstream", "mesh", "mesh/server", "subjects"},
		external: []string{commandLines, jwtClaims, logging, natsClient, progressBars, "golang.org/x/sys/unix"},
	},
	{
		folder: "cmd/bcpmesh/internal/simulate", program: true,
		internal: []string{"accounts", "accounts/disk", "agents", "agents/fetch", "agents/keeper", "agents/llm", "bcp", "bcp/constraint", "bcp/contract", "bcp/guard", "bcp/inert", "bcp/kernel", "bcp/tell", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir"},
		external: []string{commandLines, jsonText},
	},
	{
		folder: "cmd/bcpmesh/internal/byhand", program: true,
		internal: []string{"agents", "bcp", "bcp/constraint", "bcp/inert", "bcp/kernel", "bcp/tell", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "subjects"},
		external: []string{commandLines, jsonText, natsClient, textTables},
	},
	{
		folder: "cmd/bcpmesh/internal/keys", program: true,
		internal: []string{"accounts", "agents", "bcp", "bcp/status", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "mesh", "mesh/server", "subjects"},
		external: []string{commandLines, jsonText, jwtClaims, logging, natsClient},
	},
	{
		folder: "cmd/bcpmesh/internal/audit", program: true,
		internal: []string{"accounts", "accounts/disk", "agents", "bcp", "bcp/constraint", "bcp/definition", "bcp/guard", "bcp/inert", "bcp/kernel", "bcp/state", "bcp/status", "bcp/tell", "bcp/tighten", "cmd/bcpmesh/internal/byhand", "cmd/bcpmesh/internal/simulate", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "jetstream", "jetstream/verify", "mesh", "subjects"},
		external: []string{commandLines, jsonText, logging, progressBars},
	},
	{
		folder: "cmd/bcpmesh/internal/define", program: true,
		internal: []string{"accounts", "accounts/disk", "accounts/proof", "agents", "agents/llm/wires", "agents/wrap", "bcp", "bcp/constraint", "bcp/contract", "bcp/definition", "bcp/guard", "bcp/kernel", "bcp/tighten", "bcp/wire", "cmd/bcpmesh/internal/audit", "cmd/bcpmesh/internal/simulate", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "examples", "jetstream", "mesh", "mesh/server", "subjects"},
		external: []string{commandLines, jsonText, nkeys, patches},
	},
	{
		folder: "cmd/bcpmesh/internal/run", program: true,
		internal: []string{"accounts", "accounts/disk", "agents", "agents/cell", "agents/fetch", "agents/keeper", "agents/llm", "agents/llm/wires", "agents/mailbox", "agents/process", "bcp", "bcp/definition", "bcp/guard", "bcp/inert", "bcp/state", "bcp/status", "bcp/tell", "cmd/bcpmesh/internal/attach", "cmd/bcpmesh/internal/audit", "cmd/bcpmesh/internal/byhand", "cmd/bcpmesh/internal/keys", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "examples", "examples/mailroom", "jetstream", "mesh", "mesh/gateway", "mesh/notify", "mesh/server", "mesh/telemetry", "mesh/web", "subjects"},
		external: []string{commandLines, jsonText, jwtClaims, logging, natsClient, progressBars, textTables},
	},
	{
		folder: "cmd/bcpmesh/internal/attach", program: true,
		internal: []string{"accounts/disk", "agents", "agents/cell", "agents/fetch", "agents/keeper", "agents/llm", "agents/llm/wires", "agents/mailbox", "agents/mcp", "agents/process", "agents/stdio", "agents/wrap", "bcp", "bcp/guard", "bcp/inert", "bcp/tell", "cmd/bcpmesh/internal/simulate", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir"},
		external: []string{commandLines, fileLock, jsonText, logging, natsClient},
	},
	{
		folder: "cmd/bcpmesh", program: true,
		internal: []string{
			"cmd/bcpmesh/internal/attach", "cmd/bcpmesh/internal/audit", "cmd/bcpmesh/internal/byhand", "cmd/internal/cli", "cmd/internal/client", "cmd/bcpmesh/internal/simulate",
			"cmd/bcpmesh/internal/define", "cmd/bcpmesh/internal/keys", "cmd/internal/meshdir", "cmd/bcpmesh/internal/run",
		},
		external: []string{commandLines},
	},
	{folder: "cmd/internal/clitest", testSupport: true, internal: []string{"bcp/bcptest", "cmd/internal/cli"}, external: []string{"*"}},

	// The laboratory, a module of its own: it attacks and measures the rest, which does not know of it.
	// Attacks a mesh from outside, with creds. It starts the mesh, reads what lies on its disk, and decides nothing.
	{
		folder: "cmd/bcpmesh-lab/internal/redteam", foreign: true,
		internal: []string{"agents", "bcp", "bcp/definition", "bcp/wire", "jetstream", "jetstream/verify", "mesh", "mesh/server", "mesh/telemetry", "subjects"},
		external: []string{jsonText, jwtClaims, logging, natsClient, nkeys},
	},
	// Plays small meshes in every way: it is pure, and knows no bus.
	{folder: "cmd/bcpmesh-lab/internal/redteam/exact", core: true, internal: []string{"bcp", "bcp/constraint", "bcp/kernel", "bcp/state"}, external: []string{jsonText}},
	// Computes what samples say of leaks.
	{folder: "cmd/bcpmesh-lab/internal/redteam/stats"},
	// Looks for more bits than are charged.
	{folder: "cmd/bcpmesh-lab/internal/redteam/leakage", foreign: true, internal: []string{"bcp", "cmd/bcpmesh-lab/internal/redteam", "cmd/bcpmesh-lab/internal/redteam/exact", "cmd/bcpmesh-lab/internal/redteam/stats", "subjects"}, external: []string{natsClient}},
	// Says what attackers have written, and counts what arrives.
	{folder: "cmd/bcpmesh-lab/internal/redteam/corpus", foreign: true, internal: []string{"bcp", "bcp/constraint", "bcp/definition", "cmd/bcpmesh-lab/internal/redteam", "cmd/bcpmesh-lab/internal/redteam/stats"}, external: []string{"github.com/goccy/go-yaml"}},
	// Makes the table of what words weigh, and measures it.
	{folder: "cmd/bcpmesh-lab/internal/redteam/judge", internal: []string{"bcp", "bcp/text", "cmd/bcpmesh-lab/internal/redteam/stats"}},
	{folder: "cmd/bcpmesh-lab/internal/conformance", internal: []string{"accounts", "bcp", "bcp/definition", "mesh/server", "subjects"}, external: []string{jsonText, natsClient}},
	// Puts tables into documents, and knows nothing of what they are.
	{folder: "cmd/bcpmesh-lab/internal/section"},
	// Puts meshes and floors together to measure them; nothing that runs knows of it.
	{
		folder:   "cmd/bcpmesh-lab/internal/bench",
		internal: append([]string{"accounts", "agents", "jetstream", "mesh", "cmd/bcpmesh-lab/internal/section", "mesh/server", "mesh/web"}, corePackages...),
		external: []string{jsonText, logging, natsClient, natsServer},
	},
	{
		folder: "cmd/bcpmesh-lab/agentdojo", program: true,
		internal: append([]string{"agents", "agents/llm", "agents/llm/wires", "agents/keeper", "agents/mcp", "bcp/contract", "bcp/definition", "bcp/guard", "bcp/kernel", "cmd/bcpmesh-lab/agentdojo/score", "mesh"}, corePackages...),
		external: []string{jsonText, logging, "github.com/goccy/go-yaml"},
	},
	// Judges what was done by states and effects. It imports nothing of ours, so that no fault of the product hides in a score.
	{folder: "cmd/bcpmesh-lab/agentdojo/score", external: []string{"cel.dev/cel-go", jsonText}},
	{
		folder: "cmd/bcpmesh-lab/internal/conform", program: true,
		internal: []string{"agents", "bcp", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "cmd/bcpmesh-lab/internal/bench", "cmd/bcpmesh-lab/internal/conformance", "cmd/bcpmesh-lab/internal/redteam", "cmd/bcpmesh-lab/internal/redteam/corpus", "cmd/bcpmesh-lab/internal/redteam/leakage", "cmd/bcpmesh-lab/internal/section", "mesh/server"},
		external: []string{commandLines, jsonText},
	},
	{folder: "cmd/bcpmesh-lab", program: true, internal: []string{"cmd/bcpmesh-lab/internal/conform", "cmd/internal/cli"}, external: []string{commandLines}},
	{folder: "cmd/bcpmesh-lab/letters", program: true, external: []string{"github.com/clipperhouse/uax29/v2", textLib}},
	{folder: "cmd/bcpmesh-lab/judge", program: true, internal: []string{"cmd/bcpmesh-lab/internal/redteam/judge", "cmd/bcpmesh-lab/internal/section"}},
	{folder: "cmd/bcpmesh-lab/weaken", program: true, internal: []string{"cmd/bcpmesh-lab/internal/redteam", "cmd/bcpmesh-lab/internal/redteam/corpus", "cmd/bcpmesh-lab/internal/redteam/leakage"}},

	// The bridges, a module of their own.
	// A client of somebody else's agent, which is a Reader and nothing more.
	{folder: "cmd/bcpmesh-bridge/internal/a2a", internal: []string{"agents", "agents/mcp", "agents/stdio", "bcp", "bcp/constraint"}, external: []string{agentToAgent, jsonText, logging}},
	// What clients of A2A are served by: a Controller like any other.
	{folder: "cmd/bcpmesh-bridge/internal/a2aserver", internal: []string{"agents", "agents/mcp", "bcp", "bcp/wire"}, external: []string{agentToAgent, jsonText, natsClient}},
	// Two agents of two meshes, which carries what one hears to the other.
	{folder: "cmd/bcpmesh-bridge/internal/relay", internal: []string{"accounts/disk", "agents", "bcp"}, external: []string{jsonText, logging}},
	{
		folder: "cmd/bcpmesh-bridge/internal/bridges", program: true,
		internal: []string{"accounts/disk", "agents", "agents/stdio", "bcp", "bcp/contract", "cmd/bcpmesh-bridge/internal/a2a", "cmd/bcpmesh-bridge/internal/a2aserver", "cmd/bcpmesh-bridge/internal/relay", "cmd/internal/cli", "cmd/internal/client", "cmd/internal/meshdir", "mesh", "mesh/server"},
		external: []string{commandLines, fileLock, jsonText, logging, natsClient},
	},
	{folder: "cmd/bcpmesh-bridge", program: true, internal: []string{"cmd/bcpmesh-bridge/internal/bridges", "cmd/internal/cli"}, external: []string{commandLines}},
}

// corePackages may not be imported by a core package through this list: each names what it needs.
var corePackages = []string{"bcp", "bcp/constraint", "bcp/contract", "bcp/definition", "bcp/guard", "bcp/inert", "bcp/kernel", "bcp/state", "bcp/status", "bcp/tell", "bcp/text", "bcp/tighten", "bcp/wire", "subjects"}

// onlyIn names folders that alone may import a module, also where a rule says "*".
var onlyIn = map[string][]string{
	natsServer:                 {"cmd/bcpmesh-lab/internal/bench", "mesh/server"},
	prometheus:                 {"mesh/telemetry"},
	openTelemetry:              {"mesh/telemetry"},
	"cel.dev/cel-go":           {"bcp/constraint", "cmd/bcpmesh-lab/agentdojo/score"}, // the second judges AgentDojo's conditions
	yamlText:                   {"bcp/definition"},
	"github.com/goccy/go-yaml": {"cmd/bcpmesh-lab/agentdojo", "cmd/bcpmesh-lab/internal/redteam/corpus"},
	mcpSDK:                     {"agents/mcp", "agents/wrap"},
}

// An exception allows one thing to one file. One that is not needed fails.
type exception struct{ file, what, reason string }

const outgoingFraction = "bandwidth_bits has a fraction, and MessagePack spells a fraction as a float only: it goes out, and nothing depends on it"

const returningFraction = "an agent reads what the gateway sends, with its fractions; the gateway reads nothing so"

const definitionEdge = "Load is the one function of the core that reads: the folder that it is given"

const zoneNames = "a time zone is known by loading it; the tables are compiled in, for machines that have none"

const filterOfTheKernel = "a seccomp filter is handed to the kernel by its address, and package unix has no function for it"

const placeInMemory = "where an outcome is kept is hashed as a map does it, so that nobody chooses it; no decision depends on it"

const readsPages = "hostile bytes are read in the agent's process; the files that run outside of it know no HTML"

var exceptions = []exception{
	{"agents/fetch/page.go", "agents/decode", readsPages},
	{"agents/fetch/page.go", readability, readsPages},
	{"agents/mailbox/copier.go", "agents/fetch", "mail is copied in the keeper's process; the files that read it know no network"},
	{"bcp/state/first.go", "hash/maphash", placeInMemory},
	{"agents/process/seccomp_linux.go", "unsafe", filterOfTheKernel},
	{"mesh/gateway/dispatch.go", callSubject, "the dispatcher makes the calls, once it has asked the gate"},
	{"bcp/definition/definition.go", "io/fs", definitionEdge},
	{"bcp/definition/types.go", "time/tzdata", zoneNames},
	{"bcp/definition/types.go", "time.LoadLocation", zoneNames},
	{"bcp/wire/fromgateway.go", "strconv.AppendFloat", returningFraction},
	{"bcp/wire/fromgateway.go", "math.Float64frombits", returningFraction},
	{"bcp/wire/tomsgpack.go", "strconv.ParseFloat", outgoingFraction},
	{"bcp/wire/tomsgpack.go", "math.Float64bits", outgoingFraction},
}

// mustBeCore are the folders, with all below them, whose rules say core (or testSupport).
var mustBeCore = []string{"bcp", "subjects", "jetstream/verify"}

// coreStandard is what core packages may import of the standard library: what computes and does nothing else.
var coreStandard = []string{
	"bufio", "bytes", "cmp", "container/heap", "container/list", "crypto/aes", "crypto/cipher", "crypto/ed25519", "crypto/hmac", "crypto/sha256", "crypto/subtle", "embed", "encoding",
	"encoding/base64", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "hash/crc32", "hash/fnv", "io", "iter", "maps", "math",
	"math/big", "math/bits", "net/netip", "path", "reflect", "regexp", "slices", "sort", "strconv", "strings", "sync", "sync/atomic", "time",
	"unicode", "unicode/utf16", "unicode/utf8",
}

// Names that a package may not touch although it may import what they belong to.
var (
	coreForbidden = map[string][]string{
		"time":    {"After", "AfterFunc", "LoadLocation", "Local", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"},
		"strconv": {"AppendFloat", "FormatFloat", "ParseFloat"},
	}
	libraryForbidden = map[string][]string{
		"fmt": {"Print", "Printf", "Println"},
		"os":  {"Args", "Environ", "Exit", "Getenv", "LookupEnv", "Stderr", "Stdin", "Stdout"},
	}
	// durableWrites are for the one package that does them whole, and for tests.
	durableFolder   = "accounts/disk"
	durableWrites   = map[string][]string{"os": {"CreateTemp", "Rename"}}
	nowhereImported = []string{"log", "log/slog", "unsafe", "plugin"}
	integerLimit    = regexp.MustCompile(`^(Max|Min)(Int|Uint)[0-9]*$`)
)

// shapelessNames say nothing about what a package decides or keeps.
var shapelessNames = []string{"common", "helper", "helpers", "misc", "model", "models", "pkg", "shared", "type", "types", "util", "utils"}

// maxLines is the length that no Go file may reach.
const maxLines = 1000

// Among others: the dispatcher alone publishes calls.
//
// covers KER-29, KER-61
func TestLayering(t *testing.T) {
	t.Parallel()
	report(t, checkLayering(os.DirFS("../.."), rules, exceptions))
}

// layering gathers what is wrong with one tree.
type layering struct {
	rules   map[string]rule
	allowed map[exception]bool // file and what, without the reason: whether it was needed
	defects []string
}

// checkLayering parses every Go file below root and returns one line for each break of the rules.
func checkLayering(root fs.FS, table []rule, allowed []exception) []string {
	l := &layering{rules: map[string]rule{}, allowed: map[exception]bool{}}
	l.checkTable(table)
	for _, e := range allowed {
		if e.reason == "" {
			l.failf("exception for %s (%s): give a reason", e.file, e.what)
		}
		l.allowed[exception{file: e.file, what: e.what}] = false
	}
	found := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".go") {
			if folder := path.Dir(name); !found[folder] {
				found[folder] = true
				l.checkFolder(folder)
			}
			l.checkFile(root, name)
		}
		return nil
	})
	if err != nil {
		l.failf("%v", err)
	}
	for _, r := range table {
		if !found[r.folder] {
			l.failf("the rule for %s has no package: delete it", r.folder)
		}
	}
	for e, needed := range l.allowed {
		if !needed {
			l.failf("the exception for %s (%s) is not needed: delete it", e.file, e.what)
		}
	}
	return l.defects
}

func (l *layering) failf(format string, args ...any) {
	l.defects = append(l.defects, fmt.Sprintf(format, args...))
}

// checkTable judges the rules themselves.
func (l *layering) checkTable(table []rule) {
	for _, r := range table {
		if _, twice := l.rules[r.folder]; twice {
			l.failf("there are two rules for %s: keep one", r.folder)
		}
		l.rules[r.folder] = r
	}
	for _, r := range table {
		for _, folder := range mustBeCore {
			if within(r.folder, folder) && !r.core && !r.testSupport {
				l.failf("the rule for %s must say core: what decides has no effects", r.folder)
			}
		}
		for _, to := range r.internal {
			target, ok := l.rules[to]
			switch {
			case !ok:
				l.failf("the rule for %s allows %s, which has no rule: delete it there or write one", r.folder, to)
			case target.testSupport && !r.testSupport:
				l.failf("the rule for %s allows %s, which is for tests alone: delete it there", r.folder, to)
			case r.core && !target.core:
				l.failf("the rule for %s allows %s, which has effects: a core package imports core packages only", r.folder, to)
			}
		}
	}
}

func (l *layering) checkFolder(folder string) {
	if _, ok := l.rules[folder]; !ok {
		l.failf("%s: no rule: add one to cmd/bcpmesh/layering_test.go", folder)
	}
	for _, part := range strings.Split(folder, "/") {
		if slices.Contains(shapelessNames, part) {
			l.failf("%s: %q says nothing: name the package for what it decides or keeps", folder, part)
		}
		if strings.HasPrefix(part, "_") {
			l.failf("%s: a folder with an underscore hides from the compiler: rename it", folder)
		}
	}
}

func (l *layering) checkFile(root fs.FS, name string) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		l.failf("%v", err)
		return
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		l.failf("%v", err)
		return
	}
	if lines := bytes.Count(source, []byte("\n")); lines >= maxLines && !ast.IsGenerated(file) {
		l.failf("%s: %d lines: split it by noun, below %d", name, lines, maxLines)
	}
	f := &sourceFile{layering: l, name: name, rule: l.rules[path.Dir(name)], files: files, imports: map[string]string{}}
	isTest := strings.HasSuffix(name, "_test.go")
	for _, spec := range file.Imports {
		f.checkImport(spec, isTest)
	}
	if !isTest {
		ast.Inspect(file, f.checkNode)
	}
}

// sourceFile is one file that is being checked.
type sourceFile struct {
	*layering
	name    string
	rule    rule
	files   *token.FileSet
	imports map[string]string // local name to import path
}

func (f *sourceFile) at(node ast.Node) string {
	return fmt.Sprintf("%s:%d", f.name, f.files.Position(node.Pos()).Line)
}

// excepted reports whether this file may do what, and notes that it did.
func (f *sourceFile) excepted(what string) bool {
	e := exception{file: f.name, what: what}
	_, ok := f.allowed[e]
	if ok {
		f.allowed[e] = true
	}
	return ok
}

func (f *sourceFile) checkImport(spec *ast.ImportSpec, isTest bool) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		f.failf("%s: %v", f.at(spec), err)
		return
	}
	local := localName(imported)
	if spec.Name != nil {
		local = spec.Name.Name
	}
	f.imports[local] = imported
	if (imported == natsClient+"/jetstream") != (local == "natsjs") {
		f.failf("%s: %s is imported as %s: natsjs is the name of the upstream package, always and alone", f.at(spec), imported, local)
	}
	if isTest {
		return
	}
	if local == "." {
		f.failf("%s: dot import of %s hides where names come from: give it a name", f.at(spec), imported)
	}
	folder := path.Dir(f.name)
	inModule, isInternal := strings.CutPrefix(imported, modulePath+"/")
	switch {
	case isInternal:
		if !slices.Contains(f.rule.internal, inModule) && !f.excepted(inModule) {
			f.failf("%s: %s may not import %s: move the code to where the import is allowed, or change the rule with a reason", f.at(spec), folder, inModule)
		}
	case isStandard(imported):
		if slices.Contains(nowhereImported, imported) && !f.excepted(imported) {
			f.failf("%s: %s is imported nowhere in this module (logging is hclog)", f.at(spec), imported)
		} else if f.rule.core && !slices.Contains(coreStandard, imported) && !f.excepted(imported) {
			f.failf("%s: core package %s may not import %s: take the value as an argument instead", f.at(spec), folder, imported)
		}
	default:
		f.checkExternal(spec, folder, imported)
	}
}

func (f *sourceFile) checkExternal(spec *ast.ImportSpec, folder, imported string) {
	for module, folders := range onlyIn {
		if within(imported, module) && !slices.Contains(folders, folder) {
			f.failf("%s: only %s imports %s", f.at(spec), strings.Join(folders, ", "), module)
			return
		}
	}
	if !slices.ContainsFunc(f.rule.external, func(allowed string) bool { return allowed == "*" || within(imported, allowed) }) && !f.excepted(imported) {
		f.failf("%s: %s may not import %s: use what its rule allows, or change the rule with a reason", f.at(spec), folder, imported)
	}
}

// callSubject names what a call is published on. Whoever only gives the right to it is in
// package accounts.
const callSubject = modulePath + "/subjects.Call"

// checkNode judges what a file does beyond its imports.
func (f *sourceFile) checkNode(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.ImportSpec:
		return false
	case *ast.BasicLit:
		f.checkLiteral(n)
	case *ast.SelectorExpr:
		f.checkSelector(n)
		ast.Inspect(n.X, f.checkNode)
		return false
	case *ast.GoStmt:
		f.forbidInCore(n, "go", "starts a goroutine")
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			f.forbidInCore(n, "init", "has an init function")
		}
	case *ast.Ident:
		switch n.Name {
		case "float32", "float64", "complex64", "complex128":
			f.forbidInCore(n, n.Name, "uses "+n.Name)
		}
	case *ast.CallExpr:
		if called, ok := n.Fun.(*ast.Ident); ok && (called.Name == "print" || called.Name == "println") {
			f.failf("%s: %s writes to stderr: log through hclog, or return a value", f.at(n), called.Name)
		}
	}
	return true
}

func (f *sourceFile) forbidInCore(node ast.Node, what, does string) {
	if f.rule.core && !f.excepted(what) {
		f.failf("%s: core package %s %s: a core package has no clock, goroutine, init or float", f.at(node), path.Dir(f.name), does)
	}
}

func (f *sourceFile) checkLiteral(literal *ast.BasicLit) {
	if literal.Kind == token.FLOAT || literal.Kind == token.IMAG {
		f.forbidInCore(literal, literal.Value, "has the float literal "+literal.Value)
	}
	if literal.Kind != token.STRING {
		return
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		f.failf("%s: %v", f.at(literal), err)
		return
	}
	folder := path.Dir(f.name)
	if strings.Contains(text, "bcp.v1") && folder != "subjects" && !f.rule.foreign {
		f.failf("%s: a subject literal: build and parse subjects in package subjects", f.at(literal))
	}
	if strings.Contains(text, "BCP_") && folder != "subjects" && !within(folder, "jetstream") && !f.rule.foreign {
		f.failf("%s: a stream literal: name streams in package jetstream", f.at(literal))
	}
}

func (f *sourceFile) checkSelector(selector *ast.SelectorExpr) {
	qualifier, ok := selector.X.(*ast.Ident)
	if !ok {
		return
	}
	imported, name := f.imports[qualifier.Name], selector.Sel.Name
	if imported == "" {
		return
	}
	qualified := imported + "." + name
	if slices.Contains(coreForbidden[imported], name) || imported == "math" && !integerLimit.MatchString(name) {
		f.forbidInCore(selector, qualified, "uses "+qualified)
	}
	if qualified == callSubject && f.rule.folder != "accounts" && !f.excepted(qualified) {
		f.failf("%s: only mesh/gateway/dispatch.go calls tools: have it make the call", f.at(selector))
	}
	if !f.rule.testSupport && f.rule.folder != durableFolder && slices.Contains(durableWrites[imported], name) {
		f.failf("%s: %s leaves half of a file after a crash, or none: write it with %s", f.at(selector), qualified, durableFolder)
	}
	if !f.rule.program && !f.rule.testSupport && slices.Contains(libraryForbidden[imported], name) {
		f.failf("%s: %s in a library: only a program prints, exits and reads its environment; pass the value in", f.at(selector), qualified)
	}
}

// within reports whether name is parent or lies below it.
func within(name, parent string) bool { return name == parent || strings.HasPrefix(name, parent+"/") }

// isStandard reports whether a path belongs to the standard library: its first part has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// localName is the name under which a file knows an import that it does not rename: the last part of the path, without
// its major version. It is a guess that holds for the standard library, where it matters.
func localName(imported string) string {
	name := path.Base(imported)
	if majorVersion.MatchString(name) {
		name = path.Base(path.Dir(imported))
	}
	return name
}
