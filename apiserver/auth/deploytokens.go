package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/pending"
)

// DeployTokenFinder finds deploy tokens; *deploytoken.Tokens implements it.
type DeployTokenFinder interface {
	// Find returns the token of an account with a text. The error wraps deploytoken.ErrUnknown unless
	// there is one.
	Find(ctx context.Context, accountUID, text string) (*deploytoken.Token, error)
}

// DeployTokens authenticates deploy tokens and Git tokens. Clients send them without a scheme, or as
// bearer tokens; on one route, which exchanges a token, in the body. Create it with NewDeployTokens.
type DeployTokens struct {
	tokens       DeployTokenFinder
	users        *ActiveUsers
	exchange     string
	cached, live client.Reader
	budget       *budget
	reading      *pending.Set
}

// deployTokenAllowance limits the reads of the database that invented tokens cause.
var deployTokenAllowance = allowance{address: rates{5, 20}, account: rates{10, 40}, total: rates{50, 100}}

// exchangesAtOnce is the maximum number of bodies with tokens that are read concurrently. See hooksAtOnce.
const exchangesAtOnce = 100

// errDeployToken is returned for every invalid deploy token.
var errDeployToken = unauthenticated("there is no such deploy token: it was replaced, has expired, or is that of another account")

// deployTokenPermissions are the permissions of the kinds of tokens.
var deployTokenPermissions = map[deploytoken.Kind][]v1alpha1.Permission{
	deploytoken.Deploy: {v1alpha1.PermissionSchemaRead, v1alpha1.PermissionSchemaUpdate, v1alpha1.PermissionSecretsManage},
	deploytoken.Git:    {v1alpha1.PermissionSchemaRead, v1alpha1.PermissionSchemaUpdate},
}

// NewDeployTokens returns an authenticator of deploy tokens. exchange is the path of the route to which
// clients post {"token": …} without an Authorization header. cached and live read Deployments and ScimUsers;
// live from the Kubernetes API server.
func NewDeployTokens(tokens DeployTokenFinder, users *ActiveUsers, exchange string, cached, live client.Reader, clk clock.PassiveClock) *DeployTokens {
	return &DeployTokens{
		tokens: tokens, users: users, exchange: exchange, cached: cached, live: live,
		budget: newBudget(clk, deployTokenAllowance), reading: newReading(exchangesAtOnce),
	}
}

// Authenticate implements Authenticator.
func (a *DeployTokens) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	text, err := a.tokenIn(r)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(text))
	credential := hex.EncodeToString(sum[:])
	if err := a.budget.spend(ctx, account.Name, credential); err != nil {
		return nil, err
	}
	found, err := a.tokens.Find(ctx, string(account.UID), text)
	if err == nil {
		err = a.exists(ctx, account, found)
	}
	if err == nil {
		err = a.checkCreator(ctx, account.Spec.Namespace, found.CreatedBy)
	}
	switch {
	case errors.Is(err, deploytoken.ErrUnknown):
		a.budget.disprove(account.Name, credential)
		return nil, errDeployToken
	case errors.Is(err, ErrNoCredential):
		a.budget.disprove(account.Name, credential)
		return nil, err
	case err != nil:
		return nil, err
	}
	a.budget.prove(ctx, account.Name, credential)
	p := &Principal{
		Kind: KindDeployToken, Account: account.Name, ID: found.ID, Name: "deploy token of " + found.Deployment.Name,
		Grants: access.On([]string{found.Deployment.Name}, deployTokenPermissions[found.Kind]...),
	}
	if found.Kind == deploytoken.Deploy {
		p.Creator, p.CreatorName = found.CreatedBy.Principal, found.CreatedBy.UserName
		if p.CreatorName == "" {
			_, p.CreatorName, _ = strings.Cut(p.Creator, ":")
		}
	}
	return p, nil
}

// exists returns an error unless the deployment of a token exists. Another object of its name, or one
// in another namespace, is not it.
func (a *DeployTokens) exists(ctx context.Context, account *v1alpha1.Account, t *deploytoken.Token) error {
	if t.Deployment.Namespace != account.Spec.Namespace {
		return deploytoken.ErrUnknown
	}
	key := client.ObjectKey{Namespace: t.Deployment.Namespace, Name: t.Deployment.Name}
	for _, from := range []client.Reader{a.cached, a.live} {
		d := &v1alpha1.Deployment{}
		err := from.Get(ctx, key, d)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the deployment of a deploy token: %w", err)
		}
		if err == nil && string(d.UID) == t.Deployment.UID {
			return nil
		}
	}
	return deploytoken.ErrUnknown
}

// errCreator is returned for a valid token whose creator has left.
var errCreator = unauthenticated("the user who created the deploy token is not active: another user has to create one")

// checkCreator returns an error if a token was created by a person who is deactivated or deleted since, by
// the rules for API keys and for access tokens of users. Other tokens, which programs created, are accepted.
func (a *DeployTokens) checkCreator(ctx context.Context, namespace string, by deploytoken.Creator) error {
	if by.User == "" {
		if by.UserName == "" {
			return nil
		}
		_, err := a.users.named(ctx, namespace, by.UserName)
		if errors.Is(err, ErrNoCredential) {
			return errCreator
		}
		return err
	}
	for _, from := range []client.Reader{a.cached, a.live} { // a new user may not be in the cache yet
		user, err := userOf(ctx, from, namespace, by.User)
		switch {
		case err != nil:
			return fmt.Errorf("creator of a deploy token: %w", err)
		case user == nil, by.UserUID != "" && string(user.UID) != by.UserUID: // of the name is another person now
		case user.IsActive():
			return nil
		default:
			return errCreator
		}
	}
	return errCreator
}

// tokenIn returns the token of a request; otherForm if there is none that has the form of a deploy
// token.
func (a *DeployTokens) tokenIn(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) == 0 && r.Method == http.MethodPost && r.URL.Path == a.exchange {
		return a.tokenInBody(r)
	}
	if len(headers) != 1 || len(headers[0]) > maxCredential {
		return "", otherForm
	}
	text := headers[0]
	if !isJWT(text) {
		c, err := credentialOf(r)
		if err != nil || c.isKey() {
			return "", otherForm // the next authenticator describes what is wrong
		}
		text = c.jwt
	}
	if _, ok := deploytoken.IDOf(text); !ok {
		return "", otherForm
	}
	return text, nil
}

// tokenInBody returns the token in the body of a request, which can be read again afterwards.
func (a *DeployTokens) tokenInBody(r *http.Request) (string, error) {
	defer a.reading.Add(serving.ClientNetwork(r.Context()), func() { serving.InterruptBody(r.Context()) }).Done()
	data, err := io.ReadAll(io.LimitReader(r.Body, maxCredential+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrBody, err)
	}
	var body struct {
		Token string `json:"token"`
	}
	if len(data) > maxCredential || json.Unmarshal(data, &body) != nil {
		return "", errDeployToken
	}
	r.Body = io.NopCloser(bytes.NewReader(data))
	return body.Token, nil
}
