// Package agentfiles reads the files that configure agents from the repositories of deployments: at the commit that the production
// environment serves, or at the newest commit of a branch (docs/decisions/0093-files-of-agents.md).
//
//	agentfiles.go  which commit is read
//	read.go        from a commit to a project
//	cache.go       the projects of commits
package agentfiles

import (
	"cmp"
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Options configure New.
type Options struct {
	// Cached reads Environments from the cache.
	Cached client.Reader
	// Repositories has the data models that Quoin keeps, and Mirrors those elsewhere; nil without a database.
	Repositories *repository.Repositories
	Mirrors      *gitmirror.Mirrors
}

// Files reads the files of all deployments. It is safe for concurrent use.
type Files struct {
	Options
	cache *cache
}

// New returns Files.
func New(o Options) *Files { return &Files{o, newCache(maxProjects, maxCachedBytes)} }

// Read is what the files of a commit configure.
type Read struct {
	*project.Project
	// Commit has the files; empty if the model is in no Git repository.
	Commit string
}

// ErrNotServed is returned while the production environment of a deployment serves no commit.
var ErrNotServed = content.Errorf(content.Conflict, "the production environment serves no commit of a Git repository yet")

// Served returns what the files configure at the commit that production serves. A deployment whose model is in no Git repository has
// no files. Errors are those of the content store and *content.Error.
func (f *Files) Served(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) (*Read, error) {
	if !inGit(d) {
		return f.empty(d)
	}
	e := &v1alpha1.Environment{}
	err := f.Cached.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}, e)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return f.OfEnvironment(ctx, d, s, e)
}

// OfEnvironment returns what the files configure at the commit that an environment of a deployment serves, as Served does.
func (f *Files) OfEnvironment(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, e *v1alpha1.Environment) (*Read, error) {
	switch {
	case !inGit(d):
		return f.empty(d)
	case e.Status.ModelCommit == "" && e.Spec.BranchRef != nil:
		return nil, content.Errorf(content.Conflict, "the environment of the branch serves no commit of a Git repository yet")
	case e.Status.ModelCommit == "":
		return nil, ErrNotServed
	case f.Repositories == nil:
		return nil, errNoDatabase
	}
	commit := plumbing.NewHash(e.Status.ModelCommit)
	found, err := f.at(d, s, f.session(ctx, d, s), commit)
	if !errors.Is(err, plumbing.ErrObjectNotFound) {
		return found, err
	}
	// The mirror may not have the commit yet.
	session, err := f.open(ctx, d, s)
	if err != nil {
		return nil, err
	}
	if found, err = f.at(d, s, session, commit); errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, content.Errorf(content.Conflict, "the repository does not have the commit %s", commit)
	}
	return found, err
}

// OfBranch returns what the files of the newest commit of a branch configure.
func (f *Files) OfBranch(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, branch string) (*Read, error) {
	if !inGit(d) {
		return nil, content.Errorf(content.NotFound, "branch %q does not exist: the data model is in no Git repository", branch)
	}
	if f.Repositories == nil {
		return nil, errNoDatabase
	}
	session, err := f.open(ctx, d, s)
	if err != nil {
		return nil, err
	}
	head, err := session.Branch(branch)
	if err != nil {
		return nil, err
	}
	return f.at(d, s, session, head.Commit)
}

var errNoDatabase = content.Errorf(content.Unavailable, "the files of agents cannot be read: quoin apiserver has no --database-url")

func inGit(d *v1alpha1.Deployment) bool {
	return d.Spec.Model.Git != nil || d.Spec.Model.Repository != nil
}

// empty returns the project of a deployment without files.
func (f *Files) empty(d *v1alpha1.Deployment) (*Read, error) {
	folder, err := folderOf(d)
	if err != nil {
		return nil, err
	}
	return &Read{Project: project.Parse(folder, nil)}, nil
}

// session returns a session on the repository as the content store has it.
func (f *Files) session(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) *repository.Session {
	if git := d.Spec.Model.Git; git != nil {
		return f.Repositories.Mirror(ctx, s, git.URL, nil)
	}
	return f.Repositories.Session(ctx, s)
}

// open returns a session after the remote was read, if the model is in one.
func (f *Files) open(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) (*repository.Session, error) {
	if d.Spec.Model.Git == nil {
		session := f.Repositories.Session(ctx, s)
		return session, starter.Ensure(session, d)
	}
	if f.Mirrors == nil {
		return nil, errNoDatabase
	}
	mirror, err := f.Mirrors.Open(ctx, d, s, gitmirror.Recent)
	if err != nil {
		return nil, err
	}
	return mirror.Session(ctx, f.Repositories), nil
}

// rootOf returns the directory of the model in the repository.
func rootOf(d *v1alpha1.Deployment) string {
	if git := d.Spec.Model.Git; git != nil {
		return gitmirror.RootOf(git)
	}
	return d.Spec.Model.Repository.Path
}

// folderOf returns the folder of the files in the directory of the model.
func folderOf(d *v1alpha1.Deployment) (string, error) {
	folder, err := engine.AgentsFolder(d)
	if err != nil {
		return "", content.Errorf(content.Conflict, "%v", err)
	}
	return folder, nil
}

// ConfigName returns the name of an agent in the files.
func ConfigName(a *v1alpha1.Agent) string { return cmp.Or(a.Spec.ConfigName, a.Name) }
