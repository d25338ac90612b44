package registry

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnauthorized says that the registry or its token server refused the
	// credentials, or wants some (status 401 or 403).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound says that the repository or the tag does not exist (status 404).
	ErrNotFound = errors.New("not found")
	// ErrUnreachable says that no usable answer came: network, name resolution,
	// TLS, time out, status 5xx, or an answer that is not the distribution API's.
	ErrUnreachable = errors.New("unreachable")
	// ErrThrottled says that the registry asks to come later (status 429);
	// RetryAfter tells how much later.
	ErrThrottled = errors.New("too many requests")
	// ErrTooManyTags says that a repository has more than MaxTags tags.
	ErrTooManyTags = errors.New("too many tags")
	// ErrInvalidName says that a repository or tag name is malformed.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalidConfig says that a docker config or a CA bundle is malformed.
	ErrInvalidConfig = errors.New("invalid registry configuration")
)

// Error is a failure to read from a registry. Its text is "subject: reason".
// errors.Is finds its kind, and the context's error where that ended the call.
type Error struct {
	// Subject is what was read: "registry ghcr.io" when the host is at fault,
	// "repository demo/cube" otherwise.
	Subject string
	// Reason is a short stable text: "connection refused", "unauthorized".
	Reason string

	kind       error
	cause      error // a context error or nil: nothing else is stable
	retryAfter time.Duration
}

// Error returns "subject: reason".
func (e *Error) Error() string { return e.Subject + ": " + e.Reason }

// Unwrap returns the kind and, where there is one, the context's error.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// RetryAfter returns how long the registry asked to wait, at most an hour;
// zero when it did not say.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// RetryAfter returns how long the registry that answered with err asked to
// wait; zero when err is not such an answer.
func RetryAfter(err error) time.Duration {
	var e *Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.RetryAfter()
}

func invalidName(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidName, fmt.Sprintf(format, args...))
}

func invalidConfig(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidConfig, fmt.Sprintf(format, args...))
}
