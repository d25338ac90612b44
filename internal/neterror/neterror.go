// Package neterror classifies network errors into a small set of causes with
// stable messages: a condition must not change with the ephemeral port of a
// connection or with the wording of a library.
package neterror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
)

// Cause is the class of a network error.
type Cause int

// The causes.
const (
	// Unknown is any error that has no cause of its own below.
	Unknown Cause = iota
	// DNS is a failed name resolution.
	DNS
	// Connect is a connection that could not be established.
	Connect
	// Disconnect is a connection that ended before the response was complete.
	Disconnect
	// Timeout is an expired deadline.
	Timeout
	// TLS is a failed TLS handshake, other than for the certificate.
	TLS
	// Untrusted is a server certificate that could not be verified.
	Untrusted
)

// Failure is a classified network error.
type Failure struct {
	Cause Cause
	// Message is a short, stable text for users: "connection refused".
	Message string
}

// Retryable reports whether a retry can succeed without a change of the
// configuration.
func (f Failure) Retryable() bool { return f.Cause != Untrusted }

// unknown is the failure of errors that Classify does not recognize.
var unknown = Failure{Unknown, "no usable response"}

// sentinels are the failures of errors that errors.Is finds.
var sentinels = []struct {
	err     error
	failure Failure
}{
	{context.DeadlineExceeded, Failure{Timeout, "timed out"}},
	{syscall.ECONNREFUSED, Failure{Connect, "connection refused"}},
	{syscall.ECONNRESET, Failure{Disconnect, "connection reset"}},
	{syscall.EHOSTUNREACH, Failure{Connect, "no route to host"}},
	{syscall.ENETUNREACH, Failure{Connect, "network is unreachable"}},
	{syscall.ETIMEDOUT, Failure{Timeout, "timed out"}},
	{http.ErrSchemeMismatch, Failure{TLS, "does not speak TLS"}},
	{io.EOF, Failure{Disconnect, "connection closed"}},
	{io.ErrUnexpectedEOF, Failure{Disconnect, "connection closed"}},
	{net.ErrClosed, Failure{Disconnect, "connection closed"}},
}

// Classify returns the failure that err, as returned by package net, crypto/tls
// or net/http, stands for. Its message holds nothing of the error's own text.
func Classify(err error) Failure {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return Failure{DNS, "no such host"}
		}
		return Failure{DNS, "name resolution failed"}
	}
	if failure, ok := classifyTLS(err); ok {
		return failure
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return s.failure
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return Failure{Timeout, "timed out"}
	}
	return unknown
}

// classifyTLS classifies certificate errors and TLS alerts.
func classifyTLS(err error) (failure Failure, ok bool) {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return Failure{Untrusted, "certificate signed by unknown authority"}, true
	case errors.As(err, &hostname):
		return Failure{Untrusted, "certificate is not valid for this host"}, true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return Failure{Untrusted, "certificate has expired or is not yet valid"}, true
	case errors.As(err, &invalid), errors.As(err, &verify):
		return Failure{Untrusted, "certificate is not valid"}, true
	case errors.As(err, &alert):
		return Failure{TLS, "TLS handshake failed"}, true
	}
	return Failure{}, false
}
