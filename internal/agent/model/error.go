package model

import "time"

// Kind is the class of an Error.
type Kind string

// The kinds.
const (
	// KeyRejected: the provider does not accept the key.
	KeyRejected Kind = "KeyRejected"
	// RateLimited: too many requests or tokens, or no budget is left.
	RateLimited Kind = "RateLimited"
	// Unavailable: the provider cannot be reached, is overloaded or has failed.
	Unavailable Kind = "Unavailable"
	// TooLong: the conversation is longer than the model can read.
	TooLong Kind = "TooLong"
	// Rejected: the provider does not accept the request.
	Rejected Kind = "Rejected"
	// Malformed: the provider has sent what it must not, or more than is allowed.
	Malformed Kind = "Malformed"
)

// Error is a failure of a provider. The message is for the caller, and has no secret.
type Error struct {
	Kind    Kind
	Message string
	// Status is the HTTP status; 0 if there is none.
	Status int
	// RetryAfter is how long the provider asks to wait; 0 if it does not.
	RetryAfter time.Duration
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Retryable reports whether the same request can succeed later.
func (e *Error) Retryable() bool { return e.Kind == RateLimited || e.Kind == Unavailable }
