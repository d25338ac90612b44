package auth

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
)

// IndexTokenID is the field by which the cache finds ApiKeys; TokenIDs are its values.
const IndexTokenID = "tokenID"

// TokenIDs are the ids of the tokens of an ApiKey, at most two: spec.token.id, status.token.id.
func TokenIDs(obj client.Object) []string {
	k, ok := obj.(*v1alpha1.ApiKey)
	if !ok {
		return nil
	}
	var ids []string
	for _, t := range []*v1alpha1.ApiKeyToken{k.Spec.Token, k.Status.Token} {
		if t != nil {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// tokenFields are the same fields as the API server selects by.
var tokenFields = []string{"spec.token.id", "status.token.id"}

const (
	// livePerSecond and liveBurst bound the look-ups past the cache, which whoever makes up
	// keys causes.
	livePerSecond = 20
	liveBurst     = 50
	// unknownFor is how long an id that is not there is not looked up again. Ids are random
	// and not shown before the key exists, so none is missed that is made in between.
	unknownFor  = 10 * time.Second
	mostUnknown = 4096
)

// Keys recognises API keys. Make one with NewKeys.
type Keys struct {
	cached, live client.Reader
	clock        clock.PassiveClock
	used         *LastUsed
	limiter      *rate.Limiter
	unknown      *memory[struct{}]
}

// NewKeys returns an authenticator of API keys. cached has the index IndexTokenID; live reads
// the API server itself; used may be nil.
func NewKeys(cached, live client.Reader, clk clock.PassiveClock, used *LastUsed) *Keys {
	return &Keys{
		cached: cached, live: live, clock: clk, used: used,
		limiter: rate.NewLimiter(livePerSecond, liveBurst),
		unknown: newMemory[struct{}](clk, unknownFor, mostUnknown),
	}
}

// Authenticate implements Authenticator. Objects outside of the account's namespace are never
// looked at.
func (a *Keys) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	c, err := credentialOf(r)
	if err != nil {
		return nil, err
	}
	if !c.isKey() {
		return nil, otherForm
	}
	k, from, err := a.find(ctx, account.Spec.Namespace, c.key)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, refused("there is no such API key")
	}
	if !k.DeletionTimestamp.IsZero() {
		return nil, refused("the API key has been deleted")
	}
	owner, err := ownerOf(ctx, from, k)
	if err != nil {
		return nil, err
	}
	now := a.clock.Now()
	if _, message := apikey.Refusal(k, owner, now); message != "" {
		return nil, refused("%s", strings.ToLower(message[:1])+message[1:])
	}
	if a.used != nil {
		a.used.Note(k, now)
	}
	return principalOf(account, k, owner), nil
}

// find returns the ApiKey of a token, nil when there is none, and the reader that knows it.
// A key that was made a moment ago may not be in the cache: the API server is asked then.
func (a *Keys) find(ctx context.Context, namespace string, token apikey.Token) (*v1alpha1.ApiKey, client.Reader, error) {
	list := &v1alpha1.ApiKeyList{}
	if err := a.cached.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{IndexTokenID: token.ID()}); err != nil {
		return nil, nil, fmt.Errorf("find API key: %w", err)
	}
	if len(list.Items) > 0 {
		return match(list.Items, token), a.cached, nil
	}
	name := namespace + "/" + token.ID()
	if _, known := a.unknown.get(name); known {
		return match(nil, token), nil, nil
	}
	if !a.limiter.Allow() {
		return nil, nil, ErrBusy
	}
	for _, field := range tokenFields {
		if err := a.live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{field: token.ID()}); err != nil {
			return nil, nil, fmt.Errorf("find API key by %s: %w", field, err)
		}
		if len(list.Items) > 0 {
			return match(list.Items, token), a.live, nil
		}
	}
	a.unknown.put(name, struct{}{})
	return match(nil, token), nil, nil
}

// nobody's hash stands in where no key has the id, so that it takes as long.
var nobody = v1alpha1.ApiKeyToken{SHA256: strings.Repeat("0", 64)}

// match is the key whose token it is: of several, made by copying a key's YAML, the first.
func match(keys []v1alpha1.ApiKey, token apikey.Token) *v1alpha1.ApiKey {
	if len(keys) == 0 {
		apikey.Matches(nobody, token)
	}
	var found *v1alpha1.ApiKey
	for i := range keys {
		k := &keys[i]
		if hash := k.Token(); hash != nil && apikey.Matches(*hash, token) && (found == nil || older(k, found)) {
			found = k
		}
	}
	return found
}

func older(a, b *v1alpha1.ApiKey) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}

// ownerOf is the user that a key acts for; nil when there is none.
func ownerOf(ctx context.Context, from client.Reader, k *v1alpha1.ApiKey) (*v1alpha1.ScimUser, error) {
	if k.Spec.Owner == nil {
		return nil, nil
	}
	owner := &v1alpha1.ScimUser{}
	err := from.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Spec.Owner.ScimUser}, owner)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the owner of API key %q: %w", k.Name, err)
	}
	return owner, nil
}

func principalOf(account *v1alpha1.Account, k *v1alpha1.ApiKey, owner *v1alpha1.ScimUser) *Principal {
	p := &Principal{Kind: KindAPIKey, Account: account.Name, ID: k.Name, Name: k.Spec.DisplayName, Permissions: k.Spec.Permissions, ScimProfile: k.Spec.ScimProfile}
	if p.Name == "" {
		p.Name = k.Name
	}
	if owner != nil {
		p.Email, p.User = emailOf(owner), owner.Name
	}
	if len(p.Permissions) == 0 {
		p.Permissions = []v1alpha1.Permission{v1alpha1.PermissionAdmin}
	}
	if len(k.Spec.Deployments) > 0 {
		p.Deployments = k.Spec.Deployments
	}
	return p
}

// emailOf is the primary address of a user, its userName when none is primary.
func emailOf(u *v1alpha1.ScimUser) string {
	for _, e := range u.Spec.Emails {
		if e.Primary != nil && *e.Primary && e.Value != "" {
			return e.Value
		}
	}
	return u.Spec.UserName
}
