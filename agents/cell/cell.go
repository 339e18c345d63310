package cell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/agents/mailbox"
	"github.com/bcpmesh/bcpmesh/agents/stdio"
	"github.com/bcpmesh/bcpmesh/agents/tool"
	"github.com/bcpmesh/bcpmesh/bcp"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// maxLine bounds a line of the keeper, in bytes: a page of 8 MiB in base64, and the
// text around it.
const maxLine = 12 << 20

// Configuration is a keeper's first message to its cell. It contains no secret.
type Configuration struct {
	Agent bcp.AgentName `json:"agent"`
	Role  bcp.Role      `json:"role"` // a Reader or a Controller
	// Task is the task for which a Controller is started. Then it handles nothing else.
	Task         string    `json:"task,omitzero"`
	Instructions string    `json:"instructions"` // the body of the definition
	Model        string    `json:"model"`
	Tools        []string  `json:"tools"`             // names of [Tools], and of MCP
	MCP          []MCPTool `json:"mcp,omitempty"`     // tools of MCP servers, which the keeper calls
	Files        []string  `json:"files,omitempty"`   // folders of the tool files
	Mailbox      string    `json:"mailbox,omitempty"` // of the tool mailbox
	MaxTurns     int       `json:"max_turns"`         // of the model in a conversation
	MaxTokens    int       `json:"max_tokens"`        // of a turn
	// Confined says that the cell must be confined.
	Confined bool `json:"confined,omitzero"`
}

// MCPTool is a tool of an MCP server, in the operator's words.
type MCPTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"schema"`
}

// Cell is one agent. Its handlers may be called concurrently.
type Cell struct {
	door       *stdio.Client
	configured chan struct{} // closed when config is there
	config     Configuration
	files      folders      // nil without the tool files
	mailbox    *mailbox.Box // nil without the tool mailbox

	mu            sync.Mutex
	subscriptions []bcp.ActiveSubscription
}

// Run serves a keeper over these streams until the keeper closes them. confine, unless it
// is nil, drops the privileges that the cell does not need, before it reads anything
// except its configuration: if it fails, nothing else is read.
func Run(ctx context.Context, in io.Reader, out io.Writer, confine func(Configuration) error) error {
	c := &Cell{configured: make(chan struct{})}
	c.door = stdio.NewClient(out, map[string]stdio.Method{
		"query": c.query, "prompt": c.prompt, "delivery": c.delivery, "subscriptions": c.subscribed,
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.door.Run(ctx, in, maxLine) }()
	if err := c.door.Call(ctx, "configuration", nil, &c.config); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	if confine != nil {
		if err := confine(c.config); err != nil {
			return fmt.Errorf("cell: %w", err)
		}
	}
	defer c.close()
	if err := c.open(); err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	close(c.configured)
	var working sync.WaitGroup
	if c.config.Task != "" {
		working.Go(func() { c.task(ctx) })
	}
	err := <-ended
	cancel()
	working.Wait()
	return err
}

// open opens the sources of the tools, once the cell is confined.
func (c *Cell) open() (err error) {
	if slices.Contains(c.config.Tools, filesName) {
		if c.files, err = openFolders(c.config.Files); err != nil {
			return err
		}
	}
	if slices.Contains(c.config.Tools, mailbox.Name) {
		c.mailbox, err = mailbox.OpenBox(c.config.Mailbox)
	}
	return err
}

func (c *Cell) close() {
	_ = c.files.Close() // nothing was written
	if c.mailbox != nil {
		_ = c.mailbox.Close()
	}
}

// query answers one query.
func (c *Cell) query(ctx context.Context, params jsontext.Value) (any, error) {
	var q struct {
		bcp.Query  `json:",inline"`
		LastDetail string `json:"last_detail"`
	}
	if err := json.Unmarshal(params, &q); err != nil {
		return nil, errors.New("the query is not understood")
	}
	return c.converse(ctx, func(t *talk) (any, error) { return t.answer(ctx, q.Spec, q.LastDetail) })
}

// prompt has the model act on a message of the agent's schedule.
func (c *Cell) prompt(ctx context.Context, params jsontext.Value) (any, error) {
	var p bcp.Prompt
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, errors.New("the prompt is not understood")
	}
	return c.converse(ctx, func(t *talk) (any, error) {
		if c.config.Role != bcp.RoleController {
			return struct{}{}, t.act(ctx, p.Message)
		}
		_, err := t.work(ctx, llm.FromOperator(p.Message))
		return struct{}{}, err
	})
}

func (c *Cell) subscribed(_ context.Context, params jsontext.Value) (any, error) {
	var list struct {
		Subscriptions []bcp.ActiveSubscription `json:"subscriptions"`
	}
	if err := json.Unmarshal(params, &list); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscriptions = list.Subscriptions
	return nil, nil
}

// TaskConversation is the name of the conversation about a task. Any other is named by
// the id of the keeper's call that began it.
const TaskConversation = "task"

// talk is one conversation.
type talk struct {
	cell  *Cell
	id    string
	again int       // calls that were made again
	ends  time.Time // no call is made again then
}

// converse begins a conversation and ends it.
func (c *Cell) converse(ctx context.Context, do func(*talk) (any, error)) (any, error) {
	if err := c.wait(ctx); err != nil {
		return nil, err
	}
	t := &talk{cell: c, id: cmp.Or(stdio.CallID(ctx), TaskConversation), ends: time.Now().Add(lasts)}
	defer func() {
		if ctx.Err() == nil { // or the keeper is gone
			_ = c.door.Call(ctx, "end", Params{Conversation: t.id}, new(struct{}))
		}
	}()
	return do(t)
}

// tell tells the keeper what a tool reads.
func (t *talk) tell(ctx context.Context, call, input string) bool {
	var answer struct {
		Aside bool `json:"aside"`
	}
	err := t.cell.door.Call(ctx, "reading", Reading{Call: call, Input: input}, &answer)
	return err == nil && answer.Aside
}

// Reading says which input a call of a tool reads, none at its end.
type Reading struct {
	Call  string `json:"call"`
	Input string `json:"input,omitzero"`
}

// wait returns once the cell has its configuration.
func (c *Cell) wait(ctx context.Context) error {
	select {
	case <-c.configured:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Params are those of the keeper's methods.
type Params struct {
	Conversation string         `json:"conversation"`
	Request      jsontext.Value `json:"request,omitzero"`
	Ask          fetch.Ask      `json:"ask,omitzero"`
	Call         tool.Call      `json:"call,omitzero"`
}

const (
	// callsAgain is how often a conversation calls a model again whose provider has failed, and
	// lasts is for how long: a query expires after 15 minutes. The pause doubles.
	callsAgain = 10
	lasts      = 15 * time.Minute
	firstPause = 2 * time.Second
	longPause  = 2 * time.Minute
)

// Do implements [llm.Provider]. A call that failed for lack of capacity, or because the
// provider could not be understood, is made again: the conversation goes on when the provider
// is back, and what it has cost is not lost.
func (t *talk) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	request, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		reply, err := t.call(ctx, request)
		if !llm.MayPass(err) || t.again == callsAgain || time.Now().Add(pause).After(t.ends) {
			return reply, err
		}
		t.again++
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// call has the keeper make one call.
func (t *talk) call(ctx context.Context, request jsontext.Value) (*llm.Reply, error) {
	var reply jsontext.Value
	err := t.cell.door.Call(ctx, "model", Params{Conversation: t.id, Request: request}, &reply)
	if refused, ok := errors.AsType[*stdio.CallError](err); ok {
		return nil, llm.ErrorOf(refused.Code)
	}
	if err != nil {
		return nil, err
	}
	return llm.ParseReply(reply)
}

// Fetch implements [fetch.Fetcher].
func (t *talk) Fetch(ctx context.Context, a fetch.Ask) (fetch.Served, error) {
	var fetched fetch.Fetched
	if err := t.cell.door.Call(ctx, "fetch", Params{Conversation: t.id, Ask: a}, &fetched); err != nil {
		return fetch.Served{}, guard.ConnectFailed
	}
	return fetched.Served()
}

// conversation returns the common part of all conversations.
func (t *talk) conversation() llm.Conversation {
	config := &t.cell.config
	c := llm.Conversation{
		Model:    llm.Endpoint{Provider: t, Model: config.Model, MaxTokens: config.MaxTokens},
		System:   []llm.Part{llm.Constant(guidance)},
		MaxTurns: config.MaxTurns,
	}
	if config.Instructions != "" {
		c.System = append(c.System, llm.FromOperator(config.Instructions))
	}
	if slices.Contains(config.Tools, fetch.ToolName) {
		c.Tools = append(c.Tools, fetch.NewTool(t))
	}
	if t.cell.files != nil {
		c.Tools = append(c.Tools, t.cell.files.Tools()...)
	}
	if t.cell.mailbox != nil {
		c.Tools = append(c.Tools, t.cell.mailbox.Tools()...)
	}
	for i, of := range c.Tools {
		c.Tools[i].Run = func(ctx context.Context, arguments jsontext.Value) llm.Output {
			return of.Run(tool.WithTell(ctx, t.tell), arguments)
		}
	}
	for _, of := range config.MCP {
		c.Tools = append(c.Tools, t.mcp(of))
	}
	return c
}

// mcp is a tool of an MCP server. The keeper checks its arguments and calls it;
// everything from a server is content.
func (t *talk) mcp(of MCPTool) llm.Executable {
	return llm.Executable{
		Tool: llm.Tool{Name: of.Name, Description: llm.FromOperator(of.Description), Schema: of.Schema},
		Run: func(ctx context.Context, arguments jsontext.Value) llm.Output {
			if !arguments.IsValid() { // it has no way over the door
				return tool.BadArguments.Output()
			}
			var r tool.Result
			if err := t.cell.door.Call(ctx, "mcp", Params{Conversation: t.id, Call: tool.Call{Tool: of.Name, Arguments: arguments}}, &r); err != nil {
				return tool.Unavailable.Output()
			}
			if r.Failure != "" {
				return r.Failure.Output()
			}
			text, parts, err := tool.NewText(r.Text).Part(1)
			if err != nil || parts > 1 {
				return tool.TooLarge.Output()
			}
			return llm.Output{Untrusted: text, Source: guard.MCP, Failed: r.Failed}
		},
	}
}
