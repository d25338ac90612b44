// Package model serves the families of the REST API that concern the data model of a deployment:
// branches, dev mode, commits, merges, validation, files, uploads, pulls, dbt syncs and the push hook of
// Git hosts.
package model

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/rest/model/ask"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// Catalog reads the branches of a deployment, by number. What it returns is shared and must not be
// modified.
type Catalog interface {
	Branches(d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error)
	Environments(d *v1alpha1.Deployment) ([]*v1alpha1.Environment, error)
	// Deployments returns those of a namespace on which a principal holds a permission.
	Deployments(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error)
}

// Options configure the group.
type Options struct {
	// Kube reads and writes objects.
	Kube *kube.Client
	// Catalog reads branches and environments from the cache.
	Catalog Catalog
	// DbtSyncs are the dbt syncs; nil without a database.
	DbtSyncs *dbtsync.Syncs
	// DbtGit reports whether quoin controller has an image with dbt, for syncs with source git.
	DbtGit bool
	// Repositories has the data models that Quoin keeps, and DevMode who works on which branch; nil
	// without a database.
	Repositories *repository.Repositories
	DevMode      *devmode.DevMode
	// Mirrors has the data models in Git repositories elsewhere; nil without a database.
	Mirrors *gitmirror.Mirrors
	// Moved is called after branches of a deployment have moved. When nil, it annotates the object, so
	// that the controller reads the branches at once.
	Moved func(ctx context.Context, d *v1alpha1.Deployment) error
	// Ask requests the metadata of an environment's server; over HTTP when nil.
	Ask Ask
	// Tracer creates spans of requests over HTTP; nil for none.
	Tracer *tracing.Tracer
	// Uploads has the uploads of data models, and DeployTokens the tokens for them; nil without a database.
	Uploads      *upload.Uploads
	DeployTokens *deploytoken.Tokens
	// SetVariables sets environment variables of the deployment of a request. If replace is true, others
	// are removed; if not, variables that exist keep their values.
	SetVariables func(ctx context.Context, values map[string]string, replace bool) error
	// IssueToken returns a token that queries the data of an environment, valid for a number of seconds.
	IssueToken func(ctx context.Context, e *v1alpha1.Environment, securityContext map[string]any, lifetime int64) (string, error)
	// Clock is that of the machine when nil.
	Clock clock.Clock
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Ask == nil {
		o.Ask = ask.OverHTTP(o.Kube, o.Tracer)
	}
	a := &api{
		Options: o, hooks: newHookLimiter(o.Clock), dbtUploads: make(chan struct{}, maxDbtUploads),
		writers: serving.NewShares[string](maxWriters), readers: serving.NewShares[string](maxReaders),
	}
	if a.Moved == nil {
		a.Moved = a.annotate
	}
	families := []rest.Family{a.branchesFamily(), a.filesFamily(), a.uploadsFamily(), a.deployTokensFamily(), a.deployFamily(), a.dbtSyncFamily()}
	for _, family := range families {
		for i := range family.Routes {
			family.Routes[i] = family.Routes[i].WithDocument(describeGateway)
		}
	}
	return families
}

// describeGateway documents the status for failures of the Git repository of a deployment.
func describeGateway(_ *huma.OpenAPI, op *huma.Operation) {
	response := *op.Responses["503"]
	response.Description = http.StatusText(http.StatusBadGateway)
	op.Responses["502"] = &response
}

// api has the handlers of the group.
type api struct {
	Options
	hooks *hookLimiter
	// dbtUploads has a value for each manifest that is being read.
	dbtUploads chan struct{}
	// writers and readers are the concurrent requests of each account that hold large contents in memory.
	writers, readers *serving.Shares[string]
}

// BodyLimit returns the maximum size of the body of a request in bytes; 0 for that of the server.
func BodyLimit(r *http.Request) int64 { return cmp.Or(fileBodyLimit(r), dbtBodyLimit(r)) }

// Record stores the event of a change. A change by a request of the REST API is one of its deployment;
// others, such as pushes, name theirs.
func Record(ctx context.Context, tx *store.Tx, e audit.Event) error {
	if s := rest.ScopeFrom(ctx); s != nil && s.Deployment != nil {
		e.Deployment = recording.DeploymentOf(s.Deployment)
	}
	return recording.RecordTx(ctx, tx, e)
}

// now returns the time as the value of an annotation that has to differ from the previous one.
func (a *api) now() string { return a.Clock.Now().UTC().Format(time.RFC3339Nano) }

const buildPath = "/build/api/v1/deployments/{deploymentId}"
