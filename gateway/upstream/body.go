package upstream

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

const (
	// maxReplay is how much of a body is buffered for retries.
	maxReplay = 1 << 20
	// maxReadAhead is the maximum length of a body that is read before its request is sent:
	// net/http then writes headers and body in one packet.
	maxReadAhead = 4 << 10
)

var errSuperseded = errors.New("the request is being retried")

// replay is a body that can be read several times from the start, until more than maxReplay has
// been read. It is buffered while it is read, so that it does not delay a streamed body.
type replay struct {
	source io.Reader

	mu sync.Mutex // held while source is read, to keep the order
	// kept is what was read; overflowed is set once more was read than is kept.
	kept       []byte
	overflowed bool
	// err is the error that ended source, including io.EOF.
	err     error
	current *replayReader
}

// replayReader is one pass over the body. The transport may continue to read after an attempt has
// failed; what it reads is kept for the next pass.
type replayReader struct {
	*replay
	offset int
}

// newReader starts another pass, or returns false if the start of the body is no longer buffered.
func (r *replay) newReader() (io.ReadCloser, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.overflowed {
		return nil, false
	}
	if r.err == io.EOF { //nolint:errorlint // io.Reader returns io.EOF itself
		r.current = nil
		return io.NopCloser(bytes.NewReader(r.kept)), true // bytes.Reader is known to net/http
	}
	r.current = &replayReader{replay: r}
	return r.current, true
}

// readAhead reads a body of a known length. An error is returned again when the body is sent.
func (r *replay) readAhead(length int64) {
	r.kept = make([]byte, 0, length)
	if whole, ok := r.newReader(); ok {
		_, _ = io.Copy(io.Discard, whole)
	}
}

// failure returns the error that reading the body failed with, or nil.
func (r *replay) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == io.EOF { //nolint:errorlint // io.Reader returns io.EOF itself
		return nil
	}
	return r.err
}

// Read implements io.Reader.
func (r *replayReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != r {
		return 0, errSuperseded
	}
	if r.offset < len(r.kept) {
		n := copy(p, r.kept[r.offset:])
		r.offset += n
		return n, nil
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.source.Read(p)
	r.err = err
	switch {
	case r.overflowed:
	case len(r.kept)+n > maxReplay:
		r.kept, r.overflowed = nil, true
	default:
		r.kept = append(r.kept, p[:n]...)
	}
	r.offset += n
	return n, err
}

// Close implements io.Closer. The source belongs to the server, which closes it.
func (r *replayReader) Close() error { return nil }
