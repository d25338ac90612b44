// Package agents serves the families of the REST API that concern the agents of deployments: their list, their skills and what they
// use.
package agents

import (
	"context"
	"net/http"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/danielgtaylor/huma/v2"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/usage"
)

// Files reads the files that configure agents: *agentfiles.Files.
type Files interface {
	Served(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) (*agentfiles.Read, error)
	OfBranch(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, branch string) (*agentfiles.Read, error)
	OfEnvironment(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, e *v1alpha1.Environment) (*agentfiles.Read, error)
}

// Usage sums up what agents use: *usage.Usage.
type Usage interface {
	Report(ctx context.Context, s content.Scope, r usage.Request) ([]usage.Sum, error)
}

// Options configure the group.
type Options struct {
	// Cached lists Agents from the cache.
	Cached client.Reader
	Files  Files
	// Usage is nil without a database.
	Usage Usage
	// Clock is that of the machine when nil.
	Clock clock.PassiveClock
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	a := &api{o}
	const in = "/api/v1/deployments/{deploymentId}"
	return []rest.Family{{Tag: "Agents", Description: "Agents that answer questions about the data of a deployment, their skills and what they use.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, in+"/agents", "listAgents", v1alpha1.PermissionDeploymentAgentRead, "List the agents, by id", a.listAgents),
		rest.Handle(http.MethodGet, in+"/agent-skills", "listAgentSkills", v1alpha1.PermissionDeploymentAgentRead, "List the skills that users can start, by name", a.listSkills).WithDocument(describeSkills),
		rest.Handle(http.MethodGet, in+"/agent-usage", "listAgentUsage", v1alpha1.PermissionDeploymentUpdate, "Sum up the tokens, the money and the time that agents have used", a.listUsage),
	}}}
}

// describeSkills adds the statuses of a repository that cannot be read.
func describeSkills(_ *huma.OpenAPI, op *huma.Operation) {
	problem := op.Responses["404"].Content
	op.Responses["409"] = &huma.Response{Description: "The repository of the data model does not have the commit that production serves, or cannot be read without a change of spec.model.", Content: problem}
	op.Responses["502"] = &huma.Response{Description: "The Git repository of the data model does not answer.", Content: problem}
}

// api has the handlers of the group.
type api struct{ Options }
