package certificates

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// testPair returns a new CA and a certificate for names, in PEM.
func testPair(t *testing.T, names ...string) (certificate, key, ca []byte) {
	t.Helper()
	authority, err := newAuthority("quoin-apiserver", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if certificate, key, err = authority.issue("quoin-apiserver", names, time.Now()); err != nil {
		t.Fatal(err)
	}
	return certificate, key, authority.certificatePEM
}

// logBuffer collects a log of JSON lines.
type logBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// lines returns the attributes of the lines with a message.
func (b *logBuffer) lines(t *testing.T, message string) []map[string]any {
	t.Helper()
	var found []map[string]any
	decoder := json.NewDecoder(strings.NewReader(b.String()))
	for {
		line := map[string]any{}
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if line["msg"] == message {
			found = append(found, line)
		}
	}
}

// eventually waits until a condition holds, without a timeout of its own.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended before the condition held")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
