package environment

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// use is the state of an on-demand environment.
type use struct {
	isIdle bool
	// left is the time until it is idle; zero when it never is, or is already.
	left time.Duration
}

// useOf derives the use from the annotations that the gateway writes. There is no other state:
// an environment is awake for spec.idleSeconds after the last wake request or use.
func useOf(env *v1alpha1.Environment, now time.Time) use {
	if env.Spec.IdleSeconds == nil {
		return use{}
	}
	var last time.Time
	for _, name := range []string{v1alpha1.AnnotationWakeRequested, v1alpha1.AnnotationLastUsed} {
		// The gateway writes only valid times; other values are ignored.
		if at, err := time.Parse(time.RFC3339, env.Annotations[name]); err == nil && at.After(last) {
			last = at
		}
	}
	left := last.Add(time.Duration(*env.Spec.IdleSeconds) * time.Second).Sub(now)
	return use{isIdle: left <= 0, left: max(left, 0)}
}

// of returns the outcome for the use: asleep, or requeued for the time when it is idle.
func (u use) of(o reconciler.Outcome) reconciler.Outcome {
	switch {
	case u.isIdle && o.IsDone():
		return asleep()
	case u.left > 0:
		// With jitter, so that environments that were woken together are not stopped together.
		return o.RequeueIn(wait.Jitter(u.left+time.Second, 0.02))
	}
	return o
}

func asleep() reconciler.Outcome {
	return reconciler.Done("Asleep: the next request wakes it").WithReason(v1alpha1.ReasonAsleep)
}

// neverUsed returns the outcome of an environment that was never used: only its credentials
// exist, and its workloads are created with the first wake request.
func neverUsed(ctx context.Context, s *scope) *reconciler.Outcome {
	err := s.Get(ctx, client.ObjectKey{Namespace: s.Object.Namespace, Name: engine.APIName(s.Object.Name)}, &appsv1.Deployment{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return failed(err)
	}
	s.Object.Status.Active = false
	setAvailable(s.Object)
	o := asleep()
	return &o
}
