package deployment

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// TestOutcomeOfFailedFetch: what only a user can mend is stalled, observed and has the remedy;
// what may pass by itself is not. Both are fetched again.
func TestOutcomeOfFailedFetch(t *testing.T) {
	failure := func(kinds ...error) error { return fmt.Errorf("repository x: %w", errors.Join(kinds...)) }
	cases := map[string]struct {
		err         error
		failures    int
		url, secret string
		want        string
	}{
		"no repository": {failure(git.ErrRepositoryNotFound), 1, "", "",
			"Stalled GitRepositoryNotFound: spec.model.git: repository x: repository not found; correct url, or, if the repository is private, set secretRef to a Secret with credentials that may read it"},
		"no repository for these credentials": {failure(git.ErrRepositoryNotFound), 1, "", "git",
			`Stalled GitRepositoryNotFound: spec.model.git: repository x: repository not found; correct url, or, if the repository is private, store credentials that may read it in secret "git"`},
		"anonymous": {failure(git.ErrUnauthorized), 1, "", "",
			"Stalled GitAccessDenied: spec.model.git: repository x: unauthorized; set secretRef to a Secret with credentials that may read it"},
		"wrong credentials": {failure(git.ErrUnauthorized), 1, "", "git",
			`Stalled GitAccessDenied: spec.model.git: repository x: unauthorized; store credentials that may read it in secret "git"`},
		"http": {git.ErrInvalidURL, 1, "http://git.example.com/model.git", "",
			"Stalled InvalidSpec: spec.model.git: invalid repository URL; http:// requires the controller flag --allow-insecure-git"},
		"invalid URL":   {git.ErrInvalidURL, 1, "", "", "Stalled InvalidSpec: spec.model.git: invalid repository URL; correct url"},
		"a page":        {failure(git.ErrUnexpectedResponse), 1, "", "", "Stalled GitFailed: spec.model.git: repository x: unexpected response; correct url"},
		"certificate":   {failure(git.ErrUntrusted), 1, "", "", "Stalled GitFailed: spec.model.git: repository x: untrusted server; correct ca.crt or known_hosts in the Secret of secretRef, or the certificate of the server"},
		"many branches": {failure(git.ErrTooLarge), 1, "", "", "Stalled GitFailed: spec.model.git: repository x: too large; delete branches that are not used"},
		"secret":        {&gitSecretError{"git", "does not exist"}, 1, "", "git", `Stalled GitSecretUnreadable: spec.model.git.secretRef: secret "git" does not exist`},
		"host, twice":   {failure(git.ErrHostNotFound), 2, "", "", "Reconciling GitFailed: spec.model.git: repository x: host not found"},
		"host, again":   {failure(git.ErrHostNotFound), 3, "", "", "Stalled GitFailed: spec.model.git: repository x: host not found; correct the host in url"},
		"network":       {failure(git.ErrUnreachable), 9, "", "", "Reconciling GitFailed: spec.model.git: repository x: unreachable"},
		"API server":    {errors.New("read secret: connection refused"), 9, "", "", "Reconciling GitFailed: spec.model.git: read secret: connection refused"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := gitDeployment("")
			d.Generation, d.Status.ObservedGeneration = 4, -1
			if tc.url != "" {
				d.Spec.Model.Git.URL = tc.url
			}
			if tc.secret != "" {
				d.Spec.Model.Git.SecretRef = &v1alpha1.LocalReference{Name: tc.secret}
			}
			o := remoteState{err: tc.err, failures: tc.failures, next: time.Minute}.outcome(d)
			reconciler.Summarise(d, o)
			c := d.Status.Conditions[1]
			if got := fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if observed := d.Status.ObservedGeneration == 4; observed != (c.Type == v1alpha1.ConditionStalled) {
				t.Errorf("observed generation %d", d.Status.ObservedGeneration)
			}
			if o.After != time.Minute {
				t.Errorf("fetched again after %s", o.After)
			}
		})
	}
}
