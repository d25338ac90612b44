// Package gitmirror keeps copies of the Git remotes of deployments in the content store, so that their
// data models are read and changed over REST like those that Quoin keeps (docs/decisions/0051).
//
//	mirrors.go       opening the mirror of a deployment
//	look.go          bringing a mirror up to date
//	push.go          moving branches of the remote
//	credentials.go   the Secret of a remote, and tokens for GitHub
//	errors.go        failures of remotes, for callers
//
// Every account chooses the servers that are read here: their answers are bounded in time, bytes,
// objects and branches, and accounts take turns (docs/decisions/0035).
package gitmirror

import (
	"cmp"
	"context"
	"errors"
	"path"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/turns"
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
	// initialBranch is the production branch of a remote without branches.
	initialBranch = "main"
	// maxStates bounds the remotes whose state is kept in memory.
	maxStates = 10_000
)

// Timeouts bound what a remote can delay. A zero value is the default.
type Timeouts struct {
	// List bounds the list of the branches, Look a whole look, with the download.
	List, Look time.Duration
	// Wait is how long a request waits for a look, which continues after it. Requests have a minute.
	Wait time.Duration
	// Head is how long Head waits.
	Head time.Duration
	// Push bounds a push.
	Push time.Duration
}

// defaultTimeouts are those of production.
var defaultTimeouts = Timeouts{List: git.DefaultTimeout, Look: 3 * time.Minute, Wait: 20 * time.Second, Head: 5 * time.Second, Push: 25 * time.Second}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		List: cmp.Or(t.List, defaultTimeouts.List), Look: cmp.Or(t.Look, defaultTimeouts.Look), Wait: cmp.Or(t.Wait, defaultTimeouts.Wait),
		Head: cmp.Or(t.Head, defaultTimeouts.Head), Push: cmp.Or(t.Push, defaultTimeouts.Push),
	}
}

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
	// Timeouts are shorter in tests.
	Timeouts Timeouts
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Mirrors are the mirrors of the remotes of all deployments. Create it with New.
type Mirrors struct {
	Options
	git                      *git.Client
	looks, downloads, pushes *turns.Places[string] // of accounts

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
	o.Timeouts = o.Timeouts.withDefaults()
	return &Mirrors{
		Options: o, git: git.New(git.Options{AllowInsecure: o.AllowInsecure, MaxConnectionBytes: maxConnectionBytes}), states: map[key]*state{},
		looks: turns.NewPlaces[string](maxLooks, maxAccountLooks), downloads: turns.NewPlaces[string](maxDownloads, maxAccountDownloads),
		pushes: turns.NewPlaces[string](maxPushes, maxAccountPushes),
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
	return &Mirror{Production: production, Root: RootOf(r.source), all: m, remote: r}, nil
}

// RootOf returns the directory of the model in a remote; empty for its root.
func RootOf(source *v1alpha1.GitSource) string { return path.Clean("/" + source.Path)[1:] }

// Head returns a branch of the remote of a deployment as its mirror has it, and a session that reads it.
// known is the commit that the caller has for the branch: if the mirror has another one, either may be the
// newer one, so the remote is read first, for a few seconds at most.
//
// It is nil if the mirror does not have the branch, because a deployment that is not changed over REST has
// no mirror, and if the remote or the database cannot be read.
func (m *Mirrors) Head(ctx context.Context, d *v1alpha1.Deployment, s content.Scope, branch, known string) (*repository.Branch, *repository.Session, error) {
	session := m.Repositories.Mirror(ctx, s, d.Spec.Model.Git.URL, nil)
	head, err := session.Branch(branch)
	if err == nil && head.Commit.String() != known {
		if err = m.refresh(ctx, d, s); err == nil {
			head, err = session.Branch(branch)
		}
	}
	var rejected *content.Error
	switch {
	case err == nil:
		return &head, session, nil
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case errors.As(err, &rejected), errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrUnavailable):
		return nil, nil, nil
	}
	return nil, nil, err
}

// refresh looks at a remote for Head.
func (m *Mirrors) refresh(ctx context.Context, d *v1alpha1.Deployment, s content.Scope) error {
	ctx, cancel := context.WithTimeout(ctx, m.Timeouts.Head)
	defer cancel()
	_, err := m.Open(ctx, d, s, Current)
	return err
}

// Session returns a session on the mirror, which records its events with those of in. What it saves is
// pushed first.
func (m *Mirror) Session(ctx context.Context, in *repository.Repositories) *repository.Session {
	return in.Mirror(ctx, m.remote.scope, m.remote.source.URL, func(ctx context.Context, s *repository.Session, moves []repository.Move) error {
		return m.all.push(ctx, m.remote, s, moves)
	})
}
