package wrap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
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
	said += `{"jsonrpc":"2.0","id":"a","m\u0065thod":"roots/list"}` + "\n \n" + `{"jsonrpc":"2.0","id":"b","Method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":"c","method":"ping","method":null,"result":{}}` + "\n"
	none := `"error":{"code":-32601,"message":"there is no such method"}}` + "\n"
	want += `{"jsonrpc":"2.0","id":"a","result":{"roots":[]}}` + "\n" + `{"jsonrpc":"2.0","id":"b","result":{}}` + "\n" + `{"jsonrpc":"2.0","id":"c",` + none
	var replies bytes.Buffer
	got, err := io.ReadAll(newAnswers(io.NopCloser(strings.NewReader(said+answer)), &replies, noNoise))
	failIf(t, err != nil || string(got) != answer, "%.200q, %v", got, err)
	failIf(t, replies.String() != want, "%d bytes of replies, expected %d", replies.Len(), len(want))
}

// A request is answered before anything behind it is read.
func TestServerWaitsForItself(t *testing.T) {
	t.Parallel()
	full := errors.New("full")
	from := newAnswers(io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":1,"result":{}}`+"\n")), failing{full}, noNoise)
	n, err := from.Read(make([]byte, 100))
	failIf(t, n != 0 || !errors.Is(err, full), "%d bytes, %v", n, err)
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func noNoise(int, []byte) {}

// What is no message is named by the number of its line and passed over; a broken message, one that is too long, and more
// noise than anybody prints end the connection.
func TestLinesThatAreNoMessages(t *testing.T) {
	t.Parallel()
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	long := `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 1<<20) + `"}`
	for _, tt := range []struct {
		said, want string
		noisy      string // numbers of lines
		ended      bool
	}{
		{said: answer + "\n", want: answer + "\n"},
		{said: long + "\n", want: long + "\n"},
		{said: answer + "\r\n", want: answer + "\r\n"},
		{said: "\ufeff" + answer + "\n", want: answer + "\n"},
		{said: "Server runs on stdio\n" + answer + "\n", want: answer + "\n", noisy: "1"},
		{said: "\n[INFO] ready\n" + answer + "\n", want: answer + "\n", noisy: "2"},
		{said: answer + "\ndebug\n" + `{"level":30,"msg":"x"}` + "\n" + answer + "\n", want: answer + "\n" + answer + "\n", noisy: "2 3"},
		{said: "[]\n" + "[" + answer + "]\n" + "null 1\n", noisy: "1 2 3"},
		{said: answer + "\n\ufeff" + answer + "\n", want: answer + "\n", noisy: "2"},
		{said: `{"jsonrpc":"2.0","id":1,"error":"no"}` + "\n" + answer + "\n", want: `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"an error that is none of JSON-RPC:","data":"no"}}` + "\n" + answer + "\n"},
		{said: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}` + "\n", want: `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}` + "\n"},
		{said: "{\n" + answer + "\n", noisy: "1", ended: true},
		{said: `{"jsonrpc":"2.0","id":1,"result":NaN}` + "\n", noisy: "1", ended: true},
		{said: `{"jsonrpc":"2.0","id":[1],"result":{}}` + "\n", noisy: "1", ended: true},
		{said: answer + " " + answer + "\n", noisy: "1", ended: true},
		{said: `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", maxLine) + "\"}\n", noisy: "1", ended: true},
	} {
		var noisy []string
		from := newAnswers(io.NopCloser(strings.NewReader(tt.said)), io.Discard, func(n int, _ []byte) { noisy = append(noisy, strconv.Itoa(n)) })
		got, err := io.ReadAll(from)
		failIf(t, string(got) != tt.want || strings.Join(noisy, " ") != tt.noisy || errors.Is(err, errNoAnswer) != tt.ended,
			"%.40q: %.80q, noise in %v, %v", tt.said, got, noisy, err)
	}
	for n, ended := range map[int]bool{maxNoise: false, maxNoise + 1: true} {
		_, err := io.ReadAll(newAnswers(io.NopCloser(strings.NewReader(strings.Repeat("x\n", n))), io.Discard, noNoise))
		failIf(t, errors.Is(err, errNoAnswer) != ended, "%d lines: %v", n, err)
	}
}

// A server that does not read is given up: whoever calls it, and all others after that, would wait for ever.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	unread, stdin, err := os.Pipe()
	noError(t, err)
	defer unread.Close()
	w := &inTurn{File: stdin, patience: time.Millisecond}
	defer w.Close()
	n, err := w.Write(make([]byte, 1<<20))
	failIf(t, !errors.Is(err, os.ErrDeadlineExceeded), "%d, %v", n, err)
}
