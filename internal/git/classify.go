package git

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh/knownhosts"
)

// fail makes an error about the remote.
func (r remote) fail(kind error, format string, args ...any) error {
	return &Error{Subject: "repository " + r.display, Reason: fmt.Sprintf(format, args...), kind: kind}
}

// transportError turns whatever the transports return into an error of one of
// the kinds. When it was the caller who ended the call, the kind is the
// context's error alone.
func (r remote) transportError(ctx context.Context, err error) error {
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.Canceled):
		return &Error{Subject: "repository " + r.display, Reason: "canceled", cause: cause}
	case cause != nil:
		return &Error{Subject: "repository " + r.display, Reason: "timed out", kind: ErrUnreachable, cause: cause}
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	err = unwrapLibrary(err)
	if kind, reason := protocolReason(err); kind != nil {
		return r.fail(kind, "%s", reason)
	}
	if reason := trustReason(err); reason != "" {
		return &Error{Subject: "repository " + r.display, Reason: reason, kind: ErrUnreachable, cause: ErrUntrusted}
	}
	return r.fail(ErrUnreachable, "%s", networkReason(err))
}

// unwrapLibrary takes off the two wrappers of go-git that errors.Is cannot see through.
func unwrapLibrary(err error) error {
	for {
		var unexpected *plumbing.UnexpectedError
		var permanent *plumbing.PermanentError
		switch {
		case errors.As(err, &unexpected):
			err = unexpected.Err
		case errors.As(err, &permanent):
			err = permanent.Err
		default:
			return err
		}
	}
}

// protocolReason knows what Git servers answer; kind is nil for anything else.
func protocolReason(err error) (kind error, reason string) {
	var (
		status   *githttp.Err
		line     *pktline.ErrorLine
		garbage  *packp.ErrUnexpectedData
		sshError *remoteMessage
	)
	switch {
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return ErrUnauthorized, "unauthorized"
	case errors.Is(err, transport.ErrAuthorizationFailed):
		return ErrUnauthorized, "access denied"
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return ErrRepositoryNotFound, "repository not found"
	case errors.Is(err, errAdvertisement):
		return ErrTooLarge, "the list of refs is too large"
	case errors.As(err, &status):
		return ErrUnreachable, fmt.Sprintf("unexpected status %d", status.StatusCode())
	case errors.As(err, &sshError):
		return messageReason(sshError.text)
	case errors.As(err, &line):
		return messageReason(line.Text)
	case errors.As(err, &garbage), errors.Is(err, pktline.ErrInvalidPktLen):
		return ErrUnreachable, "not the answer of a Git server with SHA-1 objects"
	}
	return nil, ""
}

// messageReason sorts the free text of the usual servers. The text itself is
// never shown: it is not stable.
func messageReason(text string) (kind error, reason string) {
	text = strings.ToLower(text)
	for _, s := range []string{"not found", "not exist", "could not be found", "not appear to be a git repository", "no such"} {
		if strings.Contains(text, s) {
			return ErrRepositoryNotFound, "repository not found"
		}
	}
	for _, s := range []string{"permission denied", "access denied", "not authorized", "unauthorized", "forbidden"} {
		if strings.Contains(text, s) {
			return ErrUnauthorized, "access denied"
		}
	}
	return ErrUnreachable, "the server refused"
}

// trustReason is empty unless the server did not prove who it is.
func trustReason(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		key       *knownhosts.KeyError
		revoked   *knownhosts.RevokedError
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
	case errors.As(err, &key) && len(key.Want) == 0:
		return "host is not in known_hosts"
	case errors.As(err, &key):
		return "host key does not match known_hosts"
	case errors.As(err, &revoked):
		return "host key is revoked in known_hosts"
	}
	return ""
}

// errorReasons maps errors that can be compared to their stable text.
var errorReasons = []struct {
	target error
	reason string
}{
	{context.DeadlineExceeded, "timed out"},
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset"},
	{syscall.EHOSTUNREACH, "no route to host"},
	{syscall.ENETUNREACH, "network is unreachable"},
	{syscall.ETIMEDOUT, "timed out"},
	{http.ErrSchemeMismatch, "does not speak TLS"},
	{io.EOF, "connection closed"},
	{io.ErrUnexpectedEOF, "connection closed"},
	{net.ErrClosed, "connection closed"},
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
	for _, r := range errorReasons {
		if errors.Is(err, r.target) {
			return r.reason
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out"
	}
	if strings.Contains(err.Error(), "http redirect:") { // go-git has no type for it
		return "redirect refused"
	}
	return "no usable answer"
}
