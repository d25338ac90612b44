package gitmirror

import (
	"context"
	"errors"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/gitpack"
)

// failure is a failure of a remote as callers see it.
type failure struct {
	shown *content.Error
	cause error
}

// Error implements error.
func (f *failure) Error() string { return f.shown.Message }

// Unwrap returns the error for the caller and its cause.
func (f *failure) Unwrap() []error { return []error{f.shown, f.cause} }

// reasons maps kinds of failures to those of content; the first that matches counts.
var reasons = []struct {
	kind   error
	reason content.Reason
	remedy string
}{
	{git.ErrMoved, content.Conflict, "try again"},
	{git.ErrUnauthorized, content.Forbidden, "check the Secret of spec.model.git.secretRef; changes need write access"},
	{git.ErrRefused, content.Conflict, "nothing is forced; change the rules of the repository, or work on another branch"},
	{git.ErrInvalidURL, content.Conflict, "correct spec.model.git.url; http:// needs --allow-insecure-git of quoin apiserver"},
	{git.ErrInvalidCredentials, content.Conflict, "correct the Secret of spec.model.git.secretRef"},
	{git.ErrNotFound, content.Conflict, "check spec.model.git and the Secret of its secretRef"},
	{git.ErrTooLarge, content.Conflict, "the repository is too large to be changed over REST; change it with git"},
	{git.ErrUntrusted, content.BadGateway, "add its certificate or host key to the Secret of spec.model.git.secretRef if you trust it"},
	{git.ErrUnexpectedResponse, content.BadGateway, "check spec.model.git.url"},
	{git.ErrUnknownOutcome, content.BadGateway, "the change may have been made: look again before you repeat it"},
	{git.ErrUnreachable, content.BadGateway, "try again later"},
}

// explain returns the error of a remote for callers: a *content.Error in it has the text. Other errors
// are returned as they are.
func explain(r *remote, err error) error {
	var rejected *content.Error
	var damaged gitpack.Rejection
	switch {
	case err == nil:
		return nil
	case errors.As(err, &rejected) && rejected.Reason == content.Invalid, errors.As(err, &damaged):
		return show(content.Conflict, err, "the Git repository %s cannot be changed over REST: %s", r.source.URL, err)
	case rejected != nil:
		return err
	}
	for _, known := range reasons {
		if errors.Is(err, known.kind) {
			return show(known.reason, err, "%s; %s", err, known.remedy)
		}
	}
	var remote *git.Error
	if errors.As(err, &remote) && errors.Is(err, context.Canceled) { // the timeout of a step
		return show(content.BadGateway, err, "%s: timed out; try again later", remote.Subject)
	}
	return err
}

func show(reason content.Reason, cause error, format string, args ...any) error {
	shown := &content.Error{}
	if errors.As(content.Errorf(reason, format, args...), &shown) {
		return &failure{shown, cause}
	}
	return cause
}

// isTemporary reports whether a remote may answer later.
func isTemporary(err error) bool {
	var shown *content.Error
	return errors.As(err, &shown) && (shown.Reason == content.BadGateway || shown.Reason == content.Unavailable) && !errors.Is(err, git.ErrUntrusted)
}
