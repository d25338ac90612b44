package registry

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of failure, for errors.Is.
var (
	// ErrUnauthorized means that the registry or its token server rejected the
	// credentials, or requires some (status 401 or 403).
	ErrUnauthorized = errors.New("unauthorized")
	// ErrNotFound means that the repository or the tag does not exist (status 404).
	ErrNotFound = errors.New("not found")
	// ErrUnreachable means that there was no usable response: network, name
	// resolution, TLS, timeout, status 5xx, or not the distribution API.
	ErrUnreachable = errors.New("unreachable")
	// ErrThrottled means that the registry throttles requests (status 429);
	// RetryAfter returns the delay that it requested.
	ErrThrottled = errors.New("too many requests")
	// ErrTooManyTags means that a repository has more than MaxTags tags.
	ErrTooManyTags = errors.New("too many tags")
	// ErrInvalidName means that a repository or tag name is malformed.
	ErrInvalidName = errors.New("invalid name")
	// ErrInvalidConfig means that a docker config or a CA bundle is malformed.
	ErrInvalidConfig = errors.New("invalid registry configuration")
)

// Error is a failure to read from a registry. Its text is "subject: reason". It
// wraps its kind and, if the context ended the call, the context's error.
type Error struct {
	// Subject is "registry ghcr.io" if the host failed, otherwise "repository
	// demo/cube".
	Subject string
	// Reason is a short stable text: "connection refused", "unauthorized".
	Reason string

	kind       error
	cause      error // a context error or nil: other errors are not stable
	retryAfter time.Duration
}

// Error returns "subject: reason".
func (e *Error) Error() string { return e.Subject + ": " + e.Reason }

// Unwrap returns the kind and the context's error, if they are set.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// RetryAfter returns the delay that the registry requested, at most an hour, or
// zero.
func (e *Error) RetryAfter() time.Duration { return e.retryAfter }

// RetryAfter returns the delay that the registry requested in the response
// behind err, or zero.
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
