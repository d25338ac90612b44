// Package oidctokenconfig reconciles OidcTokenConfigs: it issues the tokens of deployments into Secrets, and renews them before
// they expire.
package oidctokenconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oidctoken"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-oidctokenconfig"

// Options configure the reconciler.
type Options struct {
	// Namespace is that of Quoin, with the private keys.
	Namespace string
	// Region is the region of the cluster, for subjects of tokens.
	Region string
	// IDs allocates numbers.
	IDs *ids.Allocator
}

type scope = reconciler.Scope[*v1alpha1.OidcTokenConfig]

type configReconciler struct {
	Options
	numbers tenancy.Numbers[*v1alpha1.OidcTokenConfig]
	secrets *secrets
}

// New returns the reconciler of OidcTokenConfigs.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.OidcTokenConfig] {
	writer := c.As(FieldManager)
	numbers := tenancy.Numbers[*v1alpha1.OidcTokenConfig]{
		Kind: "OidcTokenConfig", Counter: ids.OidcTokenConfigs, IDs: opts.IDs, Status: func(c *v1alpha1.OidcTokenConfig) *int64 { return &c.Status.ID },
	}
	r := &configReconciler{opts, numbers, newSecrets(writer)}
	return &reconciler.Reconciler[*v1alpha1.OidcTokenConfig]{
		Client: writer, Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.OidcTokenConfig { return &v1alpha1.OidcTokenConfig{} },
		Work: r.work,
		Forget: func(ctx context.Context, deleted client.ObjectKey) {
			if err := r.secrets.withdraw(ctx, deleted); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Cannot remove the tokens of a deleted OIDC token configuration; they expire within an hour")
			}
		},
	}
}

func (r *configReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	c := s.Object
	account, o := tenancy.Account(ctx, s)
	if o != nil {
		return *o
	}
	list := &v1alpha1.OidcTokenConfigList{}
	if err := s.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return reconciler.Failed(fmt.Errorf("list OIDC token configurations: %w", err))
	}
	all := oidctoken.Items(list)
	if o := r.numbers.Assign(ctx, s, account.Name, all); o != nil {
		return *o
	}
	c.Status.Issuer = oidctoken.Issuer(account)
	c.Status.Audience = oidctoken.Audience(c, c.Status.Issuer)
	if o, ok := notInEffect(c, all); ok {
		c.Status.Mounted = false
		if err := r.secrets.withdraw(ctx, client.ObjectKeyFromObject(c)); err != nil {
			return reconciler.Failed(err)
		}
		return o
	}
	if len(account.Status.OidcTokenKeys) == 0 {
		return reconciler.Progressing(v1alpha1.ReasonProgressing, "Waiting for the signing key of the account").Transient()
	}
	return r.issue(ctx, s, account, all)
}

// notInEffect returns the outcome of a configuration that is in effect for no deployment, and whether it is one.
func notInEffect(c *v1alpha1.OidcTokenConfig, all []*v1alpha1.OidcTokenConfig) (reconciler.Outcome, bool) {
	if oidctoken.Suspended(c) {
		return reconciler.Done("Suspended: no tokens are issued").WithReason(v1alpha1.ReasonSuspended), true
	}
	if err := oidctoken.Check(c); err != nil {
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec."+err.Error()), true
	}
	if oidctoken.ExceedsLimit(all, c) {
		return reconciler.Stalled(v1alpha1.ReasonLimitExceeded, fmt.Sprintf(
			"the account has %d OIDC token configurations, and only the first %d are in effect; delete one", len(all), oidctoken.MaxPerAccount)), true
	}
	return reconciler.Outcome{}, false
}

// issue issues the tokens of all deployments that the configuration applies to, and returns the outcome.
func (r *configReconciler) issue(ctx context.Context, s *scope, account *v1alpha1.Account, all []*v1alpha1.OidcTokenConfig) reconciler.Outcome {
	c := s.Object
	deployments := &v1alpha1.DeploymentList{}
	if err := s.List(ctx, deployments, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return reconciler.Failed(fmt.Errorf("list deployments: %w", err))
	}
	r.secrets.prepare(c, deployments.Items)
	run := issuing{account: account, region: r.Region, now: s.Clock.Now(), signer: &signer{reader: s.Live(), namespace: r.Namespace, account: account, now: s.Clock.Now()}}
	var conflict *reconciler.Outcome
	var failures []error
	for i := range deployments.Items {
		d := &deployments.Items[i]
		field, rival := oidctoken.Rival(all, c, d.Name)
		applies := oidctoken.AppliesTo(c, d.Name) && d.DeletionTimestamp.IsZero()
		if rival != nil && applies && conflict == nil {
			o := reconciler.Stalled(v1alpha1.ReasonNameTaken, fmt.Sprintf(
				"spec.%s: OidcTokenConfig %q has the same one in deployment %q; choose another one", field, rival.Name, d.Name))
			conflict = &o
		}
		if err := r.secrets.update(ctx, &run, c, d, applies && rival == nil); err != nil {
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 {
		return failed(failures).RequeueIn(run.wait())
	}
	c.Status.Mounted = true
	if conflict != nil {
		return conflict.RequeueIn(run.wait())
	}
	if missing := missingDeployment(c, deployments.Items); missing != "" {
		return reconciler.NotFound(v1alpha1.ReasonDeploymentNotFound, fmt.Sprintf("spec.deployments: deployment %q does not exist", missing)).RequeueIn(run.wait())
	}
	return reconciler.Done("Tokens are issued").RequeueIn(run.wait())
}

// retryInterval is the time between two attempts to access Secrets without permission.
const retryInterval = time.Minute

// failed returns the outcome of failures.
func failed(failures []error) reconciler.Outcome {
	for _, err := range failures {
		var access *accessError
		if errors.As(err, &access) {
			return reconciler.Failing(v1alpha1.ReasonTokenSecretInaccessible, access.Error(), retryInterval)
		}
	}
	return reconciler.Failed(failures[0])
}

// missingDeployment returns the first name in spec.deployments that is not that of a deployment.
func missingDeployment(c *v1alpha1.OidcTokenConfig, deployments []v1alpha1.Deployment) string {
	for _, ref := range c.Spec.Deployments {
		if !slices.ContainsFunc(deployments, func(d v1alpha1.Deployment) bool { return d.Name == ref.Name }) {
			return ref.Name
		}
	}
	return ""
}
