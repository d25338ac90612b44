package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

// deploymentItem is a deployment in the result of listDeployments.
type deploymentItem struct {
	ID     int64       `json:"id"`
	Name   string      `json:"name"`
	Agents []agentItem `json:"agents"`
}

// agentItem is an agent of a deployment. That without an id is the one that answers if none is chosen.
type agentItem struct {
	ID          *int64 `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// tools returns the tools of the endpoint.
func (s *Server) tools() []*tool {
	return append([]*tool{{
		name: "listDeployments", title: "List deployments",
		description: "Lists the deployments that you can query for the user, with their ids and agents. Each has a semantic model of its own.",
		run:         s.listDeployments,
	}, s.chatTool()}, s.semanticTools()...)
}

func (s *Server) listDeployments(ctx context.Context, _ json.RawMessage) (*outcome, error) {
	all, err := s.reached(rest.ScopeFrom(ctx))
	if err != nil {
		return nil, err
	}
	items := make([]deploymentItem, 0, len(all))
	for _, d := range all {
		id, err := strconv.ParseInt(d.Labels[v1alpha1.LabelID], 10, 64)
		if err != nil {
			return nil, err
		}
		item := deploymentItem{ID: id, Name: d.DisplayName()}
		if item.Agents, err = s.agentsOf(ctx, d); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	value, err := json.Marshal(map[string]any{"deployments": items})
	return &outcome{value: value}, err
}

// agentsOf returns the agents of a deployment that clients may use: Auto, and each of them.
func (s *Server) agentsOf(ctx context.Context, d *v1alpha1.Deployment) ([]agentItem, error) {
	items := []agentItem{}
	all, err := s.Agents.ForMCP(ctx, d)
	if err != nil || len(all) == 0 {
		return items, err
	}
	items = append(items, agentItem{Name: autoAgent})
	for _, a := range all {
		items = append(items, agentItem{ID: &a.Status.ID, Name: cmp.Or(a.Spec.DisplayName, a.Name), Description: a.Spec.Description})
	}
	return items, nil
}
