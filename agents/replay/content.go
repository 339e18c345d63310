package replay

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/cell"
	"github.com/bcpmesh/bcpmesh/agents/fetch"
	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/guard"
)

// The calls of a cell besides those of its model.
const (
	fetchCall    = "fetch"
	readCall     = "read" // only in a replay
	toolCall     = "mcp"
	channelsCall = "channels"
	askCall      = "ask_and_wait"
	pushCall     = "push"
)

// content is the recorded outside content of a conversation, for a model that may
// request it in another order.
type content struct {
	pages    map[string]fetch.Fetched // by requested canonical URL
	served   []fetch.Fetched          // to the other model: page n is the nth
	readings map[cell.Read]llm.Result // of tools that read files or mail
	calls    map[string]*Line         // by digest; of channels the newest
}

func collectContent(c *Conversation) *content {
	k := &content{pages: map[string]fetch.Fetched{}, readings: map[cell.Read]llm.Result{}, calls: map[string]*Line{}}
	recorded := map[int]fetch.Fetched{} // by page
	for i := range c.Calls {
		l := &c.Calls[i]
		switch l.Kind {
		case fetchCall:
			var ask fetch.Ask
			var fetched fetch.Fetched
			if member(l.Request, "ask", &ask) != nil || l.Response == nil || json.Unmarshal(l.Response, &fetched) != nil {
				continue
			}
			if url := resolveURL(ask, recorded[ask.Page]); url != "" {
				k.pages[url] = fetched
			}
			if fetched.Error == "" {
				recorded[fetched.Page] = fetched
			}
		case Model:
			calls, results := c.after(i + 1)
			for j, call := range calls {
				if j < len(results) {
					k.readings[cell.Read{Tool: call.Name, Arguments: string(call.Arguments)}] = results[j]
				}
			}
		default:
			k.calls[l.Kind+" "+l.Digest] = l
		}
	}
	return k
}

// resolveURL returns the requested canonical URL, which may be a link of page; empty if
// it is invalid.
func resolveURL(ask fetch.Ask, page fetch.Fetched) string {
	var target guard.Target
	var err error
	if ask.URL != "" {
		target, err = guard.ParseTarget(ask.URL)
	} else {
		var base guard.Target
		if base, err = guard.ParseTarget(page.URL); err != nil || ask.Start < 0 || ask.End <= ask.Start || ask.End > len(page.Bytes) {
			return ""
		}
		target, err = fetch.ResolveLink(base, page.Bytes[ask.Start:ask.End])
	}
	if err != nil {
		return ""
	}
	return target.String()
}

func (k *content) fetch(request jsontext.Value) (any, error) {
	var ask fetch.Ask
	if member(request, "ask", &ask) != nil {
		return nil, errNothing
	}
	var page fetch.Fetched
	if ask.Page >= 1 && ask.Page <= len(k.served) {
		page = k.served[ask.Page-1]
	}
	fetched, there := k.pages[resolveURL(ask, page)]
	if !there {
		return nil, errNothing
	}
	if fetched.Error == "" {
		fetched.Page = len(k.served) + 1
		k.served = append(k.served, fetched)
	}
	return fetched, nil
}

func (k *content) read(request jsontext.Value) (any, error) {
	var r cell.Read
	if member(request, "read", &r) != nil {
		return nil, errNothing
	}
	result, there := k.readings[r]
	if !there {
		return nil, errNothing
	}
	return parseReading(result)
}

// call answers requests to the gateway, from equal recorded calls only.
func (k *content) call(asked *Line) (any, error) {
	if l := k.calls[asked.Kind+" "+asked.Digest]; l != nil {
		return outcome(l)
	}
	return nil, errNothing
}
