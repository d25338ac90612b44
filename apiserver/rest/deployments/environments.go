package deployments

import (
	"context"
	"net/http"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/rest"
)

const environmentPath = deploymentPath + "/environments/{environmentId}"

func (a *api) environmentsFamily() rest.Family {
	return rest.Family{Tag: "Environments", Description: "Environments that serve the data API of a deployment: production, staging, development.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentPath+"/environments", "getDeploymentEnvironments", v1alpha1.PermissionDeploymentRead, "List the environments of a deployment", a.listEnvironments),
	}}
}

// Environment is the documented representation of an Environment.
type Environment struct {
	ID             string          `json:"id" pattern:"^[1-9][0-9]*$"`
	Name           string          `json:"name"`
	Type           string          `json:"type" enum:"production,staging,development"`
	APICredentials *APICredentials `json:"api_credentials"`
	Branch         *string         `json:"branch,omitempty" nullable:"true"`
	User           *string         `json:"user,omitempty" nullable:"true"`
}

// APICredentials are the addresses of the data APIs of an environment.
type APICredentials struct {
	REST struct {
		URL string `json:"url" doc:"URL of the REST data API, with its base path."`
	} `json:"rest"`
	SQL struct {
		Host string `json:"host"`
		Port int32  `json:"port" minimum:"1" maximum:"65535"`
	} `json:"sql"`
}

type environmentItems struct {
	Environments []Environment `json:"environments"`
}

// EnvironmentList is a page of environments, in both shapes.
type EnvironmentList struct {
	Body struct {
		Data       environmentItems `json:"data"`
		Pagination rest.Pagination  `json:"pagination"`
		Items      []Environment    `json:"items"`
		PageInfo   rest.PageInfo    `json:"pageInfo"`
	}
}

// ListEnvironmentsInput has the parameters of the list.
type ListEnvironmentsInput struct {
	rest.InDeployment
	rest.Page
	Type rest.Optional[string] `query:"type" enum:"production,staging,development" doc:"Only environments of this type."`
}

func (a *api) listEnvironments(ctx context.Context, in *ListEnvironmentsInput) (*EnvironmentList, error) {
	d := rest.ScopeFrom(ctx).Deployment
	all, err := a.Catalog.Environments(d)
	if err != nil {
		return nil, err
	}
	listed := all[:0:0]
	for _, e := range all {
		matches := in.Type.Value == "" || string(e.Spec.Type) == in.Type.Value
		if matches && isListed(e) {
			listed = append(listed, e)
		}
	}
	cut, info, pagination, err := rest.Paginate(ctx, in.Page, listed, catalog.NumberOf[*v1alpha1.Environment])
	if err != nil {
		return nil, err
	}
	known, err := a.Catalog.Branches(d)
	if err != nil {
		return nil, err
	}
	out := &EnvironmentList{}
	out.Body.Items = make([]Environment, 0, len(cut))
	for _, e := range cut {
		out.Body.Items = append(out.Body.Items, environmentOf(e, branchServed(e, d, known)))
	}
	out.Body.Data.Environments, out.Body.Pagination, out.Body.PageInfo = out.Body.Items, pagination, info
	return out, nil
}

// isListed reports whether an environment is listed: production always, others only while they are
// active.
func isListed(e *v1alpha1.Environment) bool {
	return e.Status.APICredentials != nil && (e.Spec.Type == v1alpha1.EnvironmentProduction || e.Status.Active)
}

func environmentOf(e *v1alpha1.Environment, branch string) Environment {
	out := Environment{ID: e.Labels[v1alpha1.LabelID], Name: string(e.Spec.Type), Type: string(e.Spec.Type), APICredentials: &APICredentials{}, Branch: rest.NilIfEmpty(branch)}
	if e.Spec.Type != v1alpha1.EnvironmentProduction && branch != "" {
		out.Name = branch
	}
	out.APICredentials.REST.URL = e.Status.APICredentials.REST.URL
	out.APICredentials.SQL.Host, out.APICredentials.SQL.Port = e.Status.APICredentials.SQL.Host, e.Status.APICredentials.SQL.Port
	return out
}

// branchServed returns the name of the branch that an environment serves; empty if the model is not in
// Git.
func branchServed(e *v1alpha1.Environment, d *v1alpha1.Deployment, known []*v1alpha1.Branch) string {
	if e.Spec.Type == v1alpha1.EnvironmentProduction {
		return catalog.ProductionBranch(d, known)
	}
	for _, b := range known {
		if e.Spec.BranchRef != nil && b.Name == e.Spec.BranchRef.Name {
			return b.Spec.Name
		}
	}
	return ""
}
