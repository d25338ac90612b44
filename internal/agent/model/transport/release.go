package transport

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// released returns a copy of a request that does not keep its body, which is a whole conversation: a connection keeps the request until
// the answer has ended. The body is released at its end, and what makes it again, for another try, by the function that it returns.
func released(request *http.Request) (sent *http.Request, release func()) {
	sent = request.Clone(request.Context())
	if request.Body == nil || request.Body == http.NoBody {
		return sent, func() {}
	}
	sent.Body = &body{from: request.Body}
	if request.GetBody == nil {
		return sent, func() {}
	}
	again := &source{get: request.GetBody}
	sent.GetBody = again.body
	return sent, again.release
}

// source makes the body of a request again, until it is released.
type source struct {
	mu  sync.Mutex
	get func() (io.ReadCloser, error)
}

func (s *source) body() (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get == nil {
		return nil, errors.New("the request has ended")
	}
	from, err := s.get()
	if err != nil {
		return nil, err
	}
	return &body{from: from}, nil
}

func (s *source) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.get = nil
}

// body is a body that is released at its end.
type body struct {
	mu   sync.Mutex
	from io.ReadCloser
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from == nil {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	if err != nil {
		_ = b.release()
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.release()
}

// release closes the body. The caller holds mu.
func (b *body) release() error {
	from := b.from
	if b.from = nil; from == nil {
		return nil
	}
	return from.Close()
}
