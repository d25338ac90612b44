package model

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/starter"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
)

// personalPrefix begins the names of personal branches.
const personalPrefix = "dev-"

// target is the branch that a request concerns.
type target struct {
	session *repository.Session
	name    string
	commit  plumbing.Hash
	role    v1alpha1.BranchRole
	// root is the directory of the model in the repository.
	root string
	// parent is the name of the branch from which it was created; empty for production.
	parent string
	// owner is the principal whose personal branch it is; empty if there is none.
	owner string
}

// tree is the repository of a deployment as one request sees it: its branches, and the dev mode of the
// caller.
type tree struct {
	session *repository.Session
	// fresh returns a session without new objects.
	fresh      func() *repository.Session
	branches   []repository.Branch
	state      devmode.State
	production string
	root       string
	person
}

// person is on whose behalf a request works on personal branches.
type person struct {
	// caller is <kind>:<id>, as in the database.
	caller string
	// callerName is a name for readers.
	callerName string
}

// personOf returns the caller of a request.
func personOf(s *rest.Scope) person { return person{s.Caller(), s.Principal.Name} }

// source is the repository with the data model of a deployment.
type source struct {
	// session returns a session without new objects.
	session func() *repository.Session
	// production is the branch that production serves, and root the directory of the model.
	production, root string
}

// isWritable reports whether the data model of a deployment can be changed over REST: it is in a
// repository that Quoin keeps, or in one on a Git host.
func (a *api) isWritable(d *v1alpha1.Deployment) bool {
	return d.Spec.Model.Repository != nil || d.Spec.Model.Git != nil && a.Mirrors != nil
}

// source returns the repository of the deployment of a request. A Git host is asked for changes if need
// requires it.
func (a *api) source(ctx context.Context, need gitmirror.Need) (*source, error) {
	s := rest.ScopeFrom(ctx)
	d := s.Deployment
	switch model := d.Spec.Model; {
	case model.Repository == nil && model.Git == nil:
		return nil, elsewhere(d)
	case a.Repositories == nil || a.DevMode == nil || model.Git != nil && a.Mirrors == nil:
		return nil, rest.Unavailable("the data model is not available: quoin apiserver has no --database-url")
	case model.Git != nil:
		mirror, err := a.Mirrors.Open(ctx, d, s.Content(), need)
		if err != nil {
			return nil, err
		}
		return &source{func() *repository.Session { return mirror.Session(ctx, a.Repositories) }, mirror.Production, mirror.Root}, nil
	}
	kept := &source{func() *repository.Session { return a.Repositories.Session(ctx, s.Content()) }, d.Spec.Model.Repository.BranchName(), d.Spec.Model.Repository.Path}
	return kept, starter.Ensure(kept.session(), d)
}

// open reads the branches of the deployment of a request, to read from them. A deployment whose model is
// not in a Git repository is a conflict.
func (a *api) open(ctx context.Context) (*tree, error) {
	return a.openTree(ctx, personOf(rest.ScopeFrom(ctx)), gitmirror.Recent)
}

// openToWrite is open for a change.
func (a *api) openToWrite(ctx context.Context) (*tree, error) {
	return a.openTree(ctx, personOf(rest.ScopeFrom(ctx)), gitmirror.Current)
}

func (a *api) openTree(ctx context.Context, by person, need gitmirror.Need) (*tree, error) {
	s := rest.ScopeFrom(ctx)
	from, err := a.source(ctx, need)
	if err != nil {
		return nil, err
	}
	// First the rows, then the branches: a branch that is created in between has defaults.
	state, err := a.DevMode.State(ctx, s.Content(), by.caller)
	if err != nil {
		return nil, err
	}
	session := from.session()
	branches, err := session.Branches()
	if err != nil {
		return nil, err
	}
	return &tree{session: session, fresh: from.session, branches: branches, state: state, production: from.production, root: from.root, person: by}, nil
}

// elsewhere is the error of a change of a model that is not in a Git repository.
func elsewhere(d *v1alpha1.Deployment) error {
	id := d.Labels[v1alpha1.LabelID]
	switch model := d.Spec.Model; {
	case model.Git != nil:
		return rest.Unavailable("the data model of deployment %s in the Git repository %s is not available: quoin apiserver has no --database-url", id, model.Git.URL)
	case model.ConfigMapRef != nil:
		return rest.Conflict("the data model of deployment %s is in ConfigMap %q: change it with kubectl; only a deployment with spec.model.repository or spec.model.git is changed over REST", id, model.ConfigMapRef.Name)
	}
	return rest.Conflict("deployment %s has no data model: set spec.model.repository or spec.model.git", id)
}

// find returns a branch.
func (t *tree) find(name string) (*target, bool) {
	i := slices.IndexFunc(t.branches, func(b repository.Branch) bool { return b.Name == name })
	if i < 0 {
		return nil, false
	}
	found := &target{session: t.session, name: name, commit: t.branches[i].Commit, role: t.roleOf(name), root: t.root}
	if found.role != v1alpha1.BranchProduction {
		found.parent = t.parentOf(name)
	}
	if found.role == v1alpha1.BranchPersonal {
		found.owner = t.state.Branches[name].Owner
	}
	return found, true
}

// branch returns a branch, or an error that names the field of the request.
func (t *tree) branch(field, name string) (*target, error) {
	found, ok := t.find(name)
	if !ok {
		return nil, rest.NotFound("%s: branch %q does not exist", field, rest.Clip(name))
	}
	return found, nil
}

// roleOf returns the role of a branch, as the Deployment controller decides it.
func (t *tree) roleOf(name string) v1alpha1.BranchRole {
	switch {
	case name == t.production:
		return v1alpha1.BranchProduction
	case strings.HasPrefix(name, personalPrefix):
		return v1alpha1.BranchPersonal
	}
	return v1alpha1.BranchShared
}

// parentOf returns the parent of a branch: the branch from which it was created, if that still exists,
// or else production.
func (t *tree) parentOf(name string) string {
	parent := t.state.Branches[name].Parent
	if parent == "" || parent == name || !slices.ContainsFunc(t.branches, func(b repository.Branch) bool { return b.Name == parent }) {
		return t.production
	}
	return parent
}

// active returns the branch that the caller has active in dev mode, if it still exists.
func (t *tree) active() (*target, bool) {
	if t.state.Active == "" {
		return nil, false
	}
	return t.find(t.state.Active)
}

// selected returns the branch with a name; if empty, that which the caller has active, or that of
// production.
func (t *tree) selected(name string) (*target, error) {
	if name != "" {
		return t.branch("branchName", name)
	}
	if active, ok := t.active(); ok {
		return active, nil
	}
	found, ok := t.find(t.production)
	if !ok {
		return nil, rest.Conflict("the repository has no branch %q, which production serves: push one", rest.Clip(t.production))
	}
	return found, nil
}

// checkOwned returns an error unless a branch is a personal one of the caller.
func (t *tree) checkOwned(b *target, named bool) error {
	switch {
	case b.role == v1alpha1.BranchPersonal && b.owner == t.caller:
		return nil
	case b.role == v1alpha1.BranchPersonal:
		return rest.Forbidden("branchName: %q is not a personal branch of the caller; allowed: a branch that the caller has from dev-mode", rest.Clip(b.name))
	case named:
		return rest.BadRequest("branchName: %q is a %s branch; allowed: a personal branch of the caller, which dev-mode creates", rest.Clip(b.name), b.role)
	case t.state.Active == b.name:
		return rest.BadRequest("the caller has %q active, a %s branch; allowed: a personal branch of the caller, which dev-mode creates", rest.Clip(b.name), b.role)
	}
	return rest.BadRequest("branchName: it is absent and the caller is not in dev mode; allowed: a personal branch of the caller, which dev-mode creates")
}

// readTarget returns the branch with a name; if empty, that which the caller has active in dev mode, or
// that of production.
func (a *api) readTarget(ctx context.Context, name string) (*target, error) {
	t, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return t.selected(name)
}

// writeTarget is the same for files that are written in dev mode: only personal branches of the caller
// are allowed.
func (a *api) writeTarget(ctx context.Context, name string) (*target, error) {
	t, err := a.openToWrite(ctx)
	if err != nil {
		return nil, err
	}
	b, err := t.selected(name)
	if err != nil {
		return nil, err
	}
	return b, t.checkOwned(b, name != "")
}

// productionTarget returns the production branch. Its commit is zero if the repository has none yet.
func (a *api) productionTarget(ctx context.Context) (*target, error) {
	t, err := a.openToWrite(ctx)
	if err != nil {
		return nil, err
	}
	if b, ok := t.find(t.production); ok {
		return b, nil
	}
	return &target{session: t.session, name: t.production, role: v1alpha1.BranchProduction, root: t.root}, nil
}

// moved triggers the controller after a branch has moved. The change is stored, so it continues if the
// client disconnects.
func (a *api) moved(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), edit.Timeout)
	defer cancel()
	return a.Moved(ctx, rest.ScopeFrom(ctx).Deployment.DeepCopy())
}

// annotate requests that the controller reads the branches of a deployment.
func (a *api) annotate(ctx context.Context, d *v1alpha1.Deployment) error {
	return edit.Annotate(recording.Named(ctx, audit.TriggeredNewBuild), a.Kube, d, v1alpha1.AnnotationReconcile, a.now())
}

// announce is moved for requests whose change is stored and must not fail: without the trigger, the
// controller reads the branches at its next poll.
func (a *api) announce(ctx context.Context) {
	if err := a.moved(ctx); err != nil {
		log.FromContext(ctx).Error(err, "The controller could not be told that a branch has moved; it polls the repository")
	}
}

// author returns the name and the e-mail address of the caller for commits.
func author(ctx context.Context) (name, email string) { return rest.Author(ctx) }

// stamp returns the time of a commit.
func (a *api) stamp() time.Time { return a.Clock.Now().UTC().Truncate(time.Second) }
