// Package audit is the audit log: who changed what, when, from where, and with which outcome. It is
// kept in the content store and knows neither HTTP nor Kubernetes.
//
// A change is recorded in two steps: Log.Begin stores an attempt before the change is made, and
// Attempt.End stores its outcome before the change is acknowledged, so every acknowledged change has
// its event. A change in the content store is recorded by RecordTx in its own transaction. Secrets
// are masked and sizes bounded before an event leaves the caller's goroutine.
package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/quoin-dev/quoin/internal/masking"
)

var (
	// ErrUnavailable is returned while events cannot be stored or read.
	ErrUnavailable = errors.New("the audit log is not available")
	// ErrInvalid is returned for a malformed event or filter.
	ErrInvalid = errors.New("invalid")
)

// Event is a change, or the attempt at one.
type Event struct {
	// ID identifies the event: storing it again has no effect. A UUIDv7 if zero.
	ID uuid.UUID
	// Account is the name of the account; required.
	Account string
	// Time is stored in UTC with microseconds; the current time if zero.
	Time time.Time
	// Name is one of Names.
	Name    string
	Outcome Outcome
	// Reason is a status code, or a short reason of a failure.
	Reason     string
	Source     Source
	Actor      Actor
	Deployment Deployment
	Object     Object
	IP         string
	RequestID  string
	// Changes is JSON as Diff returns it.
	Changes json.RawMessage
}

// Outcome is the outcome of a change.
type Outcome string

// Outcomes. An event stays Attempted if the outcome is unknown: the change may have been made.
const (
	Attempted Outcome = "attempted"
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
)

// Source is the interface through which a change was made.
type Source string

// Sources.
const (
	SourceREST       Source = "rest"
	SourceSCIM       Source = "scim"
	SourceKubernetes Source = "kubernetes"
	SourceController Source = "controller"
)

// ActorKind is the kind of an Actor.
type ActorKind string

// Kinds of actors: an API key, a user of an OIDC issuer, a service account, a Kubernetes user, and
// Quoin itself.
const (
	ActorKey            ActorKind = "key"
	ActorUser           ActorKind = "user"
	ActorServiceAccount ActorKind = "serviceaccount"
	ActorKubernetes     ActorKind = "kubernetes"
	ActorSystem         ActorKind = "system"
)

// Actor is the caller who made a change.
type Actor struct {
	Kind  ActorKind
	ID    string
	Email string
}

// Deployment is the deployment that a change concerns, if any.
type Deployment struct{ ID, Name string }

// Object is the object that was changed.
type Object struct{ Kind, Namespace, Name, ID string }

var (
	outcomes = []Outcome{Attempted, Succeeded, Failed}
	sources  = []Source{SourceREST, SourceSCIM, SourceKubernetes, SourceController}
	actors   = []ActorKind{ActorKey, ActorUser, ActorServiceAccount, ActorKubernetes, ActorSystem}
)

// Maximum lengths of texts in bytes. Identifiers of Kubernetes, DNS and RFC 5321 fit; longer texts
// are truncated, and end with an ellipsis.
const (
	maxAccount = 63
	maxID      = 256
	maxActor   = 768 // the URL of an issuer and a subject
	maxName    = 256
	maxEmail   = 320
	maxReason  = 512
	maxIP      = 64
)

// prepare returns the event as it is stored: complete, masked and bounded.
func (e Event) prepare(now time.Time) (Event, error) {
	if err := e.check(); err != nil {
		return Event{}, err
	}
	if e.ID == uuid.Nil {
		id, err := uuid.NewV7()
		if err != nil {
			return Event{}, fmt.Errorf("make the id of an event: %w", err)
		}
		e.ID = id
	}
	if e.Time.IsZero() {
		e.Time = now
	}
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	for _, f := range []struct {
		text *string
		max  int
	}{
		{&e.Actor.ID, maxActor}, {&e.Actor.Email, maxEmail},
		{&e.Deployment.ID, maxID}, {&e.Deployment.Name, maxName},
		{&e.Object.Kind, maxName}, {&e.Object.Namespace, maxName}, {&e.Object.Name, maxName}, {&e.Object.ID, maxID},
		{&e.IP, maxIP}, {&e.RequestID, maxID},
	} {
		*f.text = cut(masking.Credentials(clean(*f.text)), f.max)
	}
	e.Reason = cut(masking.Text(clean(e.Reason)), maxReason)
	e.Changes = prepareChanges(e.Changes)
	return e, nil
}

func (e Event) check() error {
	switch {
	case e.Account == "" || len(e.Account) > maxAccount || clean(e.Account) != e.Account:
		return fmt.Errorf("%w event: the account %q must be the name of one", ErrInvalid, cut(clean(e.Account), maxAccount))
	case !Known(e.Name):
		return fmt.Errorf("%w event: the name %q is none of audit.Names", ErrInvalid, cut(clean(e.Name), maxName))
	case !slices.Contains(outcomes, e.Outcome):
		return fmt.Errorf("%w event: the outcome %q is none of %q", ErrInvalid, e.Outcome, outcomes)
	case !slices.Contains(sources, e.Source):
		return fmt.Errorf("%w event: the source %q is none of %q", ErrInvalid, e.Source, sources)
	case !slices.Contains(actors, e.Actor.Kind):
		return fmt.Errorf("%w event: the kind of the actor %q is none of %q", ErrInvalid, e.Actor.Kind, actors)
	}
	return nil
}

var withoutControls = strings.NewReplacer("\x00", "\uFFFD", separator, "\uFFFD")

// clean returns text that both databases can store: UTF-8 without NUL and without the separator.
func clean(text string) string {
	return withoutControls.Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

const ellipsis = "…"

// cut truncates text to limit bytes, the ellipsis included.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
