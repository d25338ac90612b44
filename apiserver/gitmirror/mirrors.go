// Package gitmirror keeps copies of the Git remotes of deployments in the content store, so that their
// data models are read and changed over REST like those that Quoin keeps (docs/decisions/0051).
//
//	mirrors.go       opening the mirror of a deployment
//	look.go          bringing a mirror up to date
//	push.go          moving branches of the remote
//	credentials.go   the Secret of a remote, and tokens for GitHub
//	turns.go         limits of concurrent work, in turns between accounts
//	errors.go        failures of remotes, for callers
//
// Every account chooses the servers that are read here: their answers are bounded in time, bytes,
// objects and branches, and accounts take turns (docs/decisions/0035).
package gitmirror

import (
	"cmp"
	"context"
	"path"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/git"
)

// Need is how recent a mirror has to be.
type Need int

const (
	// Recent is for reads: the remote is not read if it was in the last seconds, and an older mirror is
	// used while the remote does not answer.
	Recent Need = iota
	// Current is for writes: the remote is read after the request. A branch that moves after that is
	// detected by the push.
	Current
)

const (
	// recentFor is how long a look at a remote serves reads.
	recentFor = 10 * time.Second
	// failureFor is how long the failure of a look is the answer to further requests.
	failureFor = 3 * time.Second
	// staleFor is how old a mirror may be that is read while the remote does not answer.
	staleFor = 10 * time.Minute
	// lookTimeout bounds a look, with the download.
	lookTimeout = 3 * time.Minute
	// maxWait is how long a request waits for a look, which continues after it. Requests have a minute.
	maxWait = 20 * time.Second
	// pushTimeout bounds a push.
	pushTimeout = 25 * time.Second
	// initialBranch is the production branch of a remote without branches.
	initialBranch = "main"
	// maxStates bounds the remotes whose state is kept in memory.
	maxStates = 10_000
)

// Limits of concurrent work: of all accounts, and of each.
const (
	maxLooks, maxAccountLooks         = 16, 4
	maxDownloads, maxAccountDownloads = 4, 1
	maxPushes, maxAccountPushes       = 8, 2
)

// PushCredentials returns the credentials for pushes of a deployment in the form of a Secret; nil for
// those of the Secret of its remote.
type PushCredentials func(ctx context.Context, d *v1alpha1.Deployment) (map[string][]byte, error)

// Options configure New.
type Options struct {
	Repositories *repository.Repositories
	// Live reads Secrets from the Kubernetes API server.
	Live client.Reader
	// AllowInsecure allows http:// URLs.
	AllowInsecure bool
	// PushCredentials may be nil.
	PushCredentials PushCredentials
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Mirrors are the mirrors of the remotes of all deployments. Create it with New.
type Mirrors struct {
	Options
	git                      *git.Client
	looks, downloads, pushes *turns

	mu     sync.Mutex
	states map[key]*state // guarded by mu
}

// key identifies a remote of a deployment. Two deployments never share a mirror.
type key struct {
	deployment types.UID
	url        string
	secret     string
}

// New returns Mirrors.
func New(o Options) *Mirrors {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Mirrors{
		Options: o, git: git.New(git.Options{AllowInsecure: o.AllowInsecure}), states: map[key]*state{},
		looks: newTurns(maxLooks, maxAccountLooks), downloads: newTurns(maxDownloads, maxAccountDownloads), pushes: newTurns(maxPushes, maxAccountPushes),
	}
}

// Mirror is the mirror of a remote.
type Mirror struct {
	// Production is the branch that production serves. It need not exist.
	Production string
	// Root is the directory of the model; empty for the root of the repository.
	Root string

	all    *Mirrors
	remote *remote
}

// remote is the remote of a deployment.
type remote struct {
	deployment *v1alpha1.Deployment
	scope      content.Scope
	source     *v1alpha1.GitSource
}

func (r *remote) key() key {
	k := key{deployment: r.deployment.UID, url: r.source.URL}
	if r.source.SecretRef != nil {
		k.secret = r.source.SecretRef.Name
	}
	return k
}

// Open returns the mirror of the remote of a deployment, whose model is in spec.model.git, after
// bringing it up to date. The error is a *content.Error if the remote cannot be read.
func (m *Mirrors) Open(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, need Need) (*Mirror, error) {
	r := &remote{deployment: d.DeepCopy(), scope: s, source: d.Spec.Model.Git.DeepCopy()}
	defaultBranch, err := m.ensure(ctx, r, need)
	if err != nil {
		return nil, err
	}
	production := cmp.Or(r.source.Branch, defaultBranch, initialBranch)
	return &Mirror{Production: production, Root: path.Clean("/" + r.source.Path)[1:], all: m, remote: r}, nil
}

// Session returns a session on the mirror, which records its events with those of in. What it saves is
// pushed first.
func (m *Mirror) Session(ctx context.Context, in *repository.Repositories) *repository.Session {
	return in.Mirror(ctx, m.remote.scope, m.remote.source.URL, func(ctx context.Context, s *repository.Session, moves []repository.Move) error {
		return m.all.push(ctx, m.remote, s, moves)
	})
}
