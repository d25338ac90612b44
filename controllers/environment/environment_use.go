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

// use is whether an environment that is woken by use is in use.
type use struct {
	isIdle bool
	// left until it is idle; zero when it never is, or is already.
	left time.Duration
}

// useOf says it by the annotations that the gateway writes. Nothing else is remembered: an
// environment is awake for as long after it was last wanted or used as its spec says, so a
// request is newer than the last sleep just when it ends it.
func useOf(env *v1alpha1.Environment, now time.Time) use {
	if env.Spec.IdleSeconds == nil {
		return use{}
	}
	var last time.Time
	for _, name := range []string{v1alpha1.AnnotationWakeRequested, v1alpha1.AnnotationLastUsed} {
		// What is no time was not written by the gateway, and says nothing.
		if at, err := time.Parse(time.RFC3339, env.Annotations[name]); err == nil && at.After(last) {
			last = at
		}
	}
	left := last.Add(time.Duration(*env.Spec.IdleSeconds) * time.Second).Sub(now)
	return use{isIdle: left <= 0, left: max(left, 0)}
}

// of adds to an outcome what the use of the environment has to do with it: that it sleeps,
// or when it will.
func (u use) of(o reconciler.Outcome) reconciler.Outcome {
	switch {
	case u.isIdle && o.IsDone():
		return asleep()
	case u.left > 0:
		// A little late, so that many environments that were woken at once do not end at once.
		return o.RequeueIn(wait.Jitter(u.left+time.Second, 0.02))
	}
	return o
}

func asleep() reconciler.Outcome {
	return reconciler.Done("Asleep: the next request wakes it").WithReason(v1alpha1.ReasonAsleep)
}

// untouched ends the work on an environment that nobody has ever used: nothing but its
// credentials was made for it, and nothing is until somebody does.
func untouched(ctx context.Context, s *scope) *reconciler.Outcome {
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
