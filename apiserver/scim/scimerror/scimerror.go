// Package scimerror is how SCIM says no (RFC 7644 section 3.12).
package scimerror

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Type is a scimType: what is wrong with a request, in a word.
type Type string

// The scimTypes of RFC 7644 table 9 and RFC 9865 table 1.
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

// URN is the schema of an error.
const URN = "urn:ietf:params:scim:api:messages:2.0:Error"

// Error is an answer that says no. Detail is shown to the caller: it never holds a secret, and
// what the caller sent stands in it only quoted and clipped.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Type is empty where the status says it all.
	Type Type
	// Detail for people: which attribute, what was given, what is allowed.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("%d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("%d %s: %s", e.Status, e.Type, e.Detail)
}

// New is an error with a status that says it all.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Detail: fmt.Sprintf(format, args...)}
}

// Bad is a 400.
func Bad(scimType Type, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: scimType, Detail: fmt.Sprintf(format, args...)}
}

// NotFound is the 404 of a resource.
func NotFound(resourceType, id string) *Error {
	return New(http.StatusNotFound, "%s %s does not exist", resourceType, Quote(id))
}

// Conflict is the 409 of a value that another resource has.
func Conflict(format string, args ...any) *Error {
	return &Error{Status: http.StatusConflict, Type: Uniqueness, Detail: fmt.Sprintf(format, args...)}
}

// longest is how much of what a caller sent is sent back, in bytes.
const longest = 80

// Quote shows a text of the caller in a detail: quoted, and clipped.
func Quote(s string) string {
	if len(s) <= longest {
		return fmt.Sprintf("%q", strings.ToValidUTF8(s, "?"))
	}
	cut := longest
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:cut], "?"))
}
