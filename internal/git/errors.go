package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnauthorized says that the server refused the credentials, or wants some.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound is what each of the four errors below also is.
	ErrNotFound = errors.New("not found")
	// ErrRepositoryNotFound says that there is no such repository, or that the
	// server hides it from these credentials.
	ErrRepositoryNotFound = fmt.Errorf("repository %w", ErrNotFound)
	// ErrRefNotFound says that the repository has no such branch.
	ErrRefNotFound = fmt.Errorf("branch %w", ErrNotFound)
	// ErrCommitNotFound says that the repository has no such commit, or does not
	// hand it out.
	ErrCommitNotFound = fmt.Errorf("commit %w", ErrNotFound)
	// ErrPathNotFound says that the commit has no folder at the path.
	ErrPathNotFound = fmt.Errorf("path %w", ErrNotFound)
	// ErrUnreachable says that no usable answer came: network, name resolution,
	// TLS, host key, time out, status 429 or 5xx, or not a Git server.
	ErrUnreachable = errors.New("unreachable")
	// ErrUntrusted is always an ErrUnreachable too: the server's certificate or
	// host key is not trusted. Trying again does not help.
	ErrUntrusted = errors.New("untrusted server")
	// ErrTooLarge says that a limit on bytes, files or branches was reached.
	ErrTooLarge = errors.New("too large")
	// ErrInvalidTree says that the commit holds what must not be served: a
	// symbolic link out of the tree, a name that is not one.
	ErrInvalidTree = errors.New("invalid tree")
	// ErrInvalidURL says that a URL is malformed or of a scheme not allowed.
	ErrInvalidURL = errors.New("invalid repository URL")
	// ErrInvalidCredentials says that a key of a credentials Secret is missing
	// or malformed.
	ErrInvalidCredentials = errors.New("invalid credentials")
	// ErrInvalidOptions says that a field of FetchOptions is malformed.
	ErrInvalidOptions = errors.New("invalid fetch options")
)

// Error is a failure to read from a remote. Its text is "subject: reason".
// errors.Is finds its kind, and the context's error where that ended the call.
type Error struct {
	// Subject is what was read: "repository https://example.com/a.git".
	Subject string
	// Reason is a short stable text: "unauthorized", "connection refused".
	Reason string

	kind  error
	cause error // ErrUntrusted, a context error or nil: nothing else is stable
}

// Error returns "subject: reason".
func (e *Error) Error() string { return e.Subject + ": " + e.Reason }

// Unwrap returns the kind and, where there is one, the cause.
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

// localError is about a local file or folder, named by what. The names of
// temporary ones, which are random, are left out.
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
