// Package agents prepares answers of agents: from the kinds Agent and ModelEndpoint, and from the person who asks, to the model, the
// tools, the system prompt and the limits of a run. Tools query as exactly that person (docs/decisions/0085).
//
//	agents.go      agents and their model endpoints
//	asker.go       the person who asks
//	models.go      the models of endpoints, with the keys in their Secrets
//	target.go      the environment that is queried, and its tokens
//	prepare.go     runs
//	audit.go       tool calls in the audit log
//	places.go      limits of what is in progress
//	evaluation.go  agents by name, other endpoints and files, for evaluations
package agents

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/query"
)

// Users finds users of an account; *auth.ActiveUsers implements it.
type Users interface {
	// Principal returns a user with a user name, who may do what its roles permit; nil if there is none. The error wraps
	// auth.ErrNoCredential for a user who is not active.
	Principal(ctx context.Context, account *v1alpha1.Account, userName string) (*auth.Principal, error)
}

// Options configure a service.
type Options struct {
	// Client reads objects from the cache, and Live from the Kubernetes API server.
	Client, Live client.Reader
	// Namespace of Quoin, with the Secrets of model endpoints.
	Namespace string
	Users     Users
	// Attributes returns the user attributes of the account with a namespace.
	Attributes func(namespace string) []*v1alpha1.UserAttribute
	// Files returns what the files of the data model configure for an agent: at the commit that production serves, or at the newest
	// one of a branch. It may be nil.
	Files func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, branch string) (*project.Configured, error)
	// FilesOf returns what they configure at the commit that an environment serves, and the commit. It may be nil.
	FilesOf func(ctx context.Context, a *v1alpha1.Agent, d *v1alpha1.Deployment, e *v1alpha1.Environment) (*project.Configured, string, error)
	// Tokens signs the tokens of runs.
	Tokens *datatokens.Issuer
	// HTTP connects to quoin gateway for every host; nil without a gateway.
	HTTP  *http.Client
	Clock clock.PassiveClock
}

// maxHeld limits all results in memory, and maxHeldOfAccount those of an account, in bytes as they are sent.
const (
	maxHeld          = 32 << 20
	maxHeldOfAccount = maxHeld / 2
)

// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,verbs=get

// Service prepares answers.
type Service struct {
	Options
	runner *query.Runner
	models models
}

// New returns a service.
func New(o Options) *Service {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	s := &Service{Options: o}
	if o.HTTP != nil {
		s.runner = &query.Runner{HTTP: o.HTTP, MaxHeld: maxHeld, MaxHeldOfAccount: maxHeldOfAccount}
	}
	return s
}

// Agent is an agent, its deployment, and the model endpoint that it names.
type Agent struct {
	*v1alpha1.Agent
	// ID is its number in the account.
	ID         int64
	Deployment *v1alpha1.Deployment
	// Endpoint is nil if there is none, or if the account may not use it.
	Endpoint *v1alpha1.ModelEndpoint
}

// Find returns an agent of the account by its number. For a caller who is limited to certain deployments, an agent of another one is
// 403, whether or not it exists.
func (s *Service) Find(ctx context.Context, id int64) (*Agent, error) {
	scope := rest.ScopeFrom(ctx)
	list := &v1alpha1.AgentList{}
	number := client.MatchingLabels{v1alpha1.LabelID: strconv.FormatInt(id, 10)}
	if err := s.Client.List(ctx, list, client.InNamespace(scope.Namespace()), number); err != nil {
		return nil, fmt.Errorf("find an agent: %w", err)
	}
	found := slices.IndexFunc(list.Items, func(a v1alpha1.Agent) bool { return a.Status.ID == id && a.DeletionTimestamp.IsZero() })
	if found < 0 {
		if scope.Principal.IsLimited() {
			return nil, lacks(scope, v1alpha1.PermissionDeploymentAgentRead, id)
		}
		return nil, rest.NotFound("agentId: agent %d does not exist", id)
	}
	return s.complete(ctx, &list.Items[found], id)
}

func lacks(scope *rest.Scope, permission v1alpha1.Permission, id int64) error {
	return rest.Forbidden("%s %q does not hold the permission %s on the deployment of agent %d", scope.Principal.Kind, scope.Principal.Name, permission, id)
}

// asking are the permissions on the deployment without which a caller has no agent: that to ask, and that to read its data.
var asking = []v1alpha1.Permission{v1alpha1.PermissionDeploymentAgentRead, v1alpha1.PermissionDeploymentRead}

// complete returns an agent with the objects that it refers to.
func (s *Service) complete(ctx context.Context, of *v1alpha1.Agent, id int64) (*Agent, error) {
	scope := rest.ScopeFrom(ctx)
	for _, permission := range asking {
		if !scope.Principal.MayOn(permission, of.Spec.DeploymentRef.Name) {
			return nil, lacks(scope, permission, id)
		}
	}
	a := &Agent{Agent: of, ID: id, Deployment: &v1alpha1.Deployment{}}
	err := s.Client.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Spec.DeploymentRef.Name}, a.Deployment)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read the deployment of an agent: %w", err)
	case err != nil || !a.Deployment.DeletionTimestamp.IsZero():
		return nil, rest.NotFound("agentId: the deployment of agent %d does not exist", id)
	}
	a.Endpoint, err = s.endpoint(ctx, of.Spec.ModelEndpointRef.Name)
	return a, err
}

// endpoint returns a model endpoint; nil if there is none, or if the account may not use it.
func (s *Service) endpoint(ctx context.Context, name string) (*v1alpha1.ModelEndpoint, error) {
	e := &v1alpha1.ModelEndpoint{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, e); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the model endpoint of an agent: %w", err)
	}
	if allowed := e.Spec.AllowedAccounts; e.Name == "" || len(allowed) > 0 && !slices.Contains(allowed, rest.ScopeFrom(ctx).Account.Name) {
		return nil, nil
	}
	return e, nil
}

// Available returns an error if the agent cannot answer messages.
func (a *Agent) Available() error {
	switch {
	case ptr.Deref(a.Spec.Suspended, false):
		return rest.Conflict("agent %d is suspended: chats can be read, and messages are not answered", a.ID)
	case a.Endpoint == nil:
		return rest.Unavailable("agent %d has no model: the model endpoint %q does not exist, or is not for this account", a.ID, a.Spec.ModelEndpointRef.Name)
	}
	return nil
}
