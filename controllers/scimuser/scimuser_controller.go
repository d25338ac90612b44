// Package scimuser reconciles ScimUsers: it claims the user name and reports problems of users that were
// not created over SCIM.
package scimuser

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/scim"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-scimuser"

type scope = reconciler.Scope[*v1alpha1.ScimUser]

// New returns the reconciler of ScimUsers.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock) *reconciler.Reconciler[*v1alpha1.ScimUser] {
	return &reconciler.Reconciler[*v1alpha1.ScimUser]{
		Client: c.As(FieldManager), Recorder: scim.Warnings(recorder), Clock: clk,
		New:  func() *v1alpha1.ScimUser { return &v1alpha1.ScimUser{} },
		Work: work,
	}
}

// work performs the steps in order. It reads from the cache only, and writes the status once after a
// change.
func work(ctx context.Context, s *scope) reconciler.Outcome {
	u := s.Object
	if u.LostDeprovisionTime() {
		return *scim.Restore(ctx, s, func(u *v1alpha1.ScimUser) { u.Spec.DeprovisionTime = u.Status.DeprovisionTime.DeepCopy() })
	}
	u.Status.DeprovisionTime = nil
	if v1alpha1.HasSCIMWrite(u) {
		u.Status.DeprovisionTime = u.Spec.DeprovisionTime.DeepCopy()
	}
	u.Status.LastModified = new(metav1.NewTime(lastmodified.Of(u)))
	u.Status.Active = new(u.IsActive())
	reportDeactivation(u)
	undeclared, o := scim.Admit(ctx, s, claims.UserName, "User", u.Spec.Extensions)
	if o != nil {
		return *o
	}
	if err := claims.EnsureDeprovisioned(ctx, s.Client, u); err != nil {
		return reconciler.Failed(err)
	}
	manager, err := missingManager(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	attributes, o := checkAttributes(ctx, s)
	if o != nil {
		return *o
	}
	roles, err := scim.UnknownRoles(ctx, s.Client, u.Namespace, u.Spec.AccountRoles)
	if err != nil {
		return reconciler.Failed(err)
	}
	done := reconciler.Done("The user is in effect")
	for _, note := range []string{undeclared, manager, attributes, roles} {
		if note != "" {
			done = done.WithDetail(note)
		}
	}
	return done
}

// reportDeactivation sets the condition Deprovisioned while a SCIM client has deactivated the user.
func reportDeactivation(u *v1alpha1.ScimUser) {
	if u.Spec.DeprovisionTime == nil {
		meta.RemoveStatusCondition(&u.Status.Conditions, v1alpha1.ConditionDeprovisioned)
		return
	}
	meta.SetStatusCondition(&u.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDeprovisioned, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDeactivatedOverSCIM,
		Message: fmt.Sprintf("A SCIM client deactivated the user at %s. spec.active has no effect until a SCIM client activates the user or spec.deprovisionTime is removed",
			u.Spec.DeprovisionTime.UTC().Format(time.RFC3339)),
		ObservedGeneration: u.Generation,
	})
}

// missingManager returns a note on a manager that does not exist. This is not an error, because clients
// provision users in any order.
func missingManager(ctx context.Context, s *scope) (string, error) {
	name := managerOf(s.Object)
	if name == "" {
		return "", nil
	}
	found, err := scim.Exists(ctx, s.Client, s.Object.Namespace, name, &v1alpha1.ScimUser{})
	if err != nil || found {
		return "", err
	}
	return fmt.Sprintf("spec.enterprise.manager.value: there is no user %q", name), nil
}

// managerOf returns the name of a user's manager; empty if there is none.
func managerOf(u *v1alpha1.ScimUser) string {
	if u.Spec.Enterprise == nil || u.Spec.Enterprise.Manager == nil {
		return ""
	}
	return u.Spec.Enterprise.Manager.Value
}
