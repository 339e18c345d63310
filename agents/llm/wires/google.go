package wires

import (
	"bytes"
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// google is the wire of streamGenerateContent.
type google struct{ client }

type googlePart struct {
	Text     string          `json:"text,omitzero"`
	Thought  bool            `json:"thought,omitzero"`
	Call     *googleCall     `json:"functionCall,omitzero"`
	Response *googleResponse `json:"functionResponse,omitzero"`
	// Signature must be sent back with a call. It is part of the call's ID, which
	// nobody else reads.
	Signature string `json:"thoughtSignature,omitzero"`
}

type googleCall struct {
	Name string         `json:"name"`
	Args jsontext.Value `json:"args,omitzero"`
}

type googleResponse struct {
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type googleContent struct {
	Role  string       `json:"role,omitzero"`
	Parts []googlePart `json:"parts"`
}

type googleFunction struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parametersJsonSchema,omitzero"`
}

type googleTools struct {
	Functions []googleFunction `json:"functionDeclarations"`
}

type googleChoice struct {
	Calling struct {
		Mode    string   `json:"mode"`
		Allowed []string `json:"allowedFunctionNames"`
	} `json:"functionCallingConfig"`
}

type googleRequest struct {
	System     *googleContent  `json:"systemInstruction,omitzero"`
	Contents   []googleContent `json:"contents"`
	Tools      []googleTools   `json:"tools,omitempty"`
	Config     *googleChoice   `json:"toolConfig,omitzero"`
	Generation struct {
		MaxTokens int `json:"maxOutputTokens,omitzero"`
	} `json:"generationConfig"`
}

type googleReply struct {
	Candidates []struct {
		Content      googleContent `json:"content"`
		FinishReason string        `json:"finishReason"`
	} `json:"candidates"`
	Feedback *struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Usage *struct {
		Prompt     number `json:"promptTokenCount"`
		Candidates number `json:"candidatesTokenCount"`
		Thoughts   number `json:"thoughtsTokenCount"`
		Cached     number `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

// Do implements [llm.Provider].
func (w *google) Do(ctx context.Context, r *llm.Request) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	var request googleRequest
	if len(r.System) > 0 {
		request.System = &googleContent{Parts: []googlePart{{Text: joinText(r.System)}}}
	}
	request.Contents = googleContents(r.Turns)
	if len(r.Tools) > 0 {
		var tools googleTools
		for _, t := range r.Tools {
			tools.Functions = append(tools.Functions, googleFunction{t.Name, t.Description.Text(), t.Schema})
		}
		request.Tools = []googleTools{tools}
	}
	if r.Force != "" {
		request.Config = &googleChoice{}
		request.Config.Calling.Mode, request.Config.Calling.Allowed = "ANY", []string{r.Force}
	}
	request.Generation.MaxTokens = r.MaxTokens
	got := &googleReading{}
	if err := w.post(ctx, "/v1beta/models/"+url.PathEscape(r.Model)+":streamGenerateContent?alt=sse", map[string]string{"x-goog-api-key": w.key}, request, got); err != nil {
		return nil, err
	}
	switch got.finish {
	case "STOP", "MAX_TOKENS":
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL": // the model is asked to call one of ours
	case "OTHER":
		return nil, llm.Protocol{What: "the reply ended for no reason"}
	default: // SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII, …
		return nil, llm.Filtered{Usage: got.usage}
	}
	return got.end(got.finish == "MAX_TOKENS")
}

// blocked is the reason in a reply to a blocked prompt.
const blocked = "BLOCKED"

// googleReading reads a reply of generateContent, whose pieces have the form of the
// whole.
type googleReading struct {
	replyBuilder
	finish string
}

// event reads a piece, or the list of all that is sent in place of a stream.
func (g *googleReading) event(data []byte) (last bool, err error) {
	if !bytes.HasPrefix(data, []byte("[")) {
		return false, g.piece(data)
	}
	var pieces []jsontext.Value
	err = decode(data, &pieces)
	for i := 0; i < len(pieces) && err == nil; i++ {
		err = g.piece(pieces[i])
	}
	return false, err
}

func (g *googleReading) piece(data []byte) error {
	var got googleReply
	if err := decode(data, &got); err != nil {
		return err
	}
	switch {
	case got.Feedback != nil && got.Feedback.BlockReason != "":
		g.finish = blocked
	case len(got.Candidates) > 1:
		return llm.Protocol{What: "the reply has several candidates"}
	}
	for _, candidate := range got.Candidates {
		for _, part := range candidate.Content.Parts {
			switch {
			case part.Call != nil:
				g.call("call-"+strconv.Itoa(len(g.calls)+1)+"."+part.Signature, part.Call.Name, string(part.Call.Args))
			case !part.Thought:
				g.say(part.Text)
			}
		}
		if candidate.FinishReason != "" {
			g.finish = candidate.FinishReason
		}
	}
	if u := got.Usage; u != nil {
		cached := min(u.Cached, u.Prompt)
		g.usage = llm.Usage{Input: int64(u.Prompt - cached), CacheRead: int64(cached), Output: int64(u.Candidates) + int64(u.Thoughts)}
	}
	return nil
}

// complete implements reading: there is no last event.
func (g *googleReading) complete() bool { return g.finish != "" }

func googleContents(turns []llm.Turn) []googleContent {
	names := map[string]string{} // of tools, by the ID of the call
	var contents []googleContent
	for _, turn := range turns {
		if turn.Role == llm.Model {
			c := googleContent{Role: "model"}
			for _, p := range turn.Parts {
				c.Parts = append(c.Parts, googlePart{Text: p.Text()})
			}
			for _, call := range turn.Calls {
				names[call.ID] = call.Name
				_, signature, _ := strings.Cut(call.ID, ".")
				c.Parts = append(c.Parts, googlePart{Call: &googleCall{call.Name, objectOrEmpty(call.Arguments)}, Signature: signature})
			}
			contents = append(contents, c)
			continue
		}
		c := googleContent{Role: "user"}
		for _, result := range turn.Results {
			key := "result"
			if result.Failed {
				key = "error"
			}
			c.Parts = append(c.Parts, googlePart{Response: &googleResponse{names[result.Call], map[string]string{key: joinText(result.Parts)}}})
		}
		for _, p := range turn.Parts {
			c.Parts = append(c.Parts, googlePart{Text: p.Text()})
		}
		contents = append(contents, c)
	}
	return contents
}
