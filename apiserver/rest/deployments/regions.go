package deployments

import (
	"context"
	"net/http"

	"github.com/quoin-dev/quoin/apiserver/rest"
)

func (a *api) regionsFamily() rest.Family {
	return rest.Family{Tag: "Regions", Description: "Regions in which deployments can run.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, "/api/v1/regions", "listRegions", rest.NoPermission, "List the regions", a.listRegions),
	}}
}

// RegionItem is a region. The only one is this cluster.
type RegionItem struct {
	ID       int    `json:"id" minimum:"1"`
	Name     string `json:"name" doc:"Value of region in a creation."`
	Title    string `json:"title"`
	Provider string `json:"provider"`
	IsPublic bool   `json:"isPublic"`
}

// ListRegionsInput has the parameters of the list.
type ListRegionsInput struct{ rest.CursorPage }

func (a *api) listRegions(ctx context.Context, in *ListRegionsInput) (*rest.List[RegionItem], error) {
	here := []RegionItem{{ID: 1, Name: a.Region.Name, Title: a.Region.Title, Provider: "kubernetes", IsPublic: true}}
	return rest.PaginateByCursor(ctx, in.CursorPage, here, func(r RegionItem) int { return r.ID })
}
