package agents

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/query"
)

const (
	// tokenLifetime is that of the token of a run. It is renewed when less than tokenMargin is left.
	tokenLifetime = 5 * time.Minute
	tokenMargin   = time.Minute
	// checkInterval is the time after which the credential of the caller is checked again before a query.
	checkInterval = 5 * time.Second
)

// target returns where the queries of a run go, and with which tokens. ctx is that of the run.
func (s *Service) target(ctx context.Context, asker *Asker, branch string) (query.Target, error) {
	if s.runner == nil {
		return query.Target{}, rest.Unavailable("queries cannot be run: quoin apiserver has no --gateway-address")
	}
	e, err := s.environment(ctx, asker.scope.Deployment, branch)
	if err != nil {
		return query.Target{}, content.Prefixed("activeBranchName", err)
	}
	t := &tokens{service: s, environment: e, asker: asker, checked: s.Clock.Now()}
	if _, err := t.token(ctx); err != nil {
		return query.Target{}, err
	}
	return query.Target{URL: e.Status.APICredentials.REST.URL, Identity: t.current.Identity, Account: string(asker.scope.Account.UID), Token: t.token}, nil
}

// environment returns the environment of a branch; that of production if the branch is empty.
func (s *Service) environment(ctx context.Context, d *v1alpha1.Deployment, branch string) (*v1alpha1.Environment, error) {
	e := &v1alpha1.Environment{}
	if branch != "" {
		found, err := s.ofBranch(ctx, d, branch)
		if err != nil {
			return nil, err
		}
		e = found
	} else if err := s.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v1alpha1.ProductionName(d.Name)}, e); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the environment of an agent: %w", err)
	}
	if e.Status.APICredentials == nil || e.Status.CredentialsSecret == "" {
		return nil, rest.Unavailable("the environment that the agent queries is not set up yet")
	}
	return e, nil
}

// ofProduction returns a branch; empty if it is the one that production serves.
func (s *Service) ofProduction(ctx context.Context, d *v1alpha1.Deployment, branch string) (string, error) {
	if branch == "" {
		return "", nil
	}
	list := &v1alpha1.BranchList{}
	if err := s.Client.List(ctx, list, client.InNamespace(d.Namespace)); err != nil {
		return "", fmt.Errorf("find the branch of production: %w", err)
	}
	var branches []*v1alpha1.Branch
	for i := range list.Items {
		if list.Items[i].Spec.DeploymentRef.Name == d.Name {
			branches = append(branches, &list.Items[i])
		}
	}
	if branch == catalog.ProductionBranch(d, branches) {
		return "", nil
	}
	return branch, nil
}

// ofBranch returns the environment that serves a branch.
func (s *Service) ofBranch(ctx context.Context, d *v1alpha1.Deployment, branch string) (*v1alpha1.Environment, error) {
	branches, environments := &v1alpha1.BranchList{}, &v1alpha1.EnvironmentList{}
	if err := errors.Join(s.Client.List(ctx, branches, client.InNamespace(d.Namespace)), s.Client.List(ctx, environments, client.InNamespace(d.Namespace))); err != nil {
		return nil, fmt.Errorf("find the environment of a branch: %w", err)
	}
	for i := range branches.Items {
		b := &branches.Items[i]
		if b.Spec.DeploymentRef.Name != d.Name || b.Spec.Name != branch {
			continue
		}
		for j := range environments.Items {
			e := &environments.Items[j]
			if e.Spec.DeploymentRef.Name == d.Name && e.Spec.BranchRef != nil && e.Spec.BranchRef.Name == b.Name {
				return e, nil
			}
		}
	}
	return nil, content.Errorf(content.NotFound, "deployment %s has no branch %q with an environment", d.Labels[v1alpha1.LabelID], rest.Clip(branch))
}

// tokens are those of a run.
type tokens struct {
	service     *Service
	environment *v1alpha1.Environment
	asker       *Asker

	mu      sync.Mutex
	current *datatokens.Token
	// checked is when the credential of the caller was valid.
	checked time.Time
}

// errEnded is the end of a run whose caller is no longer authenticated.
var errEnded = rest.Forbidden("the credential was revoked or has expired while the agent was answering")

// token returns a token that is valid for some time. The error is an *agent.Ended if the run must not go on.
func (t *tokens) token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.service.Clock.Now()
	if now.Sub(t.checked) >= checkInterval {
		if err := t.service.Check(ctx, t.asker); err != nil {
			return "", &agent.Ended{Err: err}
		}
		t.checked = now
	}
	if t.current != nil && t.current.ExpiresAt.Sub(now) > tokenMargin {
		return t.current.JWT, nil
	}
	next, err := t.service.Tokens.Sign(t.asker.scope.With(ctx), t.environment, t.asker.contents, tokenLifetime)
	switch {
	case err != nil:
		return "", err
	case t.current != nil && next.Identity != t.current.Identity:
		return "", &agent.Ended{Err: rest.Conflict("what the person may see has changed while the agent was answering: send the message again")}
	}
	t.current = next
	return next.JWT, nil
}

// Check returns an error if the credential of the caller is no longer valid, or if the caller may not ask any more. The context is that
// of a run.
func (s *Service) Check(ctx context.Context, asker *Asker) error {
	p, err := auth.Again(ctx)
	switch {
	case errors.Is(err, auth.ErrNoCredential), errors.Is(err, auth.ErrForbidden):
		return errEnded
	case err != nil: // it cannot be checked now
		if ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "The credential of a run cannot be checked")
		}
		return nil
	case p != nil && !p.MayOn(asker.needed, asker.scope.Deployment.Name):
		return errEnded
	}
	return nil
}
