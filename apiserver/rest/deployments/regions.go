package deployments

import (
	"context"
	"net/http"
)

var regions = family{"Regions", "Where deployments can run.", []route{
	on(http.MethodGet, "/api/v1/regions", "listRegions", anybody, "List the regions", (*API).listRegions),
}}

// RegionItem is a region: this cluster.
type RegionItem struct {
	ID       int    `json:"id" minimum:"1"`
	Name     string `json:"name" doc:"What a deployment's region says."`
	Title    string `json:"title"`
	Provider string `json:"provider"`
	IsPublic bool   `json:"isPublic"`
}

// ListRegionsInput are the parameters of the list.
type ListRegionsInput struct{ CursorPage }

func (a *API) listRegions(_ context.Context, in *ListRegionsInput) (*List[RegionItem], error) {
	here := []RegionItem{{ID: 1, Name: a.Region.Name, Title: a.Region.Title, Provider: "kubernetes", IsPublic: true}}
	return listOf(in.CursorPage, here, func(r RegionItem) int { return r.ID })
}
