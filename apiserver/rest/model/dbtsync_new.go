package model

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
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
	return n, a.chooseBranch(ctx, r, &n)
}

// chooseBranch sets what a sync to a branch needs.
func (a *api) chooseBranch(ctx context.Context, r *dbtsync.Request, n *dbtsync.New) error {
	scope := rest.ScopeFrom(ctx)
	source := scope.Deployment.Spec.Model.Repository
	if source == nil {
		id := scope.Deployment.Labels[v1alpha1.LabelID]
		return rest.Conflict("output: the data model of deployment %s, as spec.model declares it, is not written by Quoin; allowed: files, to be committed where the data model is", id)
	}
	if r.BranchName == source.BranchName() {
		return rest.BadRequest("branchName: %q is the production branch; allowed: another branch, which is reviewed and merged", rest.Clip(r.BranchName))
	}
	n.Branch, n.Base, n.Root = r.BranchName, source.BranchName(), source.Path
	if n.Branch == "" {
		n.Branch = newBranch(r.Ref, a.Clock.Now())
	}
	// The address is not one of a person: commits do not publish those.
	n.AuthorName, n.AuthorEmail = "Quoin dbt sync", "dbt-sync@quoin.invalid"
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

// maxRefInBranch is the number of characters of the ref in the name of a new branch.
const maxRefInBranch = 40

// newBranch returns the documented name of a new branch: dbt-sync/<ref>-<time>-<suffix>.
func newBranch(ref string, now time.Time) string {
	if ref == "" {
		ref = "manifest"
	}
	ref = strings.Map(func(r rune) rune {
		if r == '.' || r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}, ref)
	ref = strings.TrimLeft(strings.ReplaceAll(ref[:min(len(ref), maxRefInBranch)], "..", "--"), ".")
	suffix := make([]byte, 4)
	_, _ = rand.Read(suffix) // never fails
	return "dbt-sync/" + ref + "-" + now.UTC().Format("20060102150405") + "-" + hex.EncodeToString(suffix)
}
