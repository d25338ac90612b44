package recording

import (
	"cmp"
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
)

// verb is what a change does to an object.
type verb int

// The verbs.
const (
	create verb = iota
	update
	remove
)

// name returns the name of the event of a verb.
func (v verb) name(of v1alpha1.Events) string {
	return [...]string{of.Create, of.Update, of.Delete}[v]
}

// recordedKind is a kind whose changes are recorded: one that v1alpha1.Kinds declares events for.
type recordedKind struct{ v1alpha1.Kind }

// recordedKindOf returns the recorded kind of a name, nil if its changes are not recorded.
func recordedKindOf(name string) *recordedKind {
	kind, found := v1alpha1.KindOf(name)
	if !found || !kind.Recorded() {
		return nil
	}
	return &recordedKind{kind}
}

// event returns the event of a change to an object, without its actor.
func (k *recordedKind) event(ctx context.Context, reader client.Reader, v verb, source audit.Source, documents beforeAndAfter) audit.Event {
	shown := documents.shown()
	names := k.Events
	if source == audit.SourceSCIM {
		names = cmp.Or(k.ScimEvents, k.Events)
	}
	return audit.Event{
		Name: v.name(names), Source: source, Object: k.object(shown), Deployment: k.deployment(ctx, reader, shown),
	}
}

// object returns the description of an object in events.
func (k *recordedKind) object(o client.Object) audit.Object {
	return audit.Object{Kind: k.Name(), Namespace: o.GetNamespace(), Name: o.GetName(), ID: o.GetLabels()[v1alpha1.LabelID]}
}

// deployment returns the deployment that an object belongs to: itself, or the one that
// spec.deploymentRef names. It is empty if there is none, and has no id if the Deployment does not
// exist.
func (k *recordedKind) deployment(ctx context.Context, reader client.Reader, d *document) audit.Deployment {
	if k.Name() == "Deployment" {
		displayName, _ := d.Spec["displayName"].(string)
		return audit.Deployment{ID: d.Labels[v1alpha1.LabelID], Name: cmp.Or(displayName, d.Name)}
	}
	reference, _ := d.Spec["deploymentRef"].(map[string]any)
	name, _ := reference["name"].(string)
	if name == "" {
		return audit.Deployment{}
	}
	found := &v1alpha1.Deployment{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, found); err != nil {
		return audit.Deployment{Name: name}
	}
	return DeploymentOf(found)
}

// ObjectOf returns the description of a Deployment as the object of an event.
func ObjectOf(d *v1alpha1.Deployment) audit.Object { return recordedKindOf("Deployment").object(d) }

// DeploymentOf returns the description of a Deployment that the object of an event belongs to.
func DeploymentOf(d *v1alpha1.Deployment) audit.Deployment {
	return audit.Deployment{ID: d.Labels[v1alpha1.LabelID], Name: cmp.Or(d.Spec.DisplayName, d.Name)}
}
