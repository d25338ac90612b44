package deployment

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/kube"
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
		"secret":        {&gitSecretError{"spec.model.git.secretRef", "git", "does not exist"}, 1, "", "git", `Stalled GitSecretUnreadable: spec.model.git.secretRef: secret "git" does not exist`},
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

// A repository that Quoin keeps becomes readable in steps: the controller creates the Secret, quoin
// apiserver adds its certificate, and a user pushes.
func TestRepositoryBecomesReadable(t *testing.T) {
	d := carrying("sales", "", "")
	d.Spec.Model = v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{Path: "model"}}
	api := newAPI(t, d.DeepCopy())
	remotes := newRemoteTest(t, api)
	r := &deploymentReconciler{Options: Options{Remotes: remotes.remotes}}
	s := &scope{Client: kube.NewClient(api, api, FieldManager), Object: d}
	expect := func(commit, want string) {
		t.Helper()
		model, o := r.model(t.Context(), s)
		got := ""
		if o != nil {
			reconciler.Summarise(d, *o)
			c := d.Status.Conditions[0]
			got = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		if model.commit != commit || got != want {
			t.Fatalf("commit %q, outcome %q; want %q, %q", model.commit, got, commit, want)
		}
	}
	expect("", "False RepositoryUnavailable: spec.model.repository: cannot be read: quoin controller has no --repository-url")
	remotes.remotes.RepositoryURL = "https://quoin"
	const reading = `Unknown Progressing: Reading the branches of the repository of deployment "sales"`
	expect("", reading)
	receive(t, remotes.remotes.wake, "a wake")
	expect("", reading) // it has created the Secret
	receive(t, remotes.remotes.wake, "a wake")
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: d.Namespace, Name: "sales-repository"}, secret); err != nil {
		t.Fatal(err)
	}
	if len(secret.Data["password"]) < 20 || len(secret.OwnerReferences) != 1 {
		t.Errorf("secret %+v", secret)
	}
	expect("", `Unknown RepositoryUnavailable: Waiting for quoin apiserver, with a database, to add its certificate to secret "sales-repository"`)
	secret.Data["ca.crt"] = testAuthority(t)
	if err := api.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	remotes.clock.SetTime(remotes.clock.Now().Add(startInterval))
	r.Remotes.State(t.Context(), d)
	f := remotes.wait()
	if f.url != "https://quoin/repositories/"+d.Namespace+"/sales.git" || string(f.secret["username"]) != repositoryUser {
		t.Errorf("fetch of %s with %v", f.url, f.secret)
	}
	remotes.answer(f, answer{})
	expect("", `False ModelNotFound: spec.model.repository.branch: the repository of deployment "sales" has no branch "main"; push it, or set another branch`)
}

// testAuthority returns a certificate in PEM.
func testAuthority(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
