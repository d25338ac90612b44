package auth

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/cacheindex"
)

// IndexTokenID is the index of ApiKeys by token id. TokenIDs returns its values.
const IndexTokenID = "tokenID"

// TokenIDs returns the token ids of an ApiKey: spec.token.id, status.token.id or both.
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

// cachedKeys is a reader of a cache that finds ApiKeys without copying them.
type cachedKeys struct {
	client.Reader
	keys toolscache.Indexer
}

// Cached returns the reader of a cache for NewKeys, with the informer of ApiKeys of the cache: each request finds a key, and no list
// is allocated for it.
func Cached(reader client.Reader, keys toolscache.SharedIndexInformer) (client.Reader, error) {
	index := cacheindex.By(func(k *v1alpha1.ApiKey) []string {
		ids := TokenIDs(k)
		for i, id := range ids {
			ids[i] = cacheindex.Key(k.Namespace, id)
		}
		return ids
	})
	if err := keys.AddIndexers(toolscache.Indexers{IndexTokenID: index}); err != nil {
		return nil, fmt.Errorf("add the index of token ids: %w", err)
	}
	return &cachedKeys{reader, keys.GetIndexer()}, nil
}

// cachedWith returns the ApiKeys in the cache with a token id. They are shared and must not be modified.
func (a *Keys) cachedWith(ctx context.Context, namespace, id string) ([]*v1alpha1.ApiKey, error) {
	if c, ok := a.cached.(*cachedKeys); ok {
		return cacheindex.Find[*v1alpha1.ApiKey](c.keys, IndexTokenID, cacheindex.Key(namespace, id))
	}
	list := &v1alpha1.ApiKeyList{}
	err := a.cached.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{IndexTokenID: id}, client.UnsafeDisableDeepCopy)
	return pointersTo(list), err
}

func pointersTo(list *v1alpha1.ApiKeyList) []*v1alpha1.ApiKey {
	all := make([]*v1alpha1.ApiKey, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all
}

// tokenFields are the selectable fields with the same values.
var tokenFields = []string{"spec.token.id", "status.token.id"}

const (
	// unknownFor is how long an unknown id is not looked up again. Ids are random and not returned
	// before the key exists, so no new key is missed.
	unknownFor = 10 * time.Second
	maxUnknown = 4096
)

// lookupAllowance limits lookups that bypass the cache, which requests with invented keys cause.
var lookupAllowance = allowance{address: rates{5, 20}, account: rates{10, 40}, total: rates{50, 100}}

// Keys authenticates API keys. Create it with NewKeys.
type Keys struct {
	cached, live client.Reader
	users        *ActiveUsers
	clock        clock.PassiveClock
	used         *LastUsed
	budget       *budget
	unknown      *expiringCache[string, struct{}]
}

// NewKeys returns an authenticator of API keys. cached is that of Cached, or has the index IndexTokenID; live
// reads from the Kubernetes API server; users has what owners may do; used may be nil.
func NewKeys(cached, live client.Reader, users *ActiveUsers, clk clock.PassiveClock, used *LastUsed) *Keys {
	return &Keys{
		cached: cached, live: live, users: users, clock: clk, used: used,
		budget:  newBudget(clk, lookupAllowance),
		unknown: newExpiringCache[string, struct{}](clk, unknownFor, maxUnknown),
	}
}

// Authenticate implements Authenticator. It reads objects in the account's namespace only.
func (a *Keys) Authenticate(ctx context.Context, account *v1alpha1.Account, r *http.Request) (*Principal, error) {
	c, err := credentialOf(r)
	if err != nil {
		return nil, err
	}
	if !c.isKey() {
		return nil, otherForm
	}
	return a.Principal(ctx, account, c.key.Hash())
}

// Principal returns the principal of the key that has a token with a hash. Errors are those of Authenticate.
func (a *Keys) Principal(ctx context.Context, account *v1alpha1.Account, hash v1alpha1.ApiKeyToken) (*Principal, error) {
	k, from, err := a.find(ctx, account, hash)
	if err != nil {
		return nil, err
	}
	if k == nil {
		return nil, unauthenticated("there is no such API key")
	}
	if !k.DeletionTimestamp.IsZero() {
		return nil, unauthenticated("the API key has been deleted")
	}
	owner, err := ownerOf(ctx, from, k)
	if err != nil {
		return nil, err
	}
	now := a.clock.Now()
	if _, message := apikey.Refusal(k, owner, now); message != "" {
		return nil, unauthenticated("%s", strings.ToLower(message[:1])+message[1:])
	}
	if a.used != nil {
		a.used.Note(k, now)
	}
	p := a.principalOf(account, k, owner)
	if owner != nil {
		p.Issuer, p.Groups = k.Spec.Owner.Issuer, k.Spec.Owner.Groups
		granted, hasRole := a.users.grantsOf(ctx, account, owner, trustedIssuer(account, p.Issuer), p.Groups)
		p.Grants, p.HasRole = p.Within(granted), hasRole
	}
	return p, nil
}

// find returns the ApiKey with the hash of a token, nil if there is none, and the reader that has it. The key is shared and must not
// be modified. A new key may not be in the cache yet: find then reads from the Kubernetes API server.
func (a *Keys) find(ctx context.Context, account *v1alpha1.Account, hash v1alpha1.ApiKeyToken) (*v1alpha1.ApiKey, client.Reader, error) {
	namespace := account.Spec.Namespace
	cached, err := a.cachedWith(ctx, namespace, hash.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("find API key: %w", err)
	}
	if len(cached) > 0 {
		return match(cached, hash), a.cached, nil
	}
	name := namespace + "/" + hash.ID
	if _, known := a.unknown.get(name); known {
		return match(nil, hash), nil, nil
	}
	if err := a.budget.spend(ctx, account.Name, ""); err != nil {
		return nil, nil, err
	}
	list := &v1alpha1.ApiKeyList{}
	for _, field := range tokenFields {
		if err := a.live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{field: hash.ID}); err != nil {
			return nil, nil, fmt.Errorf("find API key by %s: %w", field, err)
		}
		if len(list.Items) > 0 {
			return match(pointersTo(list), hash), a.live, nil
		}
	}
	a.unknown.put(name, struct{}{})
	return match(nil, hash), nil, nil
}

// dummyToken is the hash that is compared if no key has the id, so that the lookup takes constant time.
var dummyToken = v1alpha1.ApiKeyToken{SHA256: strings.Repeat("0", 64)}

// match returns the key with a hash, nil if there is none. Of several keys, which result from
// copying YAML, it returns the oldest.
func match(keys []*v1alpha1.ApiKey, hash v1alpha1.ApiKeyToken) *v1alpha1.ApiKey {
	if len(keys) == 0 {
		apikey.Equal(dummyToken, hash)
	}
	var found *v1alpha1.ApiKey
	for _, k := range keys {
		if kept := k.Token(); kept != nil && apikey.Equal(*kept, hash) && (found == nil || older(k, found)) {
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

// ownerOf returns the user that a key acts on behalf of, nil if there is none.
func ownerOf(ctx context.Context, from client.Reader, k *v1alpha1.ApiKey) (*v1alpha1.ScimUser, error) {
	if k.Spec.Owner == nil {
		return nil, nil
	}
	owner, err := userOf(ctx, from, k.Namespace, k.Spec.Owner.ScimUser)
	if err != nil {
		return nil, fmt.Errorf("owner of API key %q: %w", k.Name, err)
	}
	return owner, nil
}

func (a *Keys) principalOf(account *v1alpha1.Account, k *v1alpha1.ApiKey, owner *v1alpha1.ScimUser) *Principal {
	p := &Principal{Kind: KindAPIKey, Account: account.Name, ID: k.Name, Name: k.Spec.DisplayName, ScimProfile: k.Spec.ScimProfile}
	if p.Name == "" {
		p.Name = k.Name
	}
	if owner != nil {
		p.Email, p.User, p.UserUID = EmailOf(owner), owner.Name, string(owner.UID)
	}
	p.Grants = a.grantsOf(k)
	return p
}

// grantsOf returns the permissions of a key.
func (a *Keys) grantsOf(k *v1alpha1.ApiKey) access.Grants {
	granted := access.Grant{Permissions: k.Spec.Permissions}
	if len(granted.Permissions) == 0 {
		granted.Permissions = []v1alpha1.Permission{v1alpha1.PermissionAdmin}
	}
	if len(k.Spec.Deployments) > 0 {
		granted.Deployments = a.users.roles.Of(k.Namespace).Deployments(k.Spec.Deployments)
	}
	return access.Grants{granted}
}

// EmailOf returns the primary e-mail address of a user, or userName if there is none.
func EmailOf(u *v1alpha1.ScimUser) string {
	for _, e := range u.Spec.Emails {
		if e.Primary != nil && *e.Primary && e.Value != "" {
			return e.Value
		}
	}
	return u.Spec.UserName
}
