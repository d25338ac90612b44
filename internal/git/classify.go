package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
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
	err = unwrapLibrary(err)
	if kind, reason := protocolReason(err); kind != nil {
		return r.fail(kind, "%s", reason)
	}
	failure := neterror.Classify(err)
	if reason := hostKeyReason(err); reason != "" {
		failure = neterror.Failure{Cause: neterror.Untrusted, Message: reason}
	}
	if failure.Cause == neterror.Unknown && strings.Contains(err.Error(), "http redirect:") { // go-git has no type for it
		failure.Message = "redirect refused"
	}
	unreachable := &Error{Subject: "repository " + r.display, Reason: failure.Message, kind: ErrUnreachable}
	if !failure.Retryable() {
		unreachable.cause = ErrUntrusted
	}
	return unreachable
}

// unwrapLibrary removes the two wrappers of go-git that do not implement Unwrap.
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

// protocolReason classifies error responses of Git servers; kind is nil for
// other errors.
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
		return ErrUnreachable, "not the response of a Git server with SHA-1 objects"
	}
	return nil, ""
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
