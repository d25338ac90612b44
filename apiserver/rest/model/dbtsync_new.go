package model

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-git/go-git/v5/plumbing"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/githook"
)

// maxBranch is the maximum length of the name of a branch in bytes.
const maxBranch = 244

// newSync checks a request and returns the sync to start.
func (a *api) newSync(ctx context.Context, r *dbtsync.Request) (dbtsync.New, error) {
	d := rest.ScopeFrom(ctx).Deployment
	n := dbtsync.New{Trigger: "api", Output: dbtsync.ToBranch, Ref: r.Ref, Catalog: engine.LiteralVariable(d, engine.VariableCatalog)}
	var err error
	if n.Options, err = optionsOf(d, r); err != nil {
		return n, err
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

// optionsOf returns the options of a request, or else those of the deployment. Only the deployment lets dbt connect to
// the data source.
func optionsOf(d *v1alpha1.Deployment, r *dbtsync.Request) (v1alpha1.DbtOptions, error) {
	saved := v1alpha1.DbtOptions{}
	if d.Spec.Dbt != nil && d.Spec.Dbt.Options != nil {
		saved = *d.Spec.Dbt.Options
	}
	switch {
	case r.Options == nil && r.Source == dbtsync.SourceManifest:
		saved.TypesFromCatalog = nil
		return saved, nil
	case r.Options == nil:
		return saved, nil
	case !ptr.Deref(r.Options.TypesFromCatalog, false):
	case r.Source == dbtsync.SourceManifest:
		return saved, rest.BadRequest("options.typesFromCatalog: true: source manifest has no catalog; allowed: false")
	case !ptr.Deref(saved.TypesFromCatalog, false):
		return saved, rest.BadRequest("options.typesFromCatalog: true: spec.dbt.options.typesFromCatalog of deployment %s is not true, so dbt may not connect to its data source; allowed: false",
			d.Labels[v1alpha1.LabelID])
	}
	return *r.Options, nil
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

// DbtHookPath is the path of push hooks of the dbt project of a deployment: signatures of Git hosts
// authenticate on it.
const DbtHookPath = buildPath + "/dbt-hook"

// DbtHookInput is the event of a Git host.
type DbtHookInput struct {
	rest.InDeployment
	body   io.Reader
	header func(name string) string
}

// Resolve implements huma.Resolver.
func (in *DbtHookInput) Resolve(hc huma.Context) []error {
	in.body, in.header = hc.BodyReader(), hc.Header
	return nil
}

// DbtHookOutput is the response: 202 if a sync is started, or covers the push.
type DbtHookOutput struct {
	Status int
	Body   struct {
		SyncJobID  string `json:"syncJobId,omitempty" doc:"The sync; absent if the event is ignored."`
		BranchName string `json:"branchName,omitempty" doc:"The branch that receives the files."`
		Message    string `json:"message"`
	}
}

// dbtHook starts a sync after a push to the dbt repository.
func (a *api) dbtHook(ctx context.Context, in *DbtHookInput) (*DbtHookOutput, error) {
	s := rest.ScopeFrom(ctx)
	out := &DbtHookOutput{Status: http.StatusOK}
	switch {
	case a.DbtSyncs == nil:
		return nil, errNoSyncs
	case s.Deployment.Spec.Dbt == nil:
		return nil, rest.Conflict("deployment %s has no dbt project: spec.dbt is not set", in.ID)
	case !githook.IsPush(in.header):
		out.Body.Message = "the event is not a push; nothing is done"
		return out, nil
	}
	body, err := io.ReadAll(in.body)
	if err != nil {
		return nil, bodyProblem(err)
	}
	push, err := githook.Parse(in.header("Content-Type"), body)
	if err != nil {
		return nil, rest.BadRequest("%s", err)
	}
	ref := cmp.Or(s.Deployment.Spec.Dbt.Git.Ref, push.DefaultBranch)
	if ref == "" {
		return nil, rest.Conflict("spec.dbt.git.ref of deployment %s is not set, and the event does not name the default branch of the repository: set it to the branch whose pushes start syncs", in.ID)
	}
	pushed, found := push.Find(ref)
	if !found {
		out.Body.Message = "the event is not a push to " + rest.Clip(ref) + "; nothing is done"
		return out, nil
	}
	n, err := a.newSync(ctx, &dbtsync.Request{})
	if err != nil {
		return nil, err
	}
	n.DeploymentNumber, n.Delivery, n.Push = in.ID, githook.Delivery(in.header, body), &dbtsync.Push{Branch: ref, Commit: pushed.Commit}
	sync, started, err := a.DbtSyncs.StartPushed(ctx, s.Content(), s.Caller(), n)
	if err != nil {
		return nil, err
	}
	out.Body.SyncJobID, out.Body.BranchName, out.Body.Message = sync.ID, sync.Branch, "the push is covered by this sync"
	if started {
		out.Status, out.Body.Message = http.StatusAccepted, "a sync is started"
	}
	return out, nil
}

// describeDbtHook documents how Git hosts authenticate, and the body, which the engine does not read.
func describeDbtHook(doc *huma.OpenAPI, op *huma.Operation) {
	describeSignature(doc, op)
	op.RequestBody = &huma.RequestBody{
		Description: "The push event of GitHub, Gitea, Forgejo, GitLab or Bitbucket.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}},
	}
}
