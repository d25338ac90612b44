package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content"
)

// Caller returns the caller of a request below a deployment as the one who asks. A caller who is no person has what its data tokens
// have. Without the permission to write SQL, the error names it.
func (s *Service) Caller(ctx context.Context) (*Asker, error) {
	of := *rest.ScopeFrom(ctx)
	asker, err := caller(ctx, &of)
	if err == nil && !asker.MayUseSQL() {
		return nil, datatokens.Lacks(&of, v1alpha1.PermissionSqlRunnerRead)
	}
	return asker, err
}

// Named returns an agent of the deployment of the scope by its name: that of the object, in the files, or shown to users. Without a
// name it is the only one, or the one that the files call auto.
func (s *Service) Named(ctx context.Context, name string) (*Agent, error) {
	scope := rest.ScopeFrom(ctx)
	list := &v1alpha1.AgentList{}
	if err := s.Client.List(ctx, list, client.InNamespace(scope.Namespace())); err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	all := slices.DeleteFunc(list.Items, func(a v1alpha1.Agent) bool {
		return a.Spec.DeploymentRef.Name != scope.Deployment.Name || a.Status.ID == 0 || !a.DeletionTimestamp.IsZero()
	})
	if name == "" {
		all = slices.DeleteFunc(all, func(a v1alpha1.Agent) bool { return ptr.Deref(a.Spec.Suspended, false) })
	}
	found, err := choose(all, name)
	if err != nil {
		return nil, err
	}
	return s.complete(ctx, found, found.Status.ID)
}

// choose returns the agent with a name.
func choose(all []v1alpha1.Agent, name string) (*v1alpha1.Agent, error) {
	var names []string
	for i := range all {
		names = append(names, all[i].Name)
	}
	slices.Sort(names)
	switch {
	case len(all) == 0:
		return nil, rest.NotFound("agentName: the deployment has no agent that can be asked")
	case name == "" && len(all) == 1:
		return &all[0], nil
	case name == "":
		if at := only(all, func(a *v1alpha1.Agent) bool { return agentfiles.ConfigName(a) == project.Auto }); at >= 0 {
			return &all[at], nil
		}
		return nil, rest.BadRequest("agentName: is absent, and the deployment has %d agents that are not suspended; allowed: one of %s", len(all), list(names))
	}
	matches := 0
	for _, is := range []func(a *v1alpha1.Agent) bool{
		func(a *v1alpha1.Agent) bool { return a.Name == name },
		func(a *v1alpha1.Agent) bool { return agentfiles.ConfigName(a) == name },
		func(a *v1alpha1.Agent) bool { return a.Spec.DisplayName == name },
	} {
		if at := only(all, is); at >= 0 {
			return &all[at], nil
		}
		for i := range all {
			if is(&all[i]) {
				matches++
			}
		}
	}
	if matches > 0 {
		return nil, rest.BadRequest("agentName: %q is the name of several agents; allowed: the name of an object, of %s", rest.Clip(name), list(names))
	}
	return nil, rest.NotFound("agentName: the deployment has no agent %q; allowed: one of %s", rest.Clip(name), list(names))
}

// only returns the index of the only agent of which something is true; -1 if there is none, or several.
func only(all []v1alpha1.Agent, is func(a *v1alpha1.Agent) bool) int {
	found := -1
	for i := range all {
		switch {
		case !is(&all[i]):
		case found >= 0:
			return -1
		default:
			found = i
		}
	}
	return found
}

// maxListed is the number of names in a message.
const maxListed = 20

func list(names []string) string {
	if len(names) > maxListed {
		return strings.Join(names[:maxListed], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// WithEndpoint returns an agent with the model of another endpoint that the account may use.
func (s *Service) WithEndpoint(ctx context.Context, a *Agent, name string) (*Agent, error) {
	e, err := s.endpoint(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return nil, rest.NotFound("modelEndpoint: %q does not exist, or is not for this account", rest.Clip(name))
	}
	other := *a
	other.Endpoint = e
	return &other, nil
}

// Configured returns what the files configure for an agent at the commit that the environment of a branch serves, and the commit. The
// branch is that of production if it is empty.
func (s *Service) Configured(ctx context.Context, a *Agent, branch string) (*project.Configured, string, error) {
	branch, err := s.ofProduction(ctx, a.Deployment, branch)
	if err != nil {
		return nil, "", err
	}
	e, err := s.environment(ctx, a.Deployment, branch)
	if err != nil {
		return nil, "", content.Prefixed("branchName", err)
	}
	return s.FilesOf(ctx, a.Agent, a.Deployment, e)
}
