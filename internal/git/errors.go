package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
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
	ErrUnauthorized, ErrNotFound, ErrUnexpectedResponse, ErrUntrusted, ErrTooLarge, ErrInvalidTree,
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
	cause error // ErrUntrusted, ErrHostNotFound, a context error or nil: other errors are not stable
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
