package modelserver

import "sync"

// maxTail is how much of a log is kept.
const maxTail = 8 << 10

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(p), nil
}

// String returns the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
