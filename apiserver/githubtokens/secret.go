// Package githubtokens keeps the tokens with which the repositories of deployments are fetched from
// GitHub: in a Secret of the deployment, as credentials of Git like any others, renewed before they
// expire (docs/decisions/0047).
package githubtokens

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/github"
)

// Annotations of a Secret with a token.
const (
	// annotationExpires is when the token expires, in RFC 3339.
	annotationExpires = v1alpha1.Group + "/github-token-expires-at"
	// annotationReads is the installation and the repository that the token reads.
	annotationReads = v1alpha1.Group + "/github-token-reads"
)

// KeyHookSecret is the key in the Secret with which GitHub signs push hooks.
const KeyHookSecret = "webhookSecret"

// Username of tokens of installations over HTTPS.
// Source: docs.github.com, "Authenticating as a GitHub App installation".
const Username = "x-access-token"

// SecretName returns the name of the Secret of a deployment that is connected over REST.
func SecretName(d *v1alpha1.Deployment) string { return d.Name + "-github" }

// Issuer issues tokens: a *github.App.
type Issuer interface {
	ReadToken(ctx context.Context, installation int64, repository string) (github.Token, error)
	RepositoryOf(cloneURL string) (owner, name string, ok bool)
	// CA returns the certificate authorities of the host in PEM; nil for those of the system.
	CA() []byte
}

// Target is a Secret and what its token reads.
type Target struct {
	Deployment   *v1alpha1.Deployment
	Secret       string
	Installation int64
	URL          string
}

// TargetOf returns the target in the spec of a deployment; false if it has none.
func TargetOf(d *v1alpha1.Deployment) (Target, bool) {
	source := d.Spec.Model.Git
	if source == nil || source.GitHubInstallationID == nil || source.SecretRef == nil {
		return Target{}, false
	}
	return Target{d, source.SecretRef.Name, *source.GitHubInstallationID, source.URL}, true
}

// Allowed reports whether an account may use an installation.
func Allowed(a *v1alpha1.Account, installation int64) bool {
	return a.Spec.GitHub != nil && slices.Contains(a.Spec.GitHub.InstallationIDs, installation)
}

// ForeignError reports a Secret that is not one of this package: it is not overwritten.
type ForeignError struct{ Secret string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("the Secret %q exists and has no token of a GitHub App for this deployment: delete it, or name another one in spec.model.git.secretRef", e.Secret)
}

// RepositoryError reports a URL that is not that of a repository of the GitHub App's host.
type RepositoryError struct{}

func (*RepositoryError) Error() string {
	return "spec.model.git.url is not the URL of a repository on the host of the GitHub App"
}

// Secrets writes tokens into Secrets.
type Secrets struct {
	// Live reads the Kubernetes API server; Secrets are not cached.
	Live   client.Reader
	Writer client.Client
	App    Issuer
	Now    func() time.Time
}

// reserve is the remaining lifetime of a token at which it is renewed: the longest time for which
// fetches succeed while no token can be issued.
const reserve = 30 * time.Minute

// Ensure stores a new token, with the certificate authorities of the host, if the Secret has none of the target that is
// valid for reserve, or other authorities. It returns when the token expires.
func (s *Secrets) Ensure(ctx context.Context, t Target) (time.Time, error) {
	_, name, ok := s.App.RepositoryOf(t.URL)
	if !ok {
		return time.Time{}, &RepositoryError{}
	}
	stored := &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: t.Deployment.Namespace, Name: t.Secret}, stored)
	reads := fmt.Sprintf("%d %s", t.Installation, t.URL)
	switch expires, of := stored.Annotations[annotationExpires], stored.Annotations[annotationReads]; {
	case apierrors.IsNotFound(err):
		stored = nil
	case err != nil:
		return time.Time{}, err
	case expires == "" || !metav1.IsControlledBy(stored, t.Deployment):
		return time.Time{}, &ForeignError{t.Secret}
	case of == reads && bytes.Equal(stored.Data[git.KeyCACert], s.App.CA()):
		if at, err := time.Parse(time.RFC3339, expires); err == nil && at.Sub(s.Now()) > reserve {
			return at, nil
		}
	}
	token, err := s.App.ReadToken(ctx, t.Installation, name)
	if err != nil {
		return time.Time{}, err
	}
	annotations := map[string]string{annotationExpires: token.Expires.UTC().Format(time.RFC3339), annotationReads: reads}
	if stored == nil {
		return token.Expires, s.create(ctx, t, token, annotations)
	}
	// With the resource version, so that the token of another replica is not replaced by an older one.
	data := map[string]any{git.KeyUsername: []byte(Username), git.KeyPassword: []byte(token.Reveal()), git.KeyCACert: nil}
	if ca := s.App.CA(); len(ca) > 0 {
		data[git.KeyCACert] = ca
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": stored.ResourceVersion, "annotations": annotations}, "data": data,
	})
	if err != nil {
		return time.Time{}, err
	}
	return token.Expires, s.Writer.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
}

// create creates the Secret, which is deleted with the deployment.
func (s *Secrets) create(ctx context.Context, t Target, token github.Token, annotations map[string]string) error {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	created := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Deployment.Namespace, Name: t.Secret,
			Labels: map[string]string{v1alpha1.LabelDeployment: t.Deployment.Name, engine.LabelManagedBy: engine.ManagedBy}, Annotations: annotations,
		},
		Data: map[string][]byte{
			git.KeyUsername: []byte(Username), git.KeyPassword: []byte(token.Reveal()), KeyHookSecret: []byte(hex.EncodeToString(random)),
		},
	}
	if ca := s.App.CA(); len(ca) > 0 {
		created.Data[git.KeyCACert] = ca
	}
	if err := controllerutil.SetControllerReference(t.Deployment, created, s.Writer.Scheme()); err != nil {
		return err
	}
	return s.Writer.Create(ctx, created)
}

// HookSecret returns the secret of push hooks in a Secret that Ensure has written.
func (s *Secrets) HookSecret(ctx context.Context, t Target) (string, error) {
	stored := &corev1.Secret{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: t.Deployment.Namespace, Name: t.Secret}, stored)
	return string(stored.Data[KeyHookSecret]), err
}
