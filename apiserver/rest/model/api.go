// Package model serves the families of the REST API that concern the data model of a deployment:
// branches, dev mode, commits, merges, validation, pulls, dbt syncs and the push hook of Git hosts.
package model

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Catalog reads the branches of a deployment, by number. What it returns is shared and must not be
// modified.
type Catalog interface {
	Branches(ctx context.Context, d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error)
	Environments(ctx context.Context, d *v1alpha1.Deployment) ([]*v1alpha1.Environment, error)
}

// Options configure the group.
type Options struct {
	// Kube reads and writes objects.
	Kube *kube.Client
	// Catalog reads branches and environments from the cache.
	Catalog Catalog
	// DbtSyncs are the dbt syncs; nil without a database.
	DbtSyncs *dbtsync.Syncs
	// Repositories has the data models that Quoin keeps, and DevMode who works on which branch; nil
	// without a database.
	Repositories *repository.Repositories
	DevMode      *devmode.DevMode
	// Moved is called after branches of a deployment have moved. When nil, it annotates the object, so
	// that the controller reads the branches at once.
	Moved func(ctx context.Context, d *v1alpha1.Deployment) error
	// Ask requests the metadata of an environment's server; over HTTP when nil.
	Ask Ask
	// Clock is that of the machine when nil.
	Clock clock.Clock
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Ask == nil {
		o.Ask = overHTTP(o.Kube)
	}
	a := &api{Options: o, hooks: newHookLimiter(o.Clock), dbtUploads: make(chan struct{}, maxDbtUploads)}
	if a.Moved == nil {
		a.Moved = a.annotate
	}
	return []rest.Family{a.branchesFamily(), a.dbtSyncFamily()}
}

// api has the handlers of the group.
type api struct {
	Options
	hooks *hookLimiter
	// dbtUploads has a value for each manifest that is being read.
	dbtUploads chan struct{}
}

// now returns the time as the value of an annotation that has to differ from the previous one.
func (a *api) now() string { return a.Clock.Now().UTC().Format(time.RFC3339Nano) }

const buildPath = "/build/api/v1/deployments/{deploymentId}"
