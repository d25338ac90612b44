package recording

import (
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
	// deployment is the name of the Deployment object that an object belongs to; nil when the kind
	// belongs to none.
	deployment func(client.Object) string
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
		deployment: func(o client.Object) string { return o.GetName() },
	},
	{
		kind:  "Branch",
		names: [3]string{audit.CreatedGitBranch, audit.UpdatedBranch, audit.DeletedGitBranch},
		deployment: func(o client.Object) string {
			b, _ := o.(*v1alpha1.Branch)
			return b.Spec.DeploymentRef.Name
		},
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
