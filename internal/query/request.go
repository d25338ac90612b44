package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/neterror"
)

// errContinueWait means that the query is not complete, and that the client should repeat the request.
var errContinueWait = errors.New("continue wait")

const (
	// minInterval is the time between two requests of a run, also if the server does not let the first one wait.
	minInterval = 100 * time.Millisecond
	// maxFailures is how many requests in a row may fail without an answer to the query.
	maxFailures = 4
	// maxRetryAfter limits the wait that a response asks for.
	maxRetryAfter = 10 * time.Second
	// cancelTimeout limits the request that cancels a query.
	cancelTimeout = 5 * time.Second
	// maxErrorBody limits what is read of an error.
	maxErrorBody = 64 << 10
)

// run is one run of a query.
type run struct {
	http   *http.Client
	query  Query
	target Target
	limits Limits
	// id is the same in all requests of a run, and requests counts them.
	id       string
	requests int
	// held is the memory that the result takes; nil if that is not limited.
	held *holding
	// enough is true if the caller wants no more rows, although there may be more.
	enough bool
}

func newRun(client *http.Client, q Query, t Target, l Limits) *run {
	return &run{http: client, query: q, target: t, limits: l, id: uuid.NewString()}
}

// do runs the query within the limit of its duration.
func (r *run) do(ctx context.Context) (result *Result, err error) {
	work := r.runSQL
	if r.query.SQL == "" {
		work = r.load
	}
	err = r.within(ctx, func(ctx context.Context) (err error) {
		result, err = work(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// within does work within the limit of the duration. It ends the query in the data plane unless the query has ended.
func (r *run) within(ctx context.Context, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limits.Duration, &LimitError{"duration", r.limits.Duration.String()})
	defer cancel()
	err := work(ctx)
	var (
		limit *LimitError
		sink  *sinkError
	)
	switch {
	case err == nil && !r.enough:
		return nil
	case ctx.Err() != nil && err != nil:
		err = context.Cause(ctx)
	case r.enough, errors.As(err, &limit), errors.As(err, &sink), errors.Is(err, ErrBusy):
	default:
		return err
	}
	r.cancel(context.WithoutCancel(ctx))
	return err
}

// repeat sends a request until read has read its result or an error: a GET if it has no body, and otherwise a POST. The
// server answers after some seconds that the client should repeat it, at once and unchanged.
func (r *run) repeat(ctx context.Context, path string, body any, read func(body io.Reader, id string) error) error {
	var (
		method = http.MethodGet
		text   []byte
		err    error
	)
	if body != nil {
		method = http.MethodPost
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	failures := 0
	for {
		began := time.Now()
		wait := minInterval
		err := r.once(ctx, method, path, text, read)
		var retry *retryableError
		switch {
		case errors.Is(err, errContinueWait):
			failures = 0
		case errors.As(err, &retry) && failures < maxFailures:
			failures++
			wait = max(wait, retry.after, time.Duration(failures)*minInterval)
		case retry != nil:
			return retry.error
		default:
			return err
		}
		if err := sleep(ctx, wait-time.Since(began)); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// retryableError is a failure that the query is not to blame for.
type retryableError struct {
	error
	after time.Duration
}

// Unwrap returns the failure.
func (e *retryableError) Unwrap() error { return e.error }

// once sends a request, and lets read process a successful response.
func (r *run) once(ctx context.Context, method, path string, body []byte, read func(body io.Reader, id string) error) error {
	response, id, err := r.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		err := read(response.Body, id)
		if isOfQuery(err) || ctx.Err() != nil {
			return err
		}
		return unreachable(err)
	}
	failed := &ServerError{Status: response.StatusCode, Message: message(response), RequestID: id}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &retryableError{failed, retryAfter(response.Header)}
	}
	return failed
}

// isOfQuery reports whether reading has ended with a result, or with an error that another request would have too.
func isOfQuery(err error) bool {
	var (
		server *ServerError
		limit  *LimitError
		late   *lateError
		sink   *sinkError
	)
	return err == nil || errors.Is(err, errContinueWait) || errors.Is(err, errMalformed) || errors.Is(err, ErrBusy) ||
		errors.As(err, &server) || errors.As(err, &limit) || errors.As(err, &late) || errors.As(err, &sink)
}

// unreachable returns an error of the network without addresses.
func unreachable(err error) error {
	return &retryableError{&UnavailableError{"the data API did not answer: " + neterror.Classify(err).Message}, 0}
}

// tokenError is an error of Target.Token. It concerns the caller whose target it is, and not others that have the run.
type tokenError struct{ error }

// Unwrap returns the error.
func (e *tokenError) Unwrap() error { return e.error }

// send sends a request with the next id of the run.
func (r *run) send(ctx context.Context, method, path string, body []byte) (response *http.Response, id string, err error) {
	token, err := r.target.Token(ctx)
	if err != nil {
		return nil, "", &tokenError{err}
	}
	request, err := http.NewRequestWithContext(ctx, method, r.target.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.requests++
	id = r.id + "-span-" + strconv.Itoa(r.requests)
	request.Header.Set("Authorization", token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", id)
	response, err = r.http.Do(request)
	if err != nil {
		return nil, "", unreachable(err)
	}
	return response, id, nil
}

// cancel ends the query in the data plane, which otherwise goes on until the server considers it abandoned.
func (r *run) cancel(ctx context.Context) {
	if r.requests == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	response, _, err := r.send(ctx, http.MethodDelete, "/v1/running-query/"+r.id, nil)
	if err == nil { // the server ends an abandoned query itself, later
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxErrorBody))
		_ = response.Body.Close()
	}
}

// message returns the message of an error of the gateway or the server.
func message(response *http.Response) string {
	text, err := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	body := struct {
		Error string `json:"error"`
	}{}
	if err != nil || json.Unmarshal(text, &body) != nil || body.Error == "" {
		status := fmt.Sprintf("%d %s", response.StatusCode, http.StatusText(response.StatusCode))
		if response.StatusCode == http.StatusNotFound {
			status += ": the pods of the deployment do not serve " + response.Request.URL.Path
		}
		return status
	}
	return clip(body.Error)
}

func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.Atoi(header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
