package wires

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"

	"github.com/bcpmesh/bcpmesh/agents/llm"
	"github.com/bcpmesh/bcpmesh/bcp/bcptest"
)

// FuzzStream: whatever a provider streams, it is read the same in blocks and byte by byte, ends in a reply or in an error of
// package llm, and what was told while it came is what the reply says.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "data: [DONE]\n\n", ": x\r\n\r\ndata\ndata:{}\n\n", "event: a\ndata: {\"type\":\ndata: \"message_stop\"}\n\n",
		"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\",\"tool_calls\":[{\"index\":3,\"id\":\"a\",\"function\":{\"name\":\"b\",\"arguments\":\"{\"}}]},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"},{\"functionCall\":{\"name\":\"b\"}}]},\"finishReason\":\"STOP\"}]}\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		var blocks, bytewise [][]byte
		collect := func(into *[][]byte) func([]byte) (bool, error) {
			return func(data []byte) (bool, error) {
				*into = append(*into, bytes.Clone(data))
				return false, nil
			}
		}
		err, err2 := readEvents(bytes.NewReader(sent), collect(&blocks)), readEvents(iotest.OneByteReader(bytes.NewReader(sent)), collect(&bytewise))
		failIf(t, !errors.Is(err2, err) || !equal(blocks, bytewise), "%q and %q, %v and %v", blocks, bytewise, err, err2)
		for name, reading := range map[string]interface {
			reading
			end(cut bool) (*llm.Reply, error)
		}{
			"anthropic": &anthropicReading{blocks: map[number]*openCall{}},
			"openai":    &openAIReading{open: map[number]*openCall{}},
			"google":    &googleReading{},
		} {
			err := readEvents(bytes.NewReader(sent), reading.event)
			if err != nil && !reading.complete() {
				continue
			}
			reply, err := reading.end(false)
			if err != nil {
				failIf(t, !errors.As(err, new(llm.Protocol)), "%s: %v", name, err)
				continue
			}
			failIf(t, len(reply.Calls) > maxCalls || min(reply.Usage.Input, reply.Usage.CacheRead, reply.Usage.CacheWrite, reply.Usage.Output) < 0,
				"%s: %+v", name, reply)
		}
	})
}

func equal(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte{0}), bytes.Join(b, []byte{0})) && len(a) == len(b)
}

var noError, failIf = bcptest.NoError, bcptest.FailIf

func must[T any](v T, err error) func(bcptest.TB) T { return bcptest.MustIn(v, err) }
