package agents

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// ForMCP returns the agents of a deployment that clients of MCP may use, by number. They are shared and must not be modified.
func (s *Service) ForMCP(ctx context.Context, d *v1alpha1.Deployment) ([]*v1alpha1.Agent, error) {
	list := &v1alpha1.AgentList{}
	if err := s.Client.List(ctx, list, client.InNamespace(d.Namespace)); err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	var all []*v1alpha1.Agent
	for i := range list.Items {
		a := &list.Items[i]
		if a.Spec.DeploymentRef.Name == d.Name && ptr.Deref(a.Spec.AllowMCP, false) && !ptr.Deref(a.Spec.Suspended, false) && a.Status.ID > 0 && a.DeletionTimestamp.IsZero() {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Agent) int { return cmp.Compare(a.Status.ID, b.Status.ID) })
	return all, nil
}
