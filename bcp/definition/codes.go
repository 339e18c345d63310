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
	{Code: CodeUnreadable, Error: true, Doc: "The file or the folder cannot be read."},
	{Code: CodeTooLarge, Error: true, Doc: "A file, or all files together, are larger than definitions may be."},
	{Code: CodeTooMany, Error: true, Warning: true, Doc: "There are too many files, keys, words, blank lines or problems; the rest is not checked."},
	{Code: CodeTooDeep, Error: true, Doc: "Lists and mappings nest deeper than any key needs."},
	{Code: CodeEncoding, Error: true, Doc: "The file is not UTF-8, or holds a byte order mark or control characters."},
	{Code: CodeFrontMatter, Error: true, Doc: "An agent's file does not begin with YAML between two lines `---`."},
	{Code: CodeSyntax, Error: true, Doc: "This is not YAML, or its indentation can be read in two ways."},
	{Code: CodeForbiddenYAML, Error: true, Doc: "Definitions must not use this part of YAML: anchors, aliases, merge keys, tags, directives, tabs, several documents."},
	{Code: CodeNull, Error: true, Doc: "The key has no value: leave it out to get its default."},
	{Code: CodeUnknownKey, Error: true, Doc: "There is no such key here; the message names the one that may have been meant."},
	{Code: CodeDuplicateKey, Error: true, Doc: "The key appears twice."},
	{Code: CodeMissingKey, Error: true, Doc: "A required key is missing."},
	{Code: CodeControllerOnly, Error: true, Doc: "Only the controller's entry of a channel may have the key."},
	{Code: CodeWrongType, Error: true, Doc: "The value is of another type, such as text for a number."},
	{Code: CodeOutOfRange, Error: true, Doc: "A number, a length or a count is too small or too large."},
	{Code: CodeBadValue, Error: true, Doc: "The value has the right type but the wrong form."},
	{Code: CodeUnknownWord, Error: true, Doc: "The word is not one of a closed list."},
	{Code: CodeDuplicate, Error: true, Doc: "A name, id, entry or word appears twice."},
	{Code: CodeNoAgents, Error: true, Doc: "The folder has no agent."},
	{Code: CodePersonIsAgent, Error: true, Doc: "An approver or auditor has the name of an agent; people are never agents."},
	{Code: CodeUnknownPerson, Error: true, Doc: "A channel names an approver whom the mesh does not name."},
	{Code: CodeUnknownList, Error: true, Doc: "A channel names a word list that mesh.yaml does not have."},
	{Code: CodeSelfChannel, Error: true, Doc: "An agent declares a channel to itself."},
	{Code: CodeNoCounterpart, Error: true, Warning: true, Doc: "The other end does not declare the channel, so it does not exist; an error if subscriptions depend on it."},
	{Code: CodeReaderPushes, Error: true, Doc: "A reader's entry declares subscriptions, which only the controller may."},
	{Code: CodeAboveCategory, Error: true, Doc: "The subscription's category is above the channel's max_category."},
	{Code: CodeInvalidSpec, Error: true, Doc: "The subscription's fields, questions, directive or constraints do not make a spec."},
	{Code: CodeReleaseInterval, Error: true, Doc: "A capacity budget needs a release_interval; a batch_window is a multiple of it."},
	{Code: CodeKernel, Error: true, Warning: true, Doc: "A kernel, a rule or a tool is not what a kernel can have, such as a rule that does not hold for its own example."},
	{Code: CodeRole, Error: true, Doc: "An agent cannot be what its execution entry or a kernel says, such as a planner with a channel."},
	{Code: CodeContract, Error: true, Doc: "A file in contracts is no contract or has the name of a built-in one, or an entry names one that is missing or of another role."},
	{Code: CodeTrust, Error: true, Doc: "An entry of trust has no public ed25519 key or the mesh's own organisation, or a role requirement is invalid or missing."},
	{Code: CodeWitness, Error: true, Doc: "The mesh says require_witness and needs a cluster, where no gateway waits for cosignatures."},
	{Code: CodeCommandUser, Error: true, Doc: "The agent's command would run as the user of the mesh, and the definition does not accept that."},
	{Code: CodeNoCommand, Error: true, Doc: "The agent's command cannot be started here; a start of the mesh only warns of it."},
	{Code: CodeSandbox, Error: true, Doc: "The command cannot be confined as the definition says: it has two roles, or would read the keys of the mesh."},
	{Code: CodeNoFile, Error: true, Doc: "A file for a tool of the agent cannot be read here; a start of the mesh only warns of it."},
	{Code: CodeNoModel, Error: true, Doc: "The agent's model cannot be called from here; a start of the mesh only warns of it."},
	{Code: CodeNoPrice, Error: true, Doc: "The agent has a `cost_budget`, and neither `mesh.yaml` nor the list of prices says what its model costs."},
	{Code: CodeSecret, Error: true, Doc: "The file has a secret, such as a private key; the message names only its kind."},
	{Code: CodeIgnoredFile, Warning: true, Doc: "The file is not read: definitions are in other places."},
	{Code: CodeFileName, Warning: true, Doc: "The names of the file and of its agent differ, so people will look for the agent in another file."},
	{Code: CodeOneProgram, Warning: true, Doc: "A planner and a processor are started by the same command."},
	{Code: CodeOverBudget, Warning: true, Doc: "One push costs more than the budget: no push can ever be accepted."},
	{Code: CodeWindowOff, Warning: true, Doc: "The sliding window is off, so every new epoch refills the budget."},
	{Code: CodeCategory3, Warning: true, Doc: "Every push of the subscription waits for a person, who must have the time for it."},
	{Code: CodeNoApprovers, Warning: true, Doc: "Something can wait for a person, and nobody can decide: held items expire."},
	{Code: CodeCapacity, Warning: true, Doc: "A push can carry more than four times the bits that the budget counts for it; narrower answers carry less."},
	{Code: CodeNoSubscription, Warning: true, Doc: "The agent has the tool BCPPublish, but no subscription lets it publish."},
	{Code: CodeCannotPublish, Warning: true, Doc: "A subscription names the agent, but its tools lack BCPPublish."},
	{Code: CodeNoEffect, Warning: true, Doc: "The value has no effect, such as a limit above another that holds anyway."},
	{Code: CodeConstant, Warning: true, Doc: "All answers are the same: a push tells only its time, and costs 1 bit."},
	{Code: CodeTotalParts, Warning: true, Doc: "The push budgets of an agent's channels add up to more than half of its total budget, so each gets a part."},
	{Code: CodeSecretLike, Warning: true, Doc: "The value of an assignment, or a token in a header, may be a secret."},

	{Code: CodeCombinedBudgets, Warning: true, Doc: "A clean agent is reached by several tainted channels, whose bits add up."},
	{Code: CodeLoop, Warning: true, Doc: "A chain of channels leads back to an agent."},
	{Code: CodeArgumentsOut, Warning: true, Doc: "Arguments of a Controller with private data go to a Reader with a network: they may leave the mesh."},
	{Code: CodeLethalTrifecta, Error: true, Warning: true, Doc: "One agent has private data, untrusted input and a way out; an error if the mesh runs it or lists hosts for it, unless `egress_budget_bits` is written."},
	{Code: CodeSharedDisk, Warning: true, Doc: "A tainted agent can write files that a clean one can read."},
	{Code: CodeChain, Warning: true, Doc: "The words of a tainted agent can reach an agent inside another's answers, without a budget of their own."},

	{Code: CodeAdviceMaxCategory, Warning: true, Doc: "Nothing on the channel can use its `max_category`: no subscription has it, and the controller has no tool to ask."},
	{Code: CodeAdviceShare, Warning: true, Doc: "At least half of the subscriptions are summaries, which are for rare needs."},
	{Code: CodeAdviceMentions, Warning: true, Doc: "No rule of the kernel asks whether a critical argument stands in the requester's own words."},
	{Code: CodeAdviceBudget, Warning: true, Doc: "Each single push fits the budget, but one of each does not."},
	{Code: CodeAdviceWide, Warning: true, Doc: "A Controller that acts on the world hears answers without a `capacity_budget_bits`, or a text of one word could be a choice."},
}
