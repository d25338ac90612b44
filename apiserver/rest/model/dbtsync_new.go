package model

import (
	"context"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
)

// maxBranch is the maximum length of the name of a branch in bytes.
const maxBranch = 244

// newSync checks a request and returns the sync to start.
func (a *api) newSync(ctx context.Context, r *dbtsync.Request) (dbtsync.New, error) {
	n := dbtsync.New{Trigger: "api", Output: dbtsync.ToBranch, Ref: r.Ref, Catalog: catalogOf(rest.ScopeFrom(ctx).Deployment)}
	switch r.Source {
	case "manifest":
	case "", "git":
		return n, rest.BadRequest(`source: "git", the default, is not supported: run dbt parse and send target/manifest.json; allowed: manifest`)
	default:
		return n, rest.BadRequest("source: %q is unknown; allowed: manifest", rest.Clip(r.Source))
	}
	if err := checkRef("ref", r.Ref); err != nil {
		return n, err
	}
	switch {
	case r.Output == "files" && r.BranchName != "":
		return n, rest.BadRequest("branchName: %q: with output files nothing is written to a branch; allowed: no branchName", rest.Clip(r.BranchName))
	case r.Output == "files":
		n.Output = dbtsync.ToFiles
		return n, nil
	case r.Output != "" && r.Output != "branch":
		return n, rest.BadRequest("output: %q is unknown; allowed: branch, files", rest.Clip(r.Output))
	}
	if err := checkRef("branchName", r.BranchName); err != nil {
		return n, err
	}
	return n, a.chooseBranch(ctx)
}

// chooseBranch sets what a sync to a branch needs.
func (a *api) chooseBranch(ctx context.Context) error {
	id := rest.ScopeFrom(ctx).Deployment.Labels[v1alpha1.LabelID]
	return rest.Conflict("output: the data model of deployment %s, as spec.model declares it, is not written by Quoin; allowed: files, to be committed where the data model is", id)
}

// checkRef returns an error for a name of a branch or tag that Git does not allow. The empty name is
// absent.
func checkRef(field, name string) error {
	if name == "" {
		return nil
	}
	if len(name) > maxBranch || !utf8.ValidString(name) || plumbing.NewBranchReferenceName(name).Validate() != nil {
		return rest.BadRequest("%s: %q is not a valid name of a branch", field, rest.Clip(name))
	}
	return nil
}
