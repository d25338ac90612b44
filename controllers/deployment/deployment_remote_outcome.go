package deployment

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// failureThreshold is the number of consecutive failed fetches that the status reports.
const failureThreshold = 3

// known reports whether a fetch has succeeded.
func (s remoteState) known() bool { return !s.succeeded.IsZero() }

// productionBranch returns the name of the branch that production runs.
func (s remoteState) productionBranch(d *v1alpha1.Deployment) string {
	if branch := engine.RemoteOf(d, "").Branch; branch != "" {
		return branch
	}
	return s.defaultBranch
}

// permanent reports whether the fetch failed for a reason that only a user can remove. A host
// name that does not exist may be about to be created, so it counts from the third fetch on.
func (s remoteState) permanent() bool {
	var secret *gitSecretError
	return errors.As(s.err, &secret) || git.Permanent(s.err) ||
		(errors.Is(s.err, git.ErrHostNotFound) && s.failures >= failureThreshold)
}

// reported reports whether the status shows the failure of the last fetch although production
// has a commit to run: a temporary failure when it repeats, a permanent one at once if the
// source has never been read.
func (s remoteState) reported() bool {
	return s.failures >= failureThreshold || (s.permanent() && !s.known())
}

// outcome returns the outcome of a failed fetch. After a permanent failure the remote is
// fetched at the interval too, so the deployment recovers when the remote or the Secret does.
func (s remoteState) outcome(d *v1alpha1.Deployment) reconciler.Outcome {
	remote := engine.RemoteOf(d, "")
	if errors.Is(s.err, errNoRepositorySecret) || errors.Is(s.err, errNoCertificate) {
		return reconciler.Progressing(v1alpha1.ReasonRepositoryUnavailable, fmt.Sprintf(
			"Waiting for quoin apiserver, with a database, to add its certificate to secret %q", remote.Secret)).RequeueIn(s.next)
	}
	if !s.permanent() {
		return reconciler.Failing(v1alpha1.ReasonGitFailed, remote.Field+": "+s.err.Error(), s.next)
	}
	var secret *gitSecretError
	if errors.As(s.err, &secret) {
		return reconciler.NotFound(v1alpha1.ReasonGitSecretUnreadable, secret.Error()).RequeueIn(s.next)
	}
	if remote.Kept {
		return reconciler.Stalled(v1alpha1.ReasonRepositoryUnavailable, fmt.Sprintf(
			"%s: %s; check --repository-url of quoin controller, and its network", remote.Field, s.err)).RequeueIn(s.next)
	}
	reason, remedy := explain(s.err, d.Spec.Model.Git)
	return reconciler.Stalled(reason, fmt.Sprintf("%s: %s; %s", remote.Field, s.err, remedy)).RequeueIn(s.next)
}

// explain returns the reason for a permanent failure of a remote, and the remedy.
func explain(err error, source *v1alpha1.GitSource) (reason, remedy string) {
	reason, remedy = v1alpha1.ReasonGitFailed, "correct url"
	switch {
	case errors.Is(err, git.ErrInvalidURL):
		reason = v1alpha1.ReasonInvalidSpec
		if strings.HasPrefix(source.URL, "http://") {
			remedy = "http:// requires the controller flag --allow-insecure-git"
		}
	case errors.Is(err, git.ErrRepositoryNotFound):
		reason, remedy = v1alpha1.ReasonGitRepositoryNotFound, "correct url, or, if the repository is private, "+access(source)
	case errors.Is(err, git.ErrUnauthorized):
		reason, remedy = v1alpha1.ReasonGitAccessDenied, access(source)
	case errors.Is(err, git.ErrUntrusted):
		remedy = "correct ca.crt or known_hosts in the Secret of secretRef, or the certificate of the server"
	case errors.Is(err, git.ErrTooLarge):
		remedy = "delete branches that are not used"
	case errors.Is(err, git.ErrHostNotFound):
		remedy = "correct the host in url"
	}
	return reason, remedy
}

// access returns how to give the controller access to a private repository.
func access(source *v1alpha1.GitSource) string {
	if source.SecretRef == nil {
		return "set secretRef to a Secret with credentials that may read it"
	}
	return fmt.Sprintf("store credentials that may read it in secret %q", source.SecretRef.Name)
}

// branchNotFound returns the outcome when the remote has no branch for production.
func (s remoteState) branchNotFound(d *v1alpha1.Deployment) reconciler.Outcome {
	remote := engine.RemoteOf(d, "")
	message := fmt.Sprintf("%s.branch: %s has no branch %q; push it, or set another branch", remote.Field, remote, remote.Branch)
	if remote.Branch == "" {
		message = fmt.Sprintf("%s.branch: %s has no default branch; push one, or set the branch", remote.Field, remote)
	}
	return reconciler.Stalled(v1alpha1.ReasonModelNotFound, message).RequeueIn(s.next)
}
