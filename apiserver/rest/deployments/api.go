// Package deployments serves the families of the REST API that concern deployments as they run:
// settings, versions, environments, environment variables, tokens, pods and their logs, and regions.
package deployments

import (
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/token"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/podlogs"
	"github.com/quoin-dev/quoin/internal/serving"
)

// Catalog reads deployments and what belongs to them, by number. What it returns is shared and must
// not be modified.
type Catalog interface {
	// Deployments returns those of a namespace on which a principal holds a permission.
	Deployments(namespace string, p *auth.Principal, needed v1alpha1.Permission) ([]*v1alpha1.Deployment, error)
	Environments(d *v1alpha1.Deployment) ([]*v1alpha1.Environment, error)
	Branches(d *v1alpha1.Deployment) ([]*v1alpha1.Branch, error)
}

// IssuedTokens keeps which tokens have been issued, without the tokens.
type IssuedTokens interface {
	// Add keeps a token and returns its id.
	Add(ctx context.Context, s content.Scope, added token.Token) (int64, error)
	// List returns the tokens of an environment that were issued to a principal and are not expired.
	List(ctx context.Context, s content.Scope, environmentUID, by string, now time.Time) ([]token.Token, error)
}

// Region is a place where deployments can run.
type Region struct {
	// Name by which a deployment is created there.
	Name string
	// Title shown to users.
	Title string
}

// Options configure the group.
type Options struct {
	// Kube reads and writes objects.
	Kube *kube.Client
	// Catalog reads deployments from the cache.
	Catalog Catalog
	// Region of this cluster.
	Region Region
	// Tokens keeps the issued tokens; nil without a database.
	Tokens IssuedTokens
	// GitHub is the GitHub App; nil without one.
	GitHub GitHub
	// Person returns the names of the groups of a ScimUser and its user attributes, from the cache; "" is a person without one.
	// Tokens have neither if it is nil.
	Person func(ctx context.Context, namespace, user string) (groups []string, attributes map[string]any)
	// Credentials returns the access tokens of a ScimUser for the OAuth integrations that a deployment names, by type; nil
	// without a database.
	Credentials func(ctx context.Context, a *v1alpha1.Account, user string, d *v1alpha1.Deployment) (map[string]usertokens.Credential, error)
	// Logs reads the logs of pods.
	Logs podlogs.Reader
	// Repositories has the data models that Quoin keeps; nil without a database.
	Repositories *repository.Repositories
	// Mirrors has the data models in Git repositories elsewhere; nil without a database.
	Mirrors *gitmirror.Mirrors
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Random is the source of random bytes; crypto/rand when nil.
	Random io.Reader
}

// New returns the families of the group.
func New(o Options) []rest.Family {
	a := newAPI(o)
	return []rest.Family{
		a.deploymentsFamily(), a.settingsFamily(), a.versionsFamily(), a.environmentsFamily(),
		a.tokensFamily(), a.variablesFamily(), a.podsFamily(), a.regionsFamily(), a.githubFamily(),
	}
}

func newAPI(o Options) *api {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return &api{
		Options: o, accountLogs: serving.NewShares[string](maxAccountLogRequests), allLogs: serving.NewShares[struct{}](maxLogRequests),
		issuer: &datatokens.Issuer{Kube: o.Kube, Person: o.Person, Credentials: o.Credentials, Now: o.Now},
	}
}

// api has the handlers of the group.
type api struct {
	Options
	// accountLogs and allLogs limit concurrent requests for logs.
	accountLogs *serving.Shares[string]
	allLogs     *serving.Shares[struct{}]
	issuer      *datatokens.Issuer
}

// Paths of the group.
const (
	deploymentsPath = "/api/v1/deployments"
	deploymentPath  = deploymentsPath + "/{deploymentId}"
)
