package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// What a server asks and tells is no answer: a request is answered, in turn, and a notification dropped, however it is
// written.
func TestServersRequestsGoNoFurther(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"method":"x"}}` + "\n"
	said := strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`+"\n", 1_000)
	want := ""
	for i := range 1_000 {
		said += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		want += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`+"\n", i)
	}
	said += `{"id":"a","m\u0065thod":"roots/list"}` + "\n \n" + `{"id":"b","Method":"ping"}` + "\n" + `{"id":"c","method":"ping","method":null,"result":{}}` + "\n"
	none := `"error":{"code":-32601,"message":"there is no such method"}}` + "\n"
	want += `{"jsonrpc":"2.0","id":"a","result":{"roots":[]}}` + "\n" + `{"jsonrpc":"2.0","id":"b",` + none + `{"jsonrpc":"2.0","id":"c",` + none
	var replies bytes.Buffer
	got, err := io.ReadAll(newAnswers(io.NopCloser(strings.NewReader(said+answer)), &replies))
	if err != nil || string(got) != answer {
		t.Errorf("%.200q, %v", got, err)
	}
	if replies.String() != want {
		t.Errorf("%d bytes of replies, expected %d", replies.Len(), len(want))
	}
}

// A request is answered before anything behind it is read.
func TestServerWaitsForItself(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	from := newAnswers(io.NopCloser(strings.NewReader(`{"id":1,"method":"ping"}`+"\n"+`{"id":1,"result":{}}`+"\n")), failing{full})
	if n, err := from.Read(make([]byte, 100)); n != 0 || !errors.Is(err, full) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// A server that sends what is no message, or takes too much memory, speaks MCP no more.
func TestServerThatSpeaksNoMCP(t *testing.T) {
	t.Parallel()
	for _, said := range []string{
		"hello\n", "[]\n", `[{"id":1,"method":"ping"}]` + "\n", "{\n", "null 1\n",
		`{"id":1,"result":{"tools":[` + strings.Repeat("{},", 1<<16) + "{}]}}\n",
		`{"id":1,"result":"` + strings.Repeat("x", maxLine) + "\"}\n",
	} {
		if got, err := io.ReadAll(newAnswers(io.NopCloser(strings.NewReader(said)), io.Discard)); len(got) > 0 || !errors.Is(err, errNoAnswer) {
			t.Errorf("%.30q: %d bytes, %v", said, len(got), err)
		}
	}
	long := `{"id":1,"result":"` + strings.Repeat("x", 1<<20) + "\"}\n"
	if got, err := io.ReadAll(newAnswers(io.NopCloser(strings.NewReader(long)), io.Discard)); string(got) != long || err != nil {
		t.Errorf("%d bytes of %d, %v", len(got), len(long), err)
	}
}
