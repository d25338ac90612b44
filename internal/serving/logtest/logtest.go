// Package logtest collects logs in tests.
package logtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Buffer collects a log of JSON lines. It is safe for concurrent use.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the log.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

// Logger returns a logger of all levels that writes to the buffer.
func (b *Buffer) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Lines returns the attributes of the lines with a message.
func (b *Buffer) Lines(t *testing.T, message string) []map[string]any {
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
