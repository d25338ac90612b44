package upstream

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	// maxReplay is how much of a body is kept to be sent again.
	maxReplay = 1 << 20
	// maxReadAhead is how long a body may be that is read before its request is sent: net/http
	// writes it together with the headers then, instead of one after the other.
	maxReadAhead = 4 << 10
)

var errSuperseded = errors.New("the request is being sent again")

// replay is a body that can be read from the beginning several times, as long as no more than
// maxReplay has been read. It is kept as it is read: nothing waits for it, and a body that
// streams goes on streaming.
type replay struct {
	source io.Reader

	mu sync.Mutex // held while source is read, so that nobody overtakes
	// kept is what was read; lost says that more was read than is kept.
	kept []byte
	lost bool
	// err is how source ended, io.EOF included.
	err     error
	current *reading
}

// reading is one pass over the body. The transport may go on reading after it has failed; what
// it takes then is kept for the next pass.
type reading struct {
	*replay
	at int
}

// again begins another pass; false when the beginning is lost.
func (r *replay) again() (io.ReadCloser, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost {
		return nil, false
	}
	if r.err == io.EOF { //nolint:errorlint // io.Reader returns io.EOF itself
		r.current = nil
		return io.NopCloser(bytes.NewReader(r.kept)), true // of a type that net/http knows
	}
	r.current = &reading{replay: r}
	return r.current, true
}

// readAhead reads a body of a known length. What goes wrong is met again by who sends it.
func (r *replay) readAhead(length int64) {
	r.kept = make([]byte, 0, length)
	if whole, ok := r.again(); ok {
		_, _ = io.Copy(io.Discard, whole)
	}
}

// failure is why the body could not be read; nil when that is not what went wrong.
func (r *replay) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == io.EOF { //nolint:errorlint // io.Reader returns io.EOF itself
		return nil
	}
	return r.err
}

// Read implements io.Reader.
func (r *reading) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != r {
		return 0, errSuperseded
	}
	if r.at < len(r.kept) {
		n := copy(p, r.kept[r.at:])
		r.at += n
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.source.Read(p)
	r.err = err
	switch {
	case r.lost:
	case len(r.kept)+n > maxReplay:
		r.kept, r.lost = nil, true
	default:
		r.kept = append(r.kept, p[:n]...)
	}
	r.at += n
	return n, err
}

// Close implements io.Closer. The source belongs to the server, which closes it.
func (r *reading) Close() error { return nil }
