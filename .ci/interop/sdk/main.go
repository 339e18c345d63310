// Command sdk is a Reader that asks its model by OpenAI's official library for Go, which knows nothing of the mesh but what its
// environment variables say. It answers each query with how many of the three replies were right.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/openai/openai-go/v3"
)

// What is asked, and what the script of the mesh answers.
const (
	howMany, twelve = "How many?", "12"
	look, found     = "Look there.", "34"
	model           = "any"
)

var where = map[string]any{"where": map[string]any{"type": "string"}}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.Method != "query" {
			continue
		}
		n := 0
		said, err := askOpenAI(context.Background())
		for i, want := range []string{twelve, twelve, found} {
			if err == nil && said[i] == want {
				n++
			}
		}
		fmt.Fprintln(os.Stderr, said, err)
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"n":%d}}`+"\n", m.ID, n)
	}
}

func askOpenAI(ctx context.Context) ([]string, error) {
	client := openai.NewClient()
	ask := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("Be brief."), openai.UserMessage(howMany)}}
	whole, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		return nil, err
	}
	ask.Messages = append(ask.Messages, whole.Choices[0].Message.ToParam(), openai.UserMessage("Again."))
	var pieces openai.ChatCompletionAccumulator
	stream := client.Chat.Completions.NewStreaming(ctx, ask)
	for stream.Next() {
		pieces.AddChunk(stream.Current())
	}
	if stream.Err() != nil {
		return nil, stream.Err()
	}
	ask.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(look)}
	ask.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: "look", Description: openai.String("Looks."), Parameters: openai.FunctionParameters{"type": "object", "properties": where}})}
	called, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		return nil, err
	}
	call := called.Choices[0].Message.ToolCalls[0]
	ask.Messages = append(ask.Messages, called.Choices[0].Message.ToParam(), openai.ToolMessage("thirty-four "+call.Function.Arguments, call.ID))
	last, err := client.Chat.Completions.New(ctx, ask)
	if err != nil {
		return nil, err
	}
	return []string{whole.Choices[0].Message.Content, pieces.Choices[0].Message.Content, last.Choices[0].Message.Content}, nil
}
