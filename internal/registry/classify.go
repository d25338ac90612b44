package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/quoin-dev/quoin/internal/neterror"
)

// statusError returns the error for the status of a request to a repository.
// resource names the resource that a 404 is about, "tag 1.2.3", or is empty.
func (s *session) statusError(status int, resource string) error {
	e := &Error{Subject: "repository " + s.path}
	switch {
	case status == http.StatusUnauthorized:
		e.kind, e.Reason = ErrUnauthorized, "unauthorized"
	case status == http.StatusForbidden:
		e.kind, e.Reason = ErrUnauthorized, "access denied"
	case status == http.StatusNotFound:
		e.kind, e.Reason = ErrNotFound, "not found"
		if resource != "" {
			e.Reason = resource + " not found"
		}
	case status == http.StatusTooManyRequests:
		e.kind, e.Reason, e.retryAfter = ErrThrottled, "too many requests", s.meter.retryAfter()
	default:
		e.kind, e.Subject = ErrUnreachable, "registry "+s.host
		e.Reason = fmt.Sprintf("unexpected status %d", status)
	}
	return e
}

// openError returns the error for a failed ping or token request. A 404 means
// that the host is not a registry.
func (s *session) openError(ctx context.Context, err error) error {
	var status *transport.Error
	if !errors.As(err, &status) {
		return s.transportError(ctx, err)
	}
	if status.StatusCode == http.StatusNotFound {
		return s.protocolError("no distribution API at this address")
	}
	return s.statusError(status.StatusCode, "")
}

// protocolError returns the error for a response that violates the distribution
// API.
func (s *session) protocolError(reason string) error {
	return &Error{Subject: "registry " + s.host, Reason: reason, kind: ErrUnreachable}
}

// transportError returns the error for a request without a response. A canceled
// call has no kind, only the context's error.
func (s *session) transportError(ctx context.Context, err error) error {
	e := &Error{Subject: "registry " + s.host, Reason: networkReason(err), kind: ErrUnreachable}
	if status := (*transport.Error)(nil); errors.As(err, &status) {
		return s.statusError(status.StatusCode, "")
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		e.Reason, e.kind, e.cause = "canceled", nil, cause
	case cause != nil:
		e.Reason, e.cause = "timed out", cause
	}
	return e
}

// refusals are the errors of this package's transport.
var refusals = []struct {
	err    error
	reason string
}{
	{errTooLarge, "response too large"},
	{errRedirect, "redirects to a private address"},
	{errPlainHTTP, "refusing plain HTTP"},
}

// networkReason returns a short stable text for a request without a response.
// A network error comes first: errPlainHTTP may only be the error of the
// library's second attempt.
func networkReason(err error) string {
	failure := neterror.Classify(err)
	if failure.Cause != neterror.Unknown {
		return failure.Message
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return failure.Message
}
