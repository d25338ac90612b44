// Package view reads a Deployment and the objects that belong to it, as far as the caller may.
package view

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// View is a Deployment and the objects that belong to it. Objects are sorted: production first, then by
// name.
type View struct {
	Deployment *v1alpha1.Deployment
	// Account and Channel are nil if they do not exist or the caller may not read them.
	Account      *v1alpha1.Account
	Channel      *v1alpha1.ReleaseChannel
	Environments []v1alpha1.Environment
	Branches     []v1alpha1.Branch
	Pods         []corev1.Pod
	// Events are the warnings about pods and workloads of the namespace, newest first.
	Events []corev1.Event
	// Unreadable are the resources that the caller may not read.
	Unreadable []string
}

// Read reads the Deployment with a key. Only an error of the Deployment itself, or one that is no
// missing permission, is returned.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey, withEvents bool) (*View, error) {
	v := &View{Deployment: &v1alpha1.Deployment{}}
	if err := c.Get(ctx, key, v.Deployment); err != nil {
		return nil, err
	}
	in := client.InNamespace(key.Namespace)
	of := client.MatchingFields{"spec.deploymentRef.name": key.Name}
	labelled := client.MatchingLabels{v1alpha1.LabelDeployment: key.Name}
	for _, step := range []struct {
		resource string
		read     func() error
	}{
		{"accounts", func() error { return v.readAccount(ctx, c) }},
		{"releasechannels", func() error { return v.readChannel(ctx, c) }},
		{"environments", func() error {
			list := &v1alpha1.EnvironmentList{}
			err := c.List(ctx, list, in, of)
			v.Environments = list.Items
			return err
		}},
		{"branches", func() error { return v.readBranches(ctx, c) }},
		{"pods", func() error {
			list := &corev1.PodList{}
			err := c.List(ctx, list, in, labelled)
			v.Pods = list.Items
			return err
		}},
		{"events", func() error {
			if !withEvents {
				return nil
			}
			return v.readEvents(ctx, c)
		}},
	} {
		err := step.read()
		switch {
		case apierrors.IsForbidden(err):
			v.Unreadable = append(v.Unreadable, step.resource)
		case err != nil:
			return nil, err
		}
	}
	v.sort()
	return v, nil
}

func (v *View) readAccount(ctx context.Context, c client.Reader) error {
	list := &v1alpha1.AccountList{}
	if err := c.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Spec.Namespace == v.Deployment.Namespace {
			v.Account = &list.Items[i]
		}
	}
	return nil
}

func (v *View) readChannel(ctx context.Context, c client.Reader) error {
	channel := &v1alpha1.ReleaseChannel{}
	err := c.Get(ctx, client.ObjectKey{Name: v.Deployment.Spec.ReleaseChannel}, channel)
	if err == nil {
		v.Channel = channel
	}
	return client.IgnoreNotFound(err)
}

// readBranches reads the branches that are declared or have an environment: a repository may have
// thousands of others.
func (v *View) readBranches(ctx context.Context, c client.Reader) error {
	list := &v1alpha1.BranchList{}
	if err := c.List(ctx, list, client.InNamespace(v.Deployment.Namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		b := &list.Items[i]
		served := slices.ContainsFunc(v.Environments, func(e v1alpha1.Environment) bool {
			return e.Spec.BranchRef != nil && e.Spec.BranchRef.Name == b.Name
		})
		if b.Spec.DeploymentRef.Name == v.Deployment.Name && (served || b.Labels[v1alpha1.LabelRemote] != "true") {
			v.Branches = append(v.Branches, *b)
		}
	}
	return nil
}

// readEvents reads the warnings about pods and workloads: all of them, because a list begins with the first names, not with
// the newest events.
func (v *View) readEvents(ctx context.Context, c client.Reader) error {
	in, warnings := client.InNamespace(v.Deployment.Namespace), client.MatchingFields{"type": corev1.EventTypeWarning}
	for list, err := range kube.Pages(ctx, c, &corev1.EventList{}, in, warnings) {
		if err != nil {
			return err
		}
		for i := range list.Items {
			if slices.Contains([]string{"Pod", "ReplicaSet", "StatefulSet", "Deployment"}, list.Items[i].InvolvedObject.Kind) {
				v.Events = append(v.Events, list.Items[i])
			}
		}
	}
	return nil
}

func (v *View) sort() {
	types := []v1alpha1.EnvironmentType{v1alpha1.EnvironmentProduction, v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment}
	order := func(e v1alpha1.Environment) int { return slices.Index(types, e.Spec.Type) }
	slices.SortFunc(v.Environments, func(a, b v1alpha1.Environment) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), strings.Compare(a.Name, b.Name))
	})
	slices.SortFunc(v.Branches, func(a, b v1alpha1.Branch) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(v.Events, func(a, b corev1.Event) int { return TimeOf(&b).Compare(TimeOf(&a).Time) })
}

// TimeOf returns the time of the last occurrence of an event.
func TimeOf(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.Time(e.Series.LastObservedTime)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.Time(e.EventTime)
	}
	return e.CreationTimestamp
}

// Ready returns the condition Ready of an object. Its status is Unknown if there is none, or if it was
// true for an earlier spec.
func Ready(o v1alpha1.Object) metav1.Condition {
	if c := meta.FindStatusCondition(o.Common().Conditions, v1alpha1.ConditionReady); c != nil {
		ready := *c
		if ready.Status == metav1.ConditionTrue && ready.ObservedGeneration != o.GetGeneration() {
			ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonProgressing, "the current spec is not in effect yet"
		}
		return ready
	}
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: "NotReported", Message: "the controller has not reported a state yet"}
}

// IsStalled reports whether an object needs a change by a user.
func IsStalled(o v1alpha1.Object) bool {
	return meta.IsStatusConditionTrue(o.Common().Conditions, v1alpha1.ConditionStalled)
}

// PodsOf returns the pods of an environment.
func (v *View) PodsOf(environment string) []corev1.Pod {
	var pods []corev1.Pod
	for i := range v.Pods {
		if v.Pods[i].Labels[v1alpha1.LabelEnvironment] == environment {
			pods = append(pods, v.Pods[i])
		}
	}
	return pods
}

// BranchOf returns the branch of an environment, or nil.
func (v *View) BranchOf(e *v1alpha1.Environment) *v1alpha1.Branch {
	for i := range v.Branches {
		if e.Spec.BranchRef != nil && v.Branches[i].Name == e.Spec.BranchRef.Name {
			return &v.Branches[i]
		}
	}
	return nil
}
