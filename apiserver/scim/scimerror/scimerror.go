// Package scimerror is the error responses of SCIM (RFC 7644 section 3.12).
package scimerror

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Type is a scimType, the error keyword.
type Type string

// scimTypes of RFC 7644 table 9 and RFC 9865 table 1.
const (
	InvalidFilter Type = "invalidFilter"
	TooMany       Type = "tooMany"
	Uniqueness    Type = "uniqueness"
	Mutability    Type = "mutability"
	InvalidSyntax Type = "invalidSyntax"
	InvalidPath   Type = "invalidPath"
	NoTarget      Type = "noTarget"
	InvalidValue  Type = "invalidValue"
	InvalidVers   Type = "invalidVers"
	Sensitive     Type = "sensitive"
	InvalidCursor Type = "invalidCursor"
	ExpiredCursor Type = "expiredCursor"
	InvalidCount  Type = "invalidCount"
)

// URN is the schema of an error response.
const URN = "urn:ietf:params:scim:api:messages:2.0:Error"

// Error is a SCIM error response. Detail is returned to the client: it contains no secrets, and
// values from the request only as returned by Quote.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is empty if the status is sufficient.
	Type Type
	// Detail is a human-readable message: the attribute, its value, the allowed values.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("%d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Detail)
}

// New returns an error without a scimType.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Bad returns a 400 error with a scimType.
func Bad(scimType Type, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: scimType, Detail: fmt.Sprintf(format, args...)}
}

// NotFound returns the 404 error for a resource.
func NotFound(resourceType, id string) *Error {
	return New(http.StatusNotFound, "%s %s does not exist", resourceType, Quote(id))
}

// Conflict returns the 409 error for a value that belongs to another resource.
func Conflict(format string, args ...any) *Error {
	return &Error{Status: http.StatusConflict, Type: Uniqueness, Detail: fmt.Sprintf(format, args...)}
}

// maxQuoted is the length in bytes to which Quote truncates.
const maxQuoted = 80

// Quote returns a value from the request for use in a Detail: quoted and truncated.
func Quote(s string) string {
	if len(s) <= maxQuoted {
		return fmt.Sprintf("%q", strings.ToValidUTF8(s, "?"))
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:cut], "?"))
}
