package mcp

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

// deploymentItem is a deployment in the result of listDeployments.
type deploymentItem struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// tools returns the tools of the endpoint.
func (s *Server) tools() []*tool {
	return []*tool{{
		name: "listDeployments", title: "List deployments",
		description: "Lists the deployments that you can query for the user, with their ids. Each has a semantic model of its own.",
		run:         s.listDeployments,
	}}
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
		items = append(items, deploymentItem{ID: id, Name: d.DisplayName()})
	}
	value, err := json.Marshal(map[string]any{"deployments": items})
	return &outcome{value: value}, err
}
