package model

import (
	"context"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/engine"
)

// maxBranch is the maximum length of the name of a branch in bytes.
const maxBranch = 244

// newSync checks a request and returns the sync to start.
func (a *api) newSync(ctx context.Context, r *dbtsync.Request) (dbtsync.New, error) {
	d := rest.ScopeFrom(ctx).Deployment
	n := dbtsync.New{Trigger: "api", Output: dbtsync.ToBranch, Ref: r.Ref, Catalog: engine.LiteralVariable(d, engine.VariableCatalog)}
	switch {
	case r.Options != nil:
		n.Options = *r.Options
	case d.Spec.Dbt != nil && d.Spec.Dbt.Options != nil:
		n.Options = *d.Spec.Dbt.Options
	}
	switch r.Source {
	case dbtsync.SourceManifest:
	case "", dbtsync.SourceGit:
		if err := a.useGit(d, r, &n); err != nil {
			return n, err
		}
	default:
		return n, rest.BadRequest("source: %q is unknown; allowed: git, manifest", rest.Clip(r.Source))
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
	return n, a.chooseBranch(ctx, r, &n)
}

// useGit sets the dbt project of a sync with source git: the saved one of the deployment, at the ref of the
// request.
func (a *api) useGit(d *v1alpha1.Deployment, r *dbtsync.Request, n *dbtsync.New) error {
	switch {
	case !a.DbtGit:
		return rest.BadRequest(`source: "git", the default, is not supported: the administrator has configured no image with dbt; run dbt parse and send target/manifest.json; allowed: manifest`)
	case d.Spec.Dbt == nil:
		return rest.BadRequest(`source: "git", the default, needs the dbt project in spec.dbt of deployment %s, which is not set; allowed: manifest`, d.Labels[v1alpha1.LabelID])
	}
	n.Git = d.Spec.Dbt.Git.DeepCopy()
	if r.Ref != "" {
		n.Git.Ref = r.Ref
	}
	return nil
}

// chooseBranch sets what a sync to a branch needs.
func (a *api) chooseBranch(ctx context.Context, r *dbtsync.Request, n *dbtsync.New) error {
	d := rest.ScopeFrom(ctx).Deployment
	if !a.isWritable(d) {
		return rest.Conflict("output: the data model of deployment %s, as spec.model declares it, is not written by Quoin; allowed: files, to be committed where the data model is", d.Labels[v1alpha1.LabelID])
	}
	from, err := a.source(ctx, gitmirror.Recent)
	if err != nil {
		return err
	}
	if r.BranchName == from.production {
		return rest.BadRequest("branchName: %q is the production branch; allowed: another branch, which is reviewed and merged", rest.Clip(r.BranchName))
	}
	n.Branch, n.Base, n.Root = r.BranchName, from.production, from.root
	if n.Branch == "" {
		n.Branch = dbtsync.NewBranch(*n, a.Clock.Now())
	}
	n.AuthorName, n.AuthorEmail = rest.Author(ctx)
	return nil
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
