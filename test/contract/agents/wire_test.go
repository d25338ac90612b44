package agents_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/agent/stream/streamtest"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// record is what one TLS record has of the body of a response.
type record []byte

// records sends a message and returns the records of the response, and its head. A read of a TLS connection returns one record at
// most, as those of Node.js do, whose example client parses each by itself.
func (a *account) records(t *testing.T, token string, body any) (head string, all []record) {
	t.Helper()
	transport, ok := anyone.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is %T", anyone.Transport)
	}
	raw, err := transport.DialContext(t.Context(), "tcp", a.host()+":443")
	if err != nil {
		t.Fatal(err)
	}
	config := transport.TLSClientConfig.Clone()
	config.ServerName, config.NextProtos = a.host(), []string{"http/1.1"}
	connection := tls.Client(raw, config)
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(apiclient.Timeout)); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Api-Key %s\r\nContent-Type: application/json\r\nAccept-Encoding: gzip, br\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		a.path(analyst, "stream-chat-state"), a.host(), token, len(text), text); err != nil {
		t.Fatal(err)
	}
	for buffer := make([]byte, 1<<20); ; {
		n, err := connection.Read(buffer)
		if n > 0 {
			all = append(all, bytes.Clone(buffer[:n]))
		}
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return cut(t, all)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// cut returns the head of a response, and its records without it.
func cut(t *testing.T, all []record) (string, []record) {
	t.Helper()
	if len(all) == 0 {
		t.Fatal("there is no response")
	}
	head, rest, found := strings.Cut(string(all[0]), "\r\n\r\n")
	if !found {
		t.Fatalf("the first record is %q", all[0])
	}
	if rest == "" {
		return head, all[1:]
	}
	return head, append([]record{record(rest)}, all[1:]...)
}

// TestLinesAreWhole: each line of an answer is a chunk of the response and a record of the connection, also if the model sends a long
// piece of text, so that clients which parse what they receive at a time lose nothing of the answer.
func TestLinesAreWhole(t *testing.T) {
	acme.startPod(t)
	long := strings.Repeat("ü\"\n", 5000)
	head, all := acme.records(t, acme.admin, object{"input": "hello " + strings.ReplaceAll(long, "\n", "\u0001"), "sessionSettings": external("u-wire", "CH")})
	for _, want := range []string{"HTTP/1.1 200", "Content-Type: application/json", "Cache-Control: no-cache, no-transform", "X-Accel-Buffering: no", "Transfer-Encoding: chunked"} {
		if !strings.Contains(head, want) {
			t.Errorf("the head has no %q: %s", want, head)
		}
	}
	for _, no := range []string{"Content-Length", "Content-Encoding"} {
		if strings.Contains(head, no) {
			t.Errorf("the head has %s: %s", no, head)
		}
	}
	deltas, said, cutLines := 0, "", 0
	var chunks []string
	for _, r := range all {
		chunks = append(chunks, string(r))
		_, chunk, _ := strings.Cut(string(r), "\r\n")
		line, ended := strings.CutSuffix(chunk, "\n\r\n")
		l, err := stream.Decode([]byte(line))
		switch {
		case !ended || err != nil: // the message, the whole answer and the state, of any length
			cutLines++
		case l.Delta() && l.IsFinal():
			deltas++
			said += *l.Content
		}
	}
	if want := "You said hello " + strings.ReplaceAll(long, "\n", "\u0001"); said != want || streamtest.AppendDeltas(chunks) != want || deltas < 20 {
		t.Errorf("%d of %d records are no line; %d have text, of %d bytes; the answer has %d", cutLines, len(all), deltas, len(said), len(want))
	}
}
