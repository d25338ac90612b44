package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/quoin-dev/quoin/internal/neterror"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnauthorized means that the server rejected the credentials, or
	// requires some.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound is wrapped by the four errors below.
	ErrNotFound = errors.New("not found")
	// ErrRepositoryNotFound means that the repository does not exist, or that
	// the server hides it from these credentials.
	ErrRepositoryNotFound = fmt.Errorf("repository %w", ErrNotFound)
	// ErrRefNotFound means that the repository does not have the branch.
	ErrRefNotFound = fmt.Errorf("branch %w", ErrNotFound)
	// ErrCommitNotFound means that the repository does not have the commit, or
	// that the server does not serve it.
	ErrCommitNotFound = fmt.Errorf("commit %w", ErrNotFound)
	// ErrPathNotFound means that the commit has no folder at the path.
	ErrPathNotFound = fmt.Errorf("path %w", ErrNotFound)
	// ErrUnreachable means that there was no response, or a temporary failure:
	// network, name resolution, TLS, host key, timeout, status 408, 425, 429 or
	// 5xx, or a message of the server with an unknown meaning.
	ErrUnreachable = errors.New("unreachable")
	// ErrHostNotFound means that the host name does not exist. It always comes
	// with ErrUnreachable: the name may be about to be created.
	ErrHostNotFound = errors.New("host not found")
	// ErrUnexpectedResponse means that the response is not that of a Git server
	// with SHA-1 objects: another protocol, another status 4xx, a redirect that
	// is not followed.
	ErrUnexpectedResponse = errors.New("unexpected response")
	// ErrUntrusted means that the server's certificate or host key is not
	// trusted. It always comes with ErrUnreachable. A retry does not help.
	ErrUntrusted = errors.New("untrusted server")
	// ErrTooLarge means that a limit on bytes, files or branches was exceeded.
	ErrTooLarge = errors.New("too large")
	// ErrMoved means that a branch of the remote is not at the commit from which a push moves it.
	ErrMoved = errors.New("moved")
	// ErrRefused means that the remote has refused a push, for a reason of its own.
	ErrRefused = errors.New("refused")
	// ErrUnknownOutcome means that the remote may have accepted a push. It always comes with
	// ErrUnreachable.
	ErrUnknownOutcome = errors.New("unknown outcome")
	// ErrInvalidTree means that the commit contains entries that must not be
	// served: a symbolic link out of the tree, an invalid file name.
	ErrInvalidTree = errors.New("invalid tree")
	// ErrInvalidURL means that a URL is malformed or its scheme is not allowed.
	ErrInvalidURL = errors.New("invalid repository URL")
	// ErrInvalidCredentials means that a key of a credentials Secret is missing
	// or malformed.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrInvalidOptions means that a field of FetchOptions is malformed.
	ErrInvalidOptions = errors.New("invalid fetch options")
)

// permanent are the kinds that Permanent finds.
var permanent = []error{
	ErrUnauthorized, ErrNotFound, ErrUnexpectedResponse, ErrUntrusted, ErrTooLarge, ErrInvalidTree, ErrRefused,
	ErrInvalidURL, ErrInvalidCredentials, ErrInvalidOptions,
}

// Permanent reports whether the call fails until the URL, the credentials, the
// repository or the configuration of the server change. All other failures may
// be temporary.
func Permanent(err error) bool {
	return slices.ContainsFunc(permanent, func(kind error) bool { return errors.Is(err, kind) })
}

// Error is a failure to read from a remote. Its text is "subject: reason". It
// wraps its kind and, if the context ended the call, the context's error.
type Error struct {
	// Subject names the remote: "repository https://example.com/a.git".
	Subject string
	// Reason is a short stable text: "unauthorized", "connection refused".
	Reason string

	kind  error
	cause error // ErrUntrusted, ErrHostNotFound, ErrUnknownOutcome, a context error or nil: other errors are not stable
}

// Error returns "subject: reason".
func (e *Error) Error() string { return e.Subject + ": " + e.Reason }

// Unwrap returns the kind and the cause, if they are set.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func invalid(kind error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", kind, fmt.Sprintf(format, args...))
}

// localError returns an error about the local file or folder that what names.
// It omits the random names of temporary files.
func localError(what string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("%s: %w", what, err)
}

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
