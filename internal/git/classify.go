package git

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/quoin-dev/quoin/internal/neterror"
)

// fail returns an error about the remote.
func (r remote) fail(kind error, format string, args ...any) error {
	return &Error{Subject: "repository " + r.display, Reason: fmt.Sprintf(format, args...), kind: kind}
}

// transportError returns the *Error for an error of a transport. A canceled
// call has no kind, only the context's error.
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
	if kind, reason := protocolReason(err); kind != nil {
		return r.fail(kind, "%s", reason)
	}
	failure := neterror.Classify(err)
	if reason := hostKeyReason(err); reason != "" {
		failure = neterror.Failure{Cause: neterror.Untrusted, Message: reason}
	}
	unreachable := &Error{Subject: "repository " + r.display, Reason: failure.Message, kind: ErrUnreachable}
	var dns *net.DNSError
	switch {
	case !failure.Retryable():
		unreachable.cause = ErrUntrusted
	case errors.As(err, &dns) && dns.IsNotFound:
		unreachable.cause = ErrHostNotFound
	}
	return unreachable
}

// protocolReason classifies error responses of Git servers; kind is nil for
// other errors.
func protocolReason(err error) (kind error, reason string) {
	var (
		status  statusError
		message *remoteMessage
	)
	switch {
	case errors.As(err, &status):
		return statusReason(int(status))
	case errors.As(err, &message):
		return messageReason(message.text)
	case errors.Is(err, errPacketBudget):
		return ErrTooLarge, "the list of refs is too large"
	case errors.Is(err, errRedirect):
		return ErrUnexpectedResponse, "redirect refused"
	case errors.Is(err, errNotGit), errors.Is(err, errMalformedPacket):
		return ErrUnexpectedResponse, "not the response of a Git server with SHA-1 objects"
	}
	return nil, ""
}

// statusReason classifies a response by its status.
func statusReason(status int) (kind error, reason string) {
	reason = statusError(status).Error()
	switch status {
	case http.StatusUnauthorized:
		return ErrUnauthorized, "unauthorized"
	case http.StatusForbidden:
		return ErrUnauthorized, "access denied"
	case http.StatusNotFound, http.StatusGone:
		return ErrRepositoryNotFound, "repository not found"
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return ErrUnreachable, reason
	}
	if status < http.StatusInternalServerError {
		return ErrUnexpectedResponse, reason
	}
	return ErrUnreachable, reason
}

// messageReason classifies a server's error message by its text. The text
// itself is not shown: it is not stable.
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
	return ErrUnreachable, "the server rejected the request"
}

// hostKeyReason returns why an SSH host key is not trusted, or "" for any
// other error.
func hostKeyReason(err error) string {
	var (
		key     *knownhosts.KeyError
		revoked *knownhosts.RevokedError
	)
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return "host is not in known_hosts"
	case errors.As(err, &key):
		return "host key does not match known_hosts"
	case errors.As(err, &revoked):
		return "host key is revoked in known_hosts"
	}
	return ""
}
