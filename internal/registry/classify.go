package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// statusError turns a status of a request about a repository into an error.
// what is empty, or names the part that a 404 is about: "tag 1.2.3".
func (s *session) statusError(status int, what string) error {
	e := &Error{Subject: "repository " + s.path}
	switch {
	case status == http.StatusUnauthorized:
		e.kind, e.Reason = ErrUnauthorized, "unauthorized"
	case status == http.StatusForbidden:
		e.kind, e.Reason = ErrUnauthorized, "access denied"
	case status == http.StatusNotFound:
		e.kind, e.Reason = ErrNotFound, "not found"
		if what != "" {
			e.Reason = what + " not found"
		}
	case status == http.StatusTooManyRequests:
		e.kind, e.Reason, e.retryAfter = ErrThrottled, "too many requests", s.meter.retryAfter()
	default:
		e.kind, e.Subject = ErrUnreachable, "registry "+s.host
		e.Reason = fmt.Sprintf("unexpected status %d", status)
	}
	return e
}

// openError turns a failure of the first contact (ping and token) into an
// error. A 404 there means that the host is not a registry.
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

// protocolError is about an answer that is not the distribution API's.
func (s *session) protocolError(reason string) error {
	return &Error{Subject: "registry " + s.host, Reason: reason, kind: ErrUnreachable}
}

// transportError turns a failure to get an answer into an error. When it was
// the caller who ended the call, the kind is the context's error alone.
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

// errorReasons maps errors that can be compared to their stable text.
var errorReasons = []struct {
	target error
	reason string
}{
	{context.DeadlineExceeded, "timed out"},
	{errTooLarge, "answer too large"},
	{errRedirect, "redirects to a private address"},
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset"},
	{syscall.EHOSTUNREACH, "no route to host"},
	{syscall.ENETUNREACH, "network is unreachable"},
	{syscall.ETIMEDOUT, "timed out"},
	{http.ErrSchemeMismatch, "does not speak TLS"},
	{errPlainHTTP, "refusing plain HTTP"},
	{io.EOF, "connection closed"},
	{io.ErrUnexpectedEOF, "connection closed"},
}

// networkReason says in a few stable words why no answer came.
func networkReason(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return "no such host"
		}
		return "name resolution failed"
	}
	if reason := certificateReason(err); reason != "" {
		return reason
	}
	for _, r := range errorReasons {
		if errors.Is(err, r.target) {
			return r.reason
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out"
	}
	return "no usable answer"
}

func certificateReason(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return "certificate signed by unknown authority"
	case errors.As(err, &hostname):
		return "certificate is not valid for this host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate has expired or is not yet valid"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "certificate is not valid"
	case errors.As(err, &alert):
		return "TLS handshake failed"
	}
	return ""
}
