package oidctokenconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oidctoken"
)

// accessError reports that the controller may not read or write the Secret of a deployment.
type accessError struct{ namespace, name string }

func (e *accessError) Error() string {
	return fmt.Sprintf("access to Secret %q is forbidden: bind ClusterRole quoin-account-tokens to quoin controller with a RoleBinding in namespace %q",
		e.name, e.namespace)
}

// secrets has what is known of the Secrets with tokens, so that they are read once and not in each reconciliation. Tokens
// themselves are not kept.
type secrets struct {
	client *kube.Client

	mu           sync.Mutex
	byDeployment map[client.ObjectKey]*tokenSecret
	// requested are the values of v1alpha1.AnnotationReconcile of configurations.
	requested map[client.ObjectKey]string
}

func newSecrets(c *kube.Client) *secrets {
	return &secrets{client: c, byDeployment: map[client.ObjectKey]*tokenSecret{}, requested: map[client.ObjectKey]string{}}
}

// tokenSecret is the Secret with the tokens of a deployment.
type tokenSecret struct {
	client     *kube.Client
	deployment types.UID

	mu sync.Mutex
	// loaded reports whether uid and issued are known; uid is empty if there is no Secret.
	loaded bool
	// doubtful reports whether a write has failed, so that the Secret has to be read before tokens can be removed.
	doubtful bool
	uid      types.UID
	// issued are the tokens by key; the zero value stands for one that cannot be read.
	issued map[string]oidctoken.Issued
}

// prepare forgets the Secrets of deployments that do not exist, and all of the account when a reconciliation was requested
// with the annotation: so a Secret that was deleted is noticed.
func (s *secrets) prepare(c *v1alpha1.OidcTokenConfig, deployments []v1alpha1.Deployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, request := client.ObjectKeyFromObject(c), c.Annotations[v1alpha1.AnnotationReconcile]
	requested := s.requested[key] != request
	s.requested[key] = request
	exists := make(map[string]types.UID, len(deployments))
	for i := range deployments {
		exists[deployments[i].Name] = deployments[i].UID
	}
	maps.DeleteFunc(s.byDeployment, func(key client.ObjectKey, known *tokenSecret) bool {
		return key.Namespace == c.Namespace && (requested || exists[key.Name] != known.deployment)
	})
}

// of returns the Secret of a deployment.
func (s *secrets) of(d *v1alpha1.Deployment) *tokenSecret {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(d)
	known := s.byDeployment[key]
	if known == nil {
		known = &tokenSecret{client: s.client, deployment: d.UID}
		s.byDeployment[key] = known
	}
	return known
}

// issuing is one reconciliation that issues tokens.
type issuing struct {
	account *v1alpha1.Account
	region  string
	now     time.Time
	signer  *signer
	// next is when the first token has to be renewed.
	next time.Time
}

// wait returns the time until the next renewal, 0 without tokens.
func (i *issuing) wait() time.Duration {
	if i.next.IsZero() {
		return 0
	}
	return max(i.next.Sub(i.now), time.Second)
}

// update brings the tokens of a configuration in the Secret of a deployment up to date. applies reports whether the
// deployment has them.
func (s *secrets) update(ctx context.Context, run *issuing, c *v1alpha1.OidcTokenConfig, d *v1alpha1.Deployment, applies bool) error {
	applies = applies && d.Labels[v1alpha1.LabelID] != ""
	secret := s.of(d)
	secret.mu.Lock()
	defer secret.mu.Unlock()
	changes := map[string][]byte{}
	if !applies {
		if err := secret.removal(ctx, d, changes, c.Name); err != nil {
			return err
		}
	} else {
		if err := secret.load(ctx, d); err != nil {
			return err
		}
		if err := secret.renewal(ctx, run, c, d, changes); err != nil {
			return err
		}
		if err := secret.orphans(ctx, c.Namespace, changes); err != nil {
			return err
		}
	}
	if err := secret.write(ctx, d, changes); err != nil {
		return err
	}
	if !applies {
		return nil
	}
	for _, key := range oidctoken.SecretKeys(c.Name) {
		if at := secret.issued[key].RenewalTime(string(d.UID)); run.next.IsZero() || at.Before(run.next) {
			run.next = at
		}
	}
	return nil
}

// withdraw removes the tokens of a configuration from all Secrets that are known to have them.
func (s *secrets) withdraw(ctx context.Context, config client.ObjectKey) error {
	s.mu.Lock()
	known := maps.Clone(s.byDeployment)
	delete(s.requested, config)
	s.mu.Unlock()
	var failures []error
	for key, secret := range known {
		if key.Namespace == config.Namespace {
			failures = append(failures, secret.withdraw(ctx, key, config.Name))
		}
	}
	return errors.Join(failures...)
}

func (t *tokenSecret) withdraw(ctx context.Context, deployment client.ObjectKey, config string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name, UID: t.deployment}}
	changes := map[string][]byte{}
	if err := t.removal(ctx, d, changes, config); err != nil {
		return err
	}
	return t.write(ctx, d, changes)
}

// removal adds the removal of the tokens of a configuration to changes, if the Secret is known to have them or a write of
// it has failed.
func (t *tokenSecret) removal(ctx context.Context, d *v1alpha1.Deployment, changes map[string][]byte, config string) error {
	if t.doubtful {
		if err := t.load(ctx, d); err != nil {
			return err
		}
	}
	if !t.loaded {
		return nil
	}
	for _, key := range oidctoken.SecretKeys(config) {
		if _, ok := t.issued[key]; ok {
			changes[key] = nil
		}
	}
	return nil
}

// renewal adds the tokens of a configuration that have to be issued to changes.
func (t *tokenSecret) renewal(ctx context.Context, run *issuing, c *v1alpha1.OidcTokenConfig, d *v1alpha1.Deployment, changes map[string][]byte) error {
	for component, key := range oidctoken.SecretKeys(c.Name) {
		claims, err := oidctoken.Claims(c, oidctoken.Workload{
			Account: run.account, Deployment: d.Name, ID: d.Labels[v1alpha1.LabelID], Component: component, Region: run.region,
		})
		if err != nil {
			return err
		}
		if t.issued[key].IsCurrent(claims, run.account.Status.OidcTokenKeys, string(d.UID), run.now) {
			continue
		}
		token, err := run.signer.sign(ctx, claims)
		if err != nil {
			return err
		}
		changes[key] = []byte(token)
	}
	return nil
}

// orphans adds the removal of the tokens of configurations that do not exist to changes.
func (t *tokenSecret) orphans(ctx context.Context, namespace string, changes map[string][]byte) error {
	for key := range t.issued {
		if _, ok := changes[key]; ok {
			continue
		}
		config, _, _ := strings.Cut(key, ".")
		err := t.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: config}, &v1alpha1.OidcTokenConfig{})
		if apierrors.IsNotFound(err) {
			changes[key] = nil
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load reads the Secret if it is not known.
func (t *tokenSecret) load(ctx context.Context, d *v1alpha1.Deployment) error {
	if t.loaded {
		return nil
	}
	t.uid, t.issued = "", map[string]oidctoken.Issued{}
	name := client.ObjectKey{Namespace: d.Namespace, Name: engine.TokensName(d.Name)}
	secret := &corev1.Secret{}
	err := t.client.Live().Get(ctx, name, secret)
	absent := apierrors.IsNotFound(err)
	if err != nil && !absent {
		return describe(name, "read", err)
	}
	t.doubtful = false
	switch {
	case absent:
		t.loaded = true
		return nil
	case !metav1.IsControlledBy(secret, d):
		return notOurs(secret)
	}
	t.uid, t.loaded = secret.UID, true
	for key, token := range secret.Data {
		t.issued[key], _ = oidctoken.Read(string(token))
	}
	return nil
}

// notOurs returns the error for a Secret that is not controlled by the deployment: it is being deleted with an earlier
// deployment of the same name, or is that of a user.
func notOurs(secret *corev1.Secret) error {
	if owner := metav1.GetControllerOf(secret); owner != nil && owner.Kind == "Deployment" {
		return apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it belongs to an earlier deployment of the same name"))
	}
	return fmt.Errorf("secret %q is not one of Quoin's; delete it: it has the name of that with the tokens", secret.Name)
}

// write writes changes of the Secret; nil values remove keys. It creates the Secret if there is none.
func (t *tokenSecret) write(ctx context.Context, d *v1alpha1.Deployment, changes map[string][]byte) error {
	if len(changes) == 0 {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: engine.TokensName(d.Name)}}
	var err error
	if t.uid == "" {
		secret.Labels, secret.Data = engine.TokenLabels(d.Name), changes
		if err := controllerutil.SetControllerReference(d, secret, t.client.Scheme(), controllerutil.WithBlockOwnerDeletion(false)); err != nil {
			return err
		}
		err = t.client.Client.Create(ctx, secret)
	} else {
		// The UID rejects the patch if the Secret is another one.
		patch, encodeErr := json.Marshal(map[string]any{"metadata": map[string]any{"uid": t.uid}, "data": changes})
		if encodeErr != nil {
			return encodeErr
		}
		err = t.client.Client.Patch(ctx, secret, client.RawPatch(types.MergePatchType, patch))
	}
	if err != nil {
		t.loaded, t.doubtful = false, true // the write may have happened
		if apierrors.IsNotFound(err) {
			err = apierrors.NewConflict(corev1.Resource("secrets"), secret.Name, errors.New("it was deleted"))
		}
		return describe(client.ObjectKeyFromObject(secret), "write", err)
	}
	t.uid = secret.UID
	for _, key := range slices.Collect(maps.Keys(changes)) {
		if changes[key] == nil {
			delete(t.issued, key)
			continue
		}
		t.issued[key], _ = oidctoken.Read(string(changes[key]))
	}
	return nil
}

// describe returns an error of a request for a Secret, with its name.
func describe(name client.ObjectKey, verb string, err error) error {
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return &accessError{name.Namespace, name.Name}
	}
	return fmt.Errorf("%s secret %q: %w", verb, name.Name, err)
}
