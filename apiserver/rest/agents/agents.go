package agents

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/agentfiles"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

// ListAgentsInput selects agents, and the page of the list.
type ListAgentsInput struct {
	rest.InDeployment
	rest.CursorPage
	AllowEmbedding rest.Optional[bool] `query:"allowEmbedding" doc:"Only agents that applications may embed, or only others; all when absent."`
}

// Agent is an agent, as documented.
type Agent struct {
	ID              int64       `json:"id" minimum:"1" doc:"The number in the address of its chats."`
	Name            string      `json:"name"`
	Description     *string     `json:"description,omitempty" nullable:"true"`
	AgentConfigName string      `json:"agentConfigName" doc:"Its name in agents/config.yml."`
	AgentSpace      *AgentSpace `json:"agentSpace,omitempty" doc:"Absent while the files of the data model cannot be read."`
	AllowEmbedding  bool        `json:"allowEmbedding"`
	Suspended       bool        `json:"suspended" doc:"Whether messages to it are rejected."`
}

// AgentSpace is the space whose rules, skills and certified queries an agent has.
type AgentSpace struct {
	Name string `json:"name" example:"auto"`
}

func (a *api) listAgents(ctx context.Context, in *ListAgentsInput) (*rest.List[Agent], error) {
	s := rest.ScopeFrom(ctx)
	list := &v1alpha1.AgentList{}
	if err := a.Cached.List(ctx, list, client.InNamespace(s.Namespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	// What agents share is not needed to name them: the list does not depend on the Git repository.
	files, err := a.Files.Served(ctx, s.Deployment, s.Content())
	if err != nil {
		log.FromContext(ctx).V(1).Info("The files of agents cannot be read", "reason", err.Error())
	}
	shown := []Agent{}
	for i := range list.Items {
		o := &list.Items[i]
		embeds := ptr.Deref(o.Spec.AllowEmbedding, false)
		isListed := o.Spec.DeploymentRef.Name == s.Deployment.Name && o.Status.ID > 0 && o.DeletionTimestamp.IsZero()
		if isListed && (!in.AllowEmbedding.IsSet || in.AllowEmbedding.Value == embeds) {
			shown = append(shown, shownAgent(o, files))
		}
	}
	slices.SortFunc(shown, func(x, y Agent) int { return cmp.Compare(x.ID, y.ID) })
	return rest.PaginateByCursor(ctx, in.CursorPage, shown, func(x Agent) int64 { return x.ID })
}

// shownAgent returns an agent as documented; files may be nil.
func shownAgent(o *v1alpha1.Agent, files *agentfiles.Read) Agent {
	name := agentfiles.ConfigName(o)
	out := Agent{
		ID: o.Status.ID, Name: cmp.Or(o.Spec.DisplayName, o.Name), Description: rest.NilIfEmpty(o.Spec.Description), AgentConfigName: name,
		AllowEmbedding: ptr.Deref(o.Spec.AllowEmbedding, false), Suspended: ptr.Deref(o.Spec.Suspended, false),
	}
	if files != nil {
		configured := files.For(name)
		out.AgentSpace = &AgentSpace{configured.Space}
		if out.Description == nil {
			out.Description = rest.NilIfEmpty(configured.Description)
		}
	}
	return out
}
