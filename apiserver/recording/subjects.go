package recording

import (
	"cmp"
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
)

// verb is what is done to an object.
type verb int

// The verbs.
const (
	create verb = iota
	update
	remove
)

// subject is a kind of object whose changes are recorded.
type subject struct {
	kind string
	// names of the events, by verb.
	names [3]string
	// viaSCIM are the names when an identity provider does it; those above when empty.
	viaSCIM [3]string
	// hidden is a field that says nothing to people; empty for none.
	hidden string
	// deployment tells to which one an object belongs; nil when the kind belongs to none.
	deployment func(ctx context.Context, reader client.Reader, d *document) audit.Deployment
}

// subjects are the kinds that people and programs change. What the controllers make of them is
// not: an environment comes from its deployment, a claim from its user.
var subjects = []subject{
	{
		kind:  "Account",
		names: [3]string{audit.CreatedObject, audit.UpdatedAccountSettings, audit.DeletedObject},
	},
	{
		kind:       "Deployment",
		names:      [3]string{audit.CreatedDeployment, audit.UpdatedDeploymentConfiguration, audit.DeletedDeployment},
		deployment: itself,
	},
	{
		kind:       "Branch",
		names:      [3]string{audit.CreatedGitBranch, audit.UpdatedBranch, audit.DeletedGitBranch},
		deployment: referred,
	},
	{
		kind:  "ApiKey",
		names: [3]string{audit.CreatedAPIKey, audit.UpdatedAPIKey, audit.DeletedAPIKey},
	},
	{
		kind:    "ScimUser",
		names:   [3]string{audit.CreatedUser, audit.UpdatedUserProfile, audit.DeletedUser},
		viaSCIM: [3]string{audit.CreatedUserViaSCIM, audit.UpdatedUserViaSCIM, audit.DeletedUserViaSCIM},
	},
	{
		kind:    "ScimGroup",
		names:   [3]string{audit.CreatedObject, audit.UpdatedObject, audit.DeletedObject},
		viaSCIM: [3]string{audit.CreatedGroupViaSCIM, audit.UpdatedGroupViaSCIM, audit.DeletedGroupViaSCIM},
		hidden:  "spec.memberChunks", // names of objects; the members come as a detail
	},
}

// subjectOf is that of a kind; nil for one whose changes are not recorded.
func subjectOf(kind string) *subject {
	i := slices.IndexFunc(subjects, func(s subject) bool { return s.kind == kind })
	if i < 0 {
		return nil
	}
	return &subjects[i]
}

// event of a change that somebody makes to an object.
func (s *subject) event(ctx context.Context, reader client.Reader, v verb, source audit.Source, documents beforeAndAfter) audit.Event {
	shown := documents.shown()
	e := audit.Event{Name: s.names[v], Source: source, Object: s.object(shown)}
	if source == audit.SourceSCIM && s.viaSCIM[v] != "" {
		e.Name = s.viaSCIM[v]
	}
	if s.deployment != nil {
		e.Deployment = s.deployment(ctx, reader, shown)
	}
	return e
}

// object is what an object of the kind is called in events.
func (s *subject) object(o client.Object) audit.Object {
	return audit.Object{Kind: s.kind, Namespace: o.GetNamespace(), Name: o.GetName(), ID: o.GetLabels()[v1alpha1.LabelID]}
}

// itself is a Deployment as people call it.
func itself(_ context.Context, _ client.Reader, d *document) audit.Deployment {
	displayName, _ := d.Spec["displayName"].(string)
	return audit.Deployment{ID: d.Labels[v1alpha1.LabelID], Name: cmp.Or(displayName, d.Name)}
}

// referred is the Deployment in deploymentRef; by its object's name while it is not known.
func referred(ctx context.Context, reader client.Reader, d *document) audit.Deployment {
	reference, _ := d.Spec["deploymentRef"].(map[string]any)
	name, _ := reference["name"].(string)
	found := &v1alpha1.Deployment{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, found); err != nil {
		return audit.Deployment{Name: name}
	}
	return DeploymentOf(found)
}

// ObjectOf is what a Deployment is called in events.
func ObjectOf(d *v1alpha1.Deployment) audit.Object { return subjectOf("Deployment").object(d) }

// DeploymentOf is a Deployment as people call it.
func DeploymentOf(d *v1alpha1.Deployment) audit.Deployment {
	return audit.Deployment{ID: d.Labels[v1alpha1.LabelID], Name: cmp.Or(d.Spec.DisplayName, d.Name)}
}
