// Package content has what all resources of the content store share: their scope and the reasons
// for which a request is rejected. Each resource is a package below it, with its model, rules,
// statements and migrations; none knows HTTP or Kubernetes.
package content

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/displayname"
	"github.com/quoin-dev/quoin/internal/store"
)

// Scope is the deployment whose content a request concerns. Every statement has both UIDs.
type Scope struct {
	Account    store.Account
	Deployment store.Deployment
}

// Database is a *store.Database or *store.Store.
type Database interface {
	Tx(ctx context.Context, work func(tx *store.Tx) error) error
	TxAsync(ctx context.Context, work func(tx *store.Tx) error) error
	Read(ctx context.Context, work func(q store.Querier) error) error
}

// Record stores the event of a change in the transaction of the change.
type Record func(ctx context.Context, tx *store.Tx, e audit.Event) error

// Change stores the event of a change of an object; before is nil for a new object, after for a deleted one.
func (r Record) Change(ctx context.Context, tx *store.Tx, event string, object audit.Object, before, after map[string]any) error {
	changes, err := audit.DiffJSON(before, after)
	if err != nil {
		return fmt.Errorf("record %q: %w", event, err)
	}
	return r(ctx, tx, audit.Event{Name: event, Object: object, Changes: changes})
}

// Reason is the class of an Error.
type Reason string

// The reasons.
const (
	// NotFound: the object does not exist in the scope.
	NotFound Reason = "NotFound"
	// Invalid: the request is invalid. The message names the field and what is allowed.
	Invalid Reason = "Invalid"
	// Conflict: the state of other objects does not permit the request.
	Conflict Reason = "Conflict"
	// Forbidden: the caller has too low a level on an object, or another system, such as a Git host, does not permit the request.
	Forbidden Reason = "Forbidden"
	// BadGateway: another system has failed.
	BadGateway Reason = "BadGateway"
	// Unavailable: the request succeeds later.
	Unavailable Reason = "Unavailable"
)

// Error is the rejection of a request, which has changed nothing. The message is for the caller.
type Error struct {
	Reason  Reason
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf returns an Error.
func Errorf(reason Reason, format string, args ...any) error {
	return &Error{reason, fmt.Sprintf(format, args...)}
}

// Prefixed returns a rejection that names the field of the request; other errors, and nil, as they are.
func Prefixed(field string, err error) error {
	var rejected *Error
	if !errors.As(err, &rejected) {
		return err
	}
	return Errorf(rejected.Reason, "%s: %s", field, rejected.Message)
}

// CheckText returns an error for text that cannot be stored or compared on every database; field is its property in the request.
// PostgreSQL rejects text with a NUL, and text that is not UTF-8.
func CheckText(field, text string) error {
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		return Errorf(Invalid, "%s: it has a NUL or is not UTF-8; allowed: UTF-8 without NUL", field)
	}
	return nil
}

// MaxName is the maximum number of characters of a name.
const MaxName = 255

// CheckName returns an error for a name that is not allowed; field is its property in the request.
func CheckName(field, name string) error {
	switch {
	case name == "":
		return Errorf(Invalid, `%s: "" is empty; allowed: 1 to %d characters`, field, MaxName)
	case utf8.RuneCountInString(name) > MaxName:
		return Errorf(Invalid, "%s: it has %d characters; allowed: 1 to %d", field, utf8.RuneCountInString(name), MaxName)
	case displayname.Check(name) != nil:
		return Errorf(Invalid, "%s: %q: it %s", field, name, displayname.Rule)
	case strings.TrimSpace(name) != name:
		return Errorf(Invalid, "%s: %q begins or ends with white space; allowed: names without", field, name)
	}
	return nil
}
