package main

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// notObserved is the message of objects whose spec the controller has not observed.
const notObserved = "Waiting for the controller to observe the spec"

// generation of the examples.
const generation = 2

// example is an object in a state, and the health that Argo CD shows.
type example struct {
	name            string
	outcome         *reconciler.Outcome // nil if the controller has not seen the object
	ahead           int64               // number of changes of the spec since the outcome
	health, message string
}

// examples returns an example of every state of a kind. Their conditions are those that the controllers
// write for an outcome.
func examples(kind v1alpha1.Kind) []example {
	done := reconciler.Done("The spec is in effect")
	progressing := reconciler.Progressing(v1alpha1.ReasonProgressing, "Work is in progress")
	failing := reconciler.Failing(v1alpha1.ReasonError, "the API server did not respond", time.Minute)
	stalled := reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec.x: must be y")
	all := []example{
		{"healthy", &done, 0, "Healthy", "Succeeded: The spec is in effect"},
		{"progressing_new", nil, 0, "Progressing", notObserved},
		{"progressing_changed", &done, 1, "Progressing", notObserved},
		{"progressing_work", &progressing, 0, "Progressing", "Progressing: Work is in progress"},
		{"progressing_retry", &failing, 0, "Progressing", "ReconcileError: the API server did not respond"},
		{"progressing_corrected", &stalled, 1, "Progressing", notObserved},
		{"degraded", &stalled, 0, "Degraded", "InvalidSpec: spec.x: must be y"},
	}
	switch kind.Object.(type) {
	case *v1alpha1.Deployment, *v1alpha1.ReleaseChannel:
		suspended := reconciler.Done("Reconciliation is suspended").WithReason(v1alpha1.ReasonSuspended)
		all = append(all, example{"suspended", &suspended, 0, "Suspended", "Suspended: Reconciliation is suspended"})
	case *v1alpha1.Environment, *v1alpha1.Branch:
		asleep := reconciler.Done("No pods: idle").WithReason(v1alpha1.ReasonAsleep)
		all = append(all, example{"healthy_asleep", &asleep, 0, "Healthy", "Asleep: No pods: idle"})
	}
	return all
}

// object returns the object of the example as YAML, without its spec, which does not affect its health.
func (e example) object(kind v1alpha1.Kind) (string, error) {
	obj, hasConditions := kind.Object.DeepCopyObject().(v1alpha1.Object)
	if !hasConditions {
		return "", fmt.Errorf("%T has no conditions", kind.Object)
	}
	obj.SetGeneration(generation - e.ahead)
	obj.Common().ObservedGeneration = -1
	if e.outcome != nil {
		reconciler.Summarise(obj, *e.outcome)
	}
	conditions := obj.Common().Conditions
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	metadata := map[string]any{"name": "example", "generation": generation}
	if !kind.Cluster {
		metadata["namespace"] = "demo"
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind.Name(), "metadata": metadata, "status": obj.Common(),
	})
	return string(text), err
}
