// Package audit is the audit log: who changed what, when, from where, and what became of it. It
// is kept in the content store and knows neither HTTP nor Kubernetes.
//
// A change is recorded twice. Log.Begin stores that it is attempted before anything is done,
// Attempt.End stores its outcome before anybody is told: what is acknowledged has its event.
// Secrets are masked and sizes bounded before an event leaves the caller's goroutine.
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
)

var (
	// ErrUnavailable is that the store does not take or give events now.
	ErrUnavailable = errors.New("the audit log is not available")
	// ErrInvalid is that an event or a filter is not well-formed; the text says what is wrong.
	ErrInvalid = errors.New("invalid")
)

// Event is a change, or the attempt at one.
type Event struct {
	// ID is what makes it one event, however often it is stored; a UUIDv7 when zero.
	ID uuid.UUID
	// Account is the name of the account. It must be given.
	Account string
	// Time is kept in UTC with microseconds; now when zero.
	Time time.Time
	// Name is one of Names.
	Name    string
	Outcome Outcome
	// Reason is a status code, or why it failed in a few words.
	Reason     string
	Source     Source
	Actor      Actor
	Deployment Deployment
	Object     Object
	IP         string
	RequestID  string
	// Changes is JSON, as Diff makes it.
	Changes json.RawMessage
}

// Outcome is what became of a change.
type Outcome string

// Outcomes. Attempted stays where nobody could say: the change may have been made or not.
const (
	Attempted Outcome = "attempted"
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
)

// Source is the way by which a change came.
type Source string

// Sources.
const (
	SourceREST       Source = "rest"
	SourceSCIM       Source = "scim"
	SourceKubernetes Source = "kubernetes"
	SourceController Source = "controller"
)

// ActorKind says what ID of an Actor names.
type ActorKind string

// Kinds of actors: an API key, a person of an OIDC issuer, a service account, a user of
// Kubernetes, and Quoin itself.
const (
	ActorKey            ActorKind = "key"
	ActorUser           ActorKind = "user"
	ActorServiceAccount ActorKind = "serviceaccount"
	ActorKubernetes     ActorKind = "kubernetes"
	ActorSystem         ActorKind = "system"
)

// Actor is who asked for a change.
type Actor struct {
	Kind  ActorKind
	ID    string
	Email string
}

// Deployment is the one that a change concerns, if any.
type Deployment struct{ ID, Name string }

// Object is what was changed.
type Object struct{ Kind, Namespace, Name, ID string }

var (
	outcomes = []Outcome{Attempted, Succeeded, Failed}
	sources  = []Source{SourceREST, SourceSCIM, SourceKubernetes, SourceController}
	actors   = []ActorKind{ActorKey, ActorUser, ActorServiceAccount, ActorKubernetes, ActorSystem}
)

// The most bytes of a text. Identifiers of Kubernetes, DNS and RFC 5321 fit; of what is longer
// the beginning is kept, with an ellipsis that is counted in.
const (
	mostAccount = 63
	mostID      = 256
	mostName    = 256
	mostEmail   = 320
	mostReason  = 512
	mostIP      = 64
)

// prepare is the event as it is stored: complete, masked and bounded.
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
		most int
	}{
		{&e.Actor.ID, mostID}, {&e.Actor.Email, mostEmail},
		{&e.Deployment.ID, mostID}, {&e.Deployment.Name, mostName},
		{&e.Object.Kind, mostName}, {&e.Object.Namespace, mostName}, {&e.Object.Name, mostName}, {&e.Object.ID, mostID},
		{&e.IP, mostIP}, {&e.RequestID, mostID},
	} {
		*f.text = cut(maskCredentials(clean(*f.text)), f.most)
	}
	e.Reason = cut(maskText(clean(e.Reason)), mostReason)
	e.Changes = prepareChanges(e.Changes)
	return e, nil
}

func (e Event) check() error {
	switch {
	case e.Account == "" || len(e.Account) > mostAccount || clean(e.Account) != e.Account:
		return fmt.Errorf("%w event: the account %q must be the name of one", ErrInvalid, cut(clean(e.Account), mostAccount))
	case !Known(e.Name):
		return fmt.Errorf("%w event: the name %q is none of audit.Names", ErrInvalid, cut(clean(e.Name), mostName))
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

// clean is text that both databases can hold: UTF-8 without NUL, and without the separator.
func clean(text string) string {
	return withoutControls.Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

const ellipsis = "…"

// cut is text of at most so many bytes, ending with an ellipsis if something is missing.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
