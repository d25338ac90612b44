package githttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzip"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// maxDuration bounds one request.
	maxDuration = 10 * time.Minute
	// writeTimeout is the timeout for writing one packet. A client that does not read its response must not
	// keep its place.
	writeTimeout = 30 * time.Second
)

// response is the response of a request. Its headers are sent with the first byte.
type response struct {
	http.ResponseWriter
	action  action
	control *http.ResponseController
	started bool
}

func newResponse(w http.ResponseWriter, a action) *response {
	return &response{ResponseWriter: w, action: a, control: http.NewResponseController(w)}
}

// Write implements io.Writer. The first call sends the headers.
func (r *response) Write(data []byte) (int, error) {
	if !r.started {
		r.started = true
		kind := "-result"
		if r.action.advertise {
			kind = "-advertisement"
		}
		r.Header().Set("Content-Type", "application/x-"+r.action.service+kind)
		r.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
		r.WriteHeader(http.StatusOK)
	}
	r.within(writeTimeout)
	return r.ResponseWriter.Write(data)
}

// within sets the timeout of the response. That of the server begins with the request, which may take longer.
func (r *response) within(timeout time.Duration) {
	// Not supported outside of a server: then there is no deadline.
	_ = r.control.SetWriteDeadline(time.Now().Add(timeout))
}

// fail responds to a request that cannot be served, before the response has begun.
func (r *response) fail(req *http.Request, err error) {
	r.within(writeTimeout)
	writeFailure(r.ResponseWriter, req, err)
}

// report logs an error that is not the caller's.
func report(ctx context.Context, err error) {
	if _, known := explain(err); !known && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "Failed to serve a Git repository", "requestID", serving.RequestID(ctx))
	}
}

// explain returns the text of an error for the caller, and whether the error is the caller's.
func explain(err error) (string, bool) {
	var (
		rejected rejection
		refused  *content.Error
		tooLarge *http.MaxBytesError
	)
	switch {
	case errors.As(err, &rejected):
		return rejected.Error(), true
	case errors.As(err, &refused):
		return refused.Message, true
	case errors.As(err, &tooLarge):
		return rejectf("the request is larger than %d bytes", tooLarge.Limit).Error(), true
	case errors.Is(err, serving.ErrSlowBody):
		return serving.ErrSlowBody.Error(), true
	case errors.Is(err, store.ErrUnavailable):
		return "the database is not available now: retry later", false
	}
	return "internal error", false
}

// writeFailure responds to an error.
func writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	text, known := explain(err)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeError(w, http.StatusRequestEntityTooLarge, text)
	case known:
		writeError(w, http.StatusBadRequest, text)
	case errors.Is(err, store.ErrUnavailable):
		w.Header().Set("Retry-After", "5")
		writeError(w, http.StatusServiceUnavailable, text)
	default:
		report(r.Context(), err)
		writeError(w, http.StatusInternalServerError, text+"; request id "+serving.RequestID(r.Context()))
	}
}

// WriteError responds with a status and a text, which git shows.
func WriteError(w http.ResponseWriter, status int, text string) { writeError(w, status, text) }

func writeError(w http.ResponseWriter, status int, text string) {
	for _, name := range []string{"Content-Length", "Content-Encoding"} {
		w.Header().Del(name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // fails only if the client has disconnected
}

// Challenge is the header WWW-Authenticate of a response to a request without a valid credential: git
// asks its user for a password.
const Challenge = `Basic realm="quoin"`

// bodyOf returns the body of a request, inflated if it is compressed, of which at most limit bytes can
// be read.
func bodyOf(r *http.Request, limit int64) (io.Reader, error) {
	var body io.Reader = r.Body
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip", "x-gzip":
		inflated, err := gzip.NewReader(body)
		if err != nil {
			return nil, readError(err)
		}
		body = inflated
	default:
		return nil, rejection("the Content-Encoding must be gzip or absent")
	}
	return &limitedReader{r: body, left: limit + 1, limit: limit}, nil
}

// limitedReader returns an error after more than limit bytes.
type limitedReader struct {
	r           io.Reader
	left, limit int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(data []byte) (int, error) {
	if l.left <= 0 {
		return 0, rejectf("the request is larger than %d bytes", l.limit)
	}
	if int64(len(data)) > l.left {
		data = data[:l.left]
	}
	n, err := l.r.Read(data)
	l.left -= int64(n)
	return n, readError(err)
}

// readError turns the errors of damaged bodies into rejections.
func readError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return rejection("the body of the request is damaged")
	}
	return err
}
