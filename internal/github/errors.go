package github

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	gh "github.com/google/go-github/v89/github"
)

// Reason is why a request to GitHub failed.
type Reason int

// The reasons.
const (
	// Unavailable: GitHub does not answer, or not as documented, or rejects the credentials of the App.
	Unavailable Reason = iota
	// Limited: GitHub limits the number of requests.
	Limited
	// NotFound: what was requested does not exist, or the installation has no access to it.
	NotFound
	// Forbidden: the installation is suspended or lacks a permission.
	Forbidden
	// Exists: what was to be created exists already.
	Exists
)

// Error is a failed request. Its message is for users: it contains no credentials and no addresses.
type Error struct {
	Reason  Reason
	Message string
	// cause is for logs.
	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// failure returns the error for a failed request about something.
func failure(what string, err error) error {
	var limited *gh.RateLimitError
	var abuse *gh.AbuseRateLimitError
	var response *gh.ErrorResponse
	unavailable := &Error{Unavailable, "GitHub does not answer as expected; try again later", err}
	switch {
	case errors.As(err, &limited) && !limited.Rate.Reset.IsZero():
		return &Error{Limited, "GitHub limits the number of requests until " + limited.Rate.Reset.UTC().Format(time.TimeOnly) + " UTC; try again then", err}
	case limited != nil, errors.As(err, &abuse):
		return &Error{Limited, "GitHub limits the number of requests; try again later", err}
	case !errors.As(err, &response) || response.Response == nil:
		return unavailable
	}
	switch response.Response.StatusCode {
	case http.StatusUnauthorized:
		return &Error{Unavailable, "GitHub rejects the credentials of the GitHub App: an administrator has to check --github-app-id and the key", err}
	case http.StatusForbidden:
		return &Error{Forbidden, fmt.Sprintf("%s is suspended or lacks a permission that is needed", what), err}
	case http.StatusNotFound, http.StatusGone:
		return &Error{NotFound, fmt.Sprintf("%s does not exist, or the GitHub App has no access to it", what), err}
	case http.StatusUnprocessableEntity:
		return &Error{NotFound, fmt.Sprintf("%s does not have the repository or the permission that is needed", what), err}
	}
	return unavailable
}

// IsReason reports whether an error is one of this package with a reason.
func IsReason(err error, reason Reason) bool {
	var e *Error
	return errors.As(err, &e) && e.Reason == reason
}
