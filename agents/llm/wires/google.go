package wires

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/bcpmesh/bcpmesh/agents/llm"
)

// google is the wire of generateContent.
type google struct{ client }

type googlePart struct {
	Text     string          `json:"text,omitzero"`
	Thought  bool            `json:"thought,omitzero"`
	Call     *googleCall     `json:"functionCall,omitzero"`
	Response *googleResponse `json:"functionResponse,omitzero"`
	// Signature has to come back with a call. It travels in the call's ID, which nobody else reads.
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
	Usage struct {
		Prompt     int64 `json:"promptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
}

// Do implements [llm.Provider].
func (w *google) Do(ctx context.Context, r *llm.Request, delta func(llm.Delta)) (*llm.Reply, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	var request googleRequest
	if len(r.System) > 0 {
		request.System = &googleContent{Parts: []googlePart{{Text: textOf(r.System)}}}
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
	var got googleReply
	if err := w.post(ctx, "/v1beta/models/"+url.PathEscape(r.Model)+":generateContent", map[string]string{"x-goog-api-key": w.key}, request, &got); err != nil {
		return nil, err
	}
	if got.Feedback != nil && got.Feedback.BlockReason != "" {
		return nil, llm.Filtered{}
	}
	if len(got.Candidates) != 1 {
		return nil, llm.Protocol{What: "the reply has no candidate, or several"}
	}
	candidate := got.Candidates[0]
	switch candidate.FinishReason {
	case "STOP", "MAX_TOKENS", "":
	case "MALFORMED_FUNCTION_CALL", "OTHER":
		return nil, llm.Protocol{What: "the reply ended for " + strings.ToLower(candidate.FinishReason)}
	default: // SAFETY, RECITATION, BLOCKLIST, PROHIBITED_CONTENT, SPII, …
		return nil, llm.Filtered{}
	}
	cached := min(count(got.Usage.Cached), count(got.Usage.Prompt))
	b := newReply(llm.Usage{Input: count(got.Usage.Prompt) - cached, CacheRead: cached, Output: count(got.Usage.Candidates) + count(got.Usage.Thoughts)})
	for i, part := range candidate.Content.Parts {
		switch {
		case part.Call != nil:
			b.call("call-"+strconv.Itoa(i+1)+"."+part.Signature, part.Call.Name, string(part.Call.Args))
		case !part.Thought:
			b.say(part.Text)
		}
	}
	return b.end(candidate.FinishReason == "MAX_TOKENS", delta)
}

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
				c.Parts = append(c.Parts, googlePart{Call: &googleCall{call.Name, objectOf(call.Arguments)}, Signature: signature})
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
			c.Parts = append(c.Parts, googlePart{Response: &googleResponse{names[result.Call], map[string]string{key: textOf(result.Parts)}}})
		}
		for _, p := range turn.Parts {
			c.Parts = append(c.Parts, googlePart{Text: p.Text()})
		}
		contents = append(contents, c)
	}
	return contents
}
