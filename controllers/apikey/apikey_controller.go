// Package apikey reconciles ApiKeys: it generates the token of a key without one, and reports
// whether the key is valid.
package apikey

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/tenancy"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-apikey"

type scope = reconciler.Scope[*v1alpha1.ApiKey]

// New returns the reconciler of ApiKeys.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.ApiKey] {
	return &reconciler.Reconciler[*v1alpha1.ApiKey]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:  func() *v1alpha1.ApiKey { return &v1alpha1.ApiKey{} },
		Work: work,
	}
}

func work(ctx context.Context, s *scope) reconciler.Outcome {
	k := s.Object
	if _, o := tenancy.Account(ctx, s); o != nil {
		return *o
	}
	owner, err := ownerOf(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	reason, message := apikey.Refusal(k, owner, s.Clock.Now())
	if reason == v1alpha1.ReasonRevoked || reason == v1alpha1.ReasonExpired {
		return reconciler.Stalled(reason, message)
	}
	o := token(ctx, s)
	switch {
	case o != nil:
	case reason != "":
		o = stalled(reason, message)
	default:
		o = valid(ctx, s)
	}
	if k.Spec.ExpirationTime == nil {
		return *o
	}
	// No other event triggers a reconciliation when the key expires.
	return o.RequeueIn(k.Spec.ExpirationTime.Sub(s.Clock.Now()))
}

// ownerOf returns the user that owns the key; nil when there is none.
func ownerOf(ctx context.Context, s *scope) (*v1alpha1.ScimUser, error) {
	if s.Object.Spec.Owner == nil {
		return nil, nil
	}
	owner := &v1alpha1.ScimUser{}
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: s.Object.Spec.Owner.ScimUser}, owner)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read owner: %w", err)
	}
	return owner, nil
}

// valid returns the outcome of a valid key, with those of its deployments that do not exist.
func valid(ctx context.Context, s *scope) *reconciler.Outcome {
	var missing []string
	if len(s.Object.Spec.Deployments) > 0 {
		list := &v1alpha1.DeploymentList{}
		if err := s.List(ctx, list, client.InNamespace(s.Object.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return failed(fmt.Errorf("list deployments: %w", err))
		}
		for _, reference := range s.Object.Spec.Deployments {
			if !slices.ContainsFunc(list.Items, func(d v1alpha1.Deployment) bool { return d.IsReferredToBy(reference) }) {
				missing = append(missing, fmt.Sprintf("%q", reference))
			}
		}
	}
	o := reconciler.Done(describe(&s.Object.Spec))
	if len(missing) > 0 {
		o = o.WithDetail("spec.deployments: does not exist: " + strings.Join(missing, ", "))
	}
	return &o
}

// describe returns what a valid key allows.
func describe(spec *v1alpha1.ApiKeySpec) string {
	granted := "the permission Admin, because spec.permissions is absent: it allows everything"
	switch {
	case slices.Contains(spec.Permissions, v1alpha1.PermissionAdmin):
		granted = "the permission Admin: it allows everything"
	case len(spec.Permissions) == 1:
		granted = fmt.Sprintf("the permission %s", spec.Permissions[0])
	case len(spec.Permissions) > 1:
		names := make([]string, len(spec.Permissions))
		for i, name := range spec.Permissions {
			names[i] = string(name)
		}
		slices.Sort(names)
		granted = "the permissions " + strings.Join(names, ", ")
	}
	scope := "all deployments"
	switch n := len(spec.Deployments); {
	case n == 1:
		scope = "1 deployment"
	case n > 1:
		scope = fmt.Sprintf("%d deployments", n)
	}
	text := fmt.Sprintf("Has %s, on %s of the account", granted, scope)
	if spec.Owner != nil {
		text += fmt.Sprintf("; of that, it allows what user %q may do", spec.Owner.ScimUser)
	}
	return text
}
