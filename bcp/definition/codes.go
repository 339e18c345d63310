package definition

import "slices"

// CodeDoc says what a code of a [Problem] means. A code is an error, a
// warning, or either.
type CodeDoc struct {
	Code           string
	Error, Warning bool
	// Doc is one sentence.
	Doc string
}

// Codes returns every code that a [Report] may hold, errors first, in the
// order of the Code constants.
func Codes() []CodeDoc { return slices.Clone(codeDocs) }

var codeDocs = []CodeDoc{
	{Code: CodeUnreadable, Error: true, Doc: "The file system does not let the file or the folder be read."},
	{Code: CodeTooLarge, Error: true, Doc: "A file, or all files together, are larger than definitions may be."},
	{Code: CodeTooMany, Error: true, Warning: true, Doc: "There are more files, keys, words, blank lines or problems than are looked at."},
	{Code: CodeTooDeep, Error: true, Doc: "Lists and mappings nest deeper than any key needs."},
	{Code: CodeEncoding, Error: true, Doc: "The file is not UTF-8, or holds a byte order mark or control characters."},
	{Code: CodeFrontMatter, Error: true, Doc: "An agent's file does not begin with YAML between two lines `---`."},
	{Code: CodeSyntax, Error: true, Doc: "This is not YAML, or its indentation can be read in two ways."},
	{Code: CodeForbiddenYAML, Error: true, Doc: "This is YAML that definitions do without: anchors, aliases, merge keys, tags, directives, tabs, several documents."},
	{Code: CodeNull, Error: true, Doc: "The key has no value: leave it out to get its default."},
	{Code: CodeUnknownKey, Error: true, Doc: "There is no such key here; the message names the one that may have been meant."},
	{Code: CodeDuplicateKey, Error: true, Doc: "The key is there twice."},
	{Code: CodeMissingKey, Error: true, Doc: "A required key is not there."},
	{Code: CodeControllerOnly, Error: true, Doc: "Only the controller's entry of a channel may have the key."},
	{Code: CodeWrongType, Error: true, Doc: "The value is of another type, such as text for a number."},
	{Code: CodeOutOfRange, Error: true, Doc: "A number, a length or a count is too small or too great."},
	{Code: CodeBadValue, Error: true, Doc: "The value is of the right type and has the wrong form."},
	{Code: CodeUnknownWord, Error: true, Doc: "The word is not one of a closed list."},
	{Code: CodeDuplicate, Error: true, Doc: "A name, id, entry or word is there twice."},
	{Code: CodeNoAgents, Error: true, Doc: "The folder has no agent."},
	{Code: CodePersonIsAgent, Error: true, Doc: "An approver or auditor has the name of an agent; people are never agents."},
	{Code: CodeUnknownPerson, Error: true, Doc: "A channel names an approver whom the mesh does not name."},
	{Code: CodeUnknownList, Error: true, Doc: "A channel names a word list that mesh.yaml does not have."},
	{Code: CodeSelfChannel, Error: true, Doc: "An agent declares a channel to itself."},
	{Code: CodeNoCounterpart, Error: true, Warning: true, Doc: "The other end does not declare the channel, so there is none; an error if subscriptions depend on it."},
	{Code: CodeReaderPushes, Error: true, Doc: "A reader's entry declares subscriptions, which only the controller may."},
	{Code: CodeAboveCategory, Error: true, Doc: "The subscription's category is above the channel's max_category."},
	{Code: CodeInvalidSpec, Error: true, Doc: "The subscription's fields, questions, directive or constraints do not make a spec."},
	{Code: CodeReleaseInterval, Error: true, Doc: "A capacity budget needs a release_interval, without which the timing of answers carries uncounted bits; a batch_window is a multiple of it."},
	{Code: CodeKernel, Error: true, Doc: "A kernel, one of its rules or one of the tools is not what a kernel can have, such as a tool that writes without a capability, or a rule that does not hold for its own example."},
	{Code: CodeRole, Error: true, Doc: "An agent cannot be what its execution entry or a kernel says, such as a planner with a channel, a processor with tools, or two roles."},
	{Code: CodeContract, Error: true, Doc: "A file in contracts is no contract, has the name of a built-in one, or an execution entry names a contract that is not there or is another role's."},
	{Code: CodeTrust, Error: true, Doc: "An entry of trust has no public ed25519 key, its organisation is the mesh's own, a role requirement is not one, or one that is required is not there."},
	{Code: CodeShard, Error: true, Doc: "A channel leads from one shard to another, or a shard between others has no agent."},
	{Code: CodeWitness, Error: true, Doc: "The mesh says require_witness and needs a cluster, by replicas or shards: there, checkpoints are signed and cosigned by bcpmesh audit checkpoint, and no gateway waits for them."},
	{Code: CodeCommandUser, Error: true, Doc: "The agent's command would run as the user of the mesh, who can read its keys and its journal, and the definition does not accept that."},
	{Code: CodeNoCommand, Error: true, Doc: "The agent's command cannot be started here, because there is no such program, it is not executable, or this machine has no sandbox for it; a start of the mesh only warns of it."},
	{Code: CodeSandbox, Error: true, Doc: "The agent's command cannot be confined as the definition says: it has two roles, or would read the keys of the mesh."},
	{Code: CodeNoFile, Error: true, Doc: "What a tool of the agent reads cannot be read here, such as because it is not there; a start of the mesh only warns of it."},
	{Code: CodeNoModel, Error: true, Doc: "The agent's model cannot be called from here, such as because its key is not there; a start of the mesh only warns of it."},
	{Code: CodeNoPrice, Error: true, Doc: "The agent has a `cost_budget`, and neither `mesh.yaml` nor the list of prices says what its model costs."},
	{Code: CodeSecret, Error: true, Doc: "The file has a secret, such as a private key, the token of a vendor or a password in a URL; the message names its kind alone."},
	{Code: CodeIgnoredFile, Warning: true, Doc: "The file is not read: it is not where definitions are."},
	{Code: CodeFileName, Warning: true, Doc: "The file has another name than its agent, so that people will look for the agent elsewhere."},
	{Code: CodeOneProgram, Warning: true, Doc: "A planner and a processor are started by one command, so that one program may read the task and the content."},
	{Code: CodeOverBudget, Warning: true, Doc: "One push costs more than its budget: none can ever be accepted."},
	{Code: CodeWindowOff, Warning: true, Doc: "The sliding window is off, so that a new epoch is all it takes to fill the budget again."},
	{Code: CodeCategory3, Warning: true, Doc: "Every push of the subscription waits for a person, who must have the time for it."},
	{Code: CodeNoApprovers, Warning: true, Doc: "The channel allows category 3, or calls of the kernel can wait for a person, and nobody can decide: what is held expires."},
	{Code: CodeCapacity, Warning: true, Doc: "A push can carry more than four times the bits that the budget counts for it; narrower answers carry less."},
	{Code: CodeNoSubscription, Warning: true, Doc: "The agent has the tool BCPPublish, and no subscription lets it publish."},
	{Code: CodeCannotPublish, Warning: true, Doc: "A subscription names the agent, and its tools lack BCPPublish."},
	{Code: CodeNoEffect, Warning: true, Doc: "The value changes nothing, such as a limit above the one that holds anyway."},
	{Code: CodeConstant, Warning: true, Doc: "All answers are the same, so that a push tells only when it came and of which subscription it is, and costs 1 bit."},
	{Code: CodeTotalParts, Warning: true, Doc: "The push budgets of an agent's channels come to more than half of its total budget, so that each gets a part of that half."},
	{Code: CodeSecretLike, Warning: true, Doc: "The value of an assignment, or a token in a header, may be a secret."},

	{Code: CodeCombinedBudgets, Warning: true, Doc: "A clean agent is reached by several tainted channels, whose bits add up although each has its own budget."},
	{Code: CodeLoop, Warning: true, Doc: "A chain of channels returns to an agent, so that what it said can come back to it as somebody else's word."},
	{Code: CodeArgumentsOut, Warning: true, Doc: "Arguments of a Controller with private data go to a Reader with a network: what they say may leave the mesh."},
	{Code: CodeLethalTrifecta, Error: true, Warning: true, Doc: "One agent has private data, untrusted input and a way out, so that whoever writes the input can fetch the data; an error if the mesh runs the agent or lists hosts for it, unless `egress_budget_bits` is written."},
	{Code: CodeSharedDisk, Warning: true, Doc: "A tainted agent can write files that a clean one can read, which is a way around the gateway."},
	{Code: CodeChain, Warning: true, Doc: "What a tainted agent says can reach an agent inside the answers of another, and no budget of its own counts it."},

	{Code: CodeAdviceCategory1, Warning: true, Doc: "All possible answers are known in advance, so that category 1 will do."},
	{Code: CodeAdviceCategory2, Warning: true, Doc: "A summary is asked for specific facts, each of which a question of category 2 can ask for."},
	{Code: CodeAdviceFormat, Warning: true, Doc: "A question asks for what has a format of its own, and lets through any text."},
	{Code: CodeAdviceBounds, Warning: true, Doc: "A question names the bounds of its number, and its `min` and `max` do not."},
	{Code: CodeAdviceMaxWords, Warning: true, Doc: "A question pays for more words than an answer of its format can have."},
	{Code: CodeAdviceAlphabet, Warning: true, Doc: "Texts may be in any script, so that a push can carry far more than its price; an explicit `alphabet: any` says that this is meant."},
	{Code: CodeAdviceMaxChars, Warning: true, Doc: "Names may be of any length, so that a push can carry far more than its price."},
	{Code: CodeAdviceMaxCategory, Warning: true, Doc: "Nothing on the channel can use its `max_category`: no subscription has it, and the controller has no tool to ask."},
	{Code: CodeAdviceShare, Warning: true, Doc: "Half of the subscriptions or more are summaries, which are for the rare need that no question can put."},
	{Code: CodeAdviceBudget, Warning: true, Doc: "Each push fits the budget and one of each does not, so that in no epoch all subscriptions come through."},
}
