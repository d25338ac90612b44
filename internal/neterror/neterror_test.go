package neterror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := map[string]struct {
		err  error
		want Failure
	}{
		"no such host":       {&net.DNSError{IsNotFound: true, Name: "a.invalid"}, Failure{DNS, "no such host"}},
		"resolver failed":    {&net.DNSError{IsTimeout: true}, Failure{DNS, "name resolution failed"}},
		"unknown authority":  {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, Failure{Untrusted, "certificate signed by unknown authority"}},
		"another host":       {x509.HostnameError{Certificate: &x509.Certificate{}}, Failure{Untrusted, "certificate is not valid for this host"}},
		"expired":            {x509.CertificateInvalidError{Reason: x509.Expired}, Failure{Untrusted, "certificate has expired or is not yet valid"}},
		"invalid":            {x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, Failure{Untrusted, "certificate is not valid"}},
		"other verification": {&tls.CertificateVerificationError{Err: errors.New("x")}, Failure{Untrusted, "certificate is not valid"}},
		"alert":              {tls.AlertError(40), Failure{TLS, "TLS handshake failed"}},
		"plain HTTP":         {http.ErrSchemeMismatch, Failure{TLS, "does not speak TLS"}},
		"refused":            {syscall.ECONNREFUSED, Failure{Connect, "connection refused"}},
		"reset":              {syscall.ECONNRESET, Failure{Disconnect, "connection reset"}},
		"no route":           {syscall.EHOSTUNREACH, Failure{Connect, "no route to host"}},
		"no network":         {syscall.ENETUNREACH, Failure{Connect, "network is unreachable"}},
		"kernel timeout":     {syscall.ETIMEDOUT, Failure{Timeout, "timed out"}},
		"deadline":           {context.DeadlineExceeded, Failure{Timeout, "timed out"}},
		"I/O deadline":       {os.ErrDeadlineExceeded, Failure{Timeout, "timed out"}},
		"end of file":        {io.EOF, Failure{Disconnect, "connection closed"}},
		"truncated":          {io.ErrUnexpectedEOF, Failure{Disconnect, "connection closed"}},
		"closed":             {net.ErrClosed, Failure{Disconnect, "connection closed"}},
		"other":              {errors.New("hunter2"), Failure{Unknown, "no usable response"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wrapped := fmt.Errorf("more: %w", &url.Error{Op: "Get", URL: "https://user:hunter2@a.invalid", Err: tt.err})
			for _, err := range []error{tt.err, wrapped} {
				if got := Classify(err); got != tt.want {
					t.Errorf("Classify(%v) = %+v, want %+v", err, got, tt.want)
				}
			}
		})
	}
}

func TestRetryable(t *testing.T) {
	for cause := Unknown; cause <= Untrusted; cause++ {
		if got, want := (Failure{Cause: cause}).Retryable(), cause != Untrusted; got != want {
			t.Errorf("cause %d: Retryable() = %t, want %t", cause, got, want)
		}
	}
}
