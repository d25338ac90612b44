package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/internal/oidcprovider"
)

const (
	namespace = "bench"
	person    = "ada@example.com"
	// member is a person with a role by each of several groups.
	member   = "grace@example.com"
	verifier = "a-verifier-of-the-client-a-verifier-of-the-client"
	redirect = "http://127.0.0.1:4000/callback"
)

// world is an account with an authenticator, as `quoin apiserver` has it, and a credential of each kind.
type world struct {
	account       *v1alpha1.Account
	authenticator auth.Authenticator
	credentials   map[string]string
	// calls are the requests to kube-apiserver, without watches.
	calls atomic.Int64

	idp     *oidcprovider.Provider
	db      *store.Store
	running context.CancelFunc
}

func (w *world) close() {
	w.running()
	w.idp.Close()
	if w.db != nil {
		_ = w.db.Close()
	}
}

func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (*world, error) {
	w := &world{idp: oidcprovider.New(), credentials: map[string]string{}}
	ctx, w.running = context.WithCancel(ctx)
	err := w.create(ctx, server)
	if err == nil {
		err = createGroups(ctx, o, server)
	}
	if err == nil {
		err = w.connect(ctx, server)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// create creates the account, a person and a key of the person.
func (w *world) create(ctx context.Context, server *controlplane.APIServer) error {
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return err
	}
	w.account = &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{
		Host: "bench.example.com", Namespace: namespace,
		OIDCIssuers: []v1alpha1.OIDCIssuer{{URL: w.idp.URL, Audiences: []string{"api"}, ClientID: w.idp.ClientID}},
	}}
	w.credentials["API key"] = token.Reveal()
	w.credentials["JWT"] = w.idp.Token(map[string]any{"aud": "api"})
	return server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, w.account,
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: person}},
		&v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "grace"}, Spec: v1alpha1.ScimUserSpec{UserName: member}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Spec: v1alpha1.ApiKeySpec{
			Token: ptr.To(token.Hash()), Owner: &v1alpha1.ApiKeyOwner{ScimUser: "ada"},
		}},
	)
}

// createGroups creates roles, and groups that assign one role each. A person is a member of as many groups as there are
// roles, and has all roles.
func createGroups(ctx context.Context, o options, server *controlplane.APIServer) error {
	roleOf := func(i int) string { return fmt.Sprintf("role-%d", i%o.roles) }
	for i := range o.roles {
		resource := fmt.Sprintf("deployment-%d", i)
		if i == 0 {
			resource = v1alpha1.AccountRoleAll
		}
		err := server.Create(ctx, &v1alpha1.AccountRole{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: roleOf(i)}, Spec: v1alpha1.AccountRoleSpec{
			Name: fmt.Sprintf("Role %d", i),
			Policies: []v1alpha1.AccountRolePolicy{{
				ResourceType: v1alpha1.AccountRoleDeployment, Actions: []v1alpha1.AccountRoleAction{"SchemaUpdate"}, Resources: []string{resource},
			}},
		}})
		if err != nil {
			return err
		}
	}
	_, err := measure.Spread(ctx, o.groups, o.callers, func(ctx context.Context, i int) (time.Duration, error) {
		group := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("group-%d", i)}, Spec: v1alpha1.ScimGroupSpec{
			DisplayName: fmt.Sprintf("Group %d", i), AccountRoles: []v1alpha1.AccountRoleReference{v1alpha1.AccountRoleReference(roleOf(i))},
		}}
		if i < o.roles {
			group.Spec.Members = []v1alpha1.ScimMember{{Value: "grace"}}
		}
		return 0, server.Create(ctx, group)
	})
	return err
}

// connect starts the caches and creates the authenticator.
func (w *world) connect(ctx context.Context, server *controlplane.APIServer) error {
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counter{next, &w.calls} })
	k8s, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme, o.Cache.ByObject = server.Scheme(), directory.CacheOptions()
	})
	if err != nil {
		return err
	}
	go func() { _ = k8s.Start(ctx) }()
	users, roles, informer, err := newDirectory(ctx, k8s)
	if err != nil {
		return err
	}
	keys, err := auth.Cached(k8s.GetClient(), informer)
	if err != nil {
		return err
	}
	if w.db, err = store.Open(ctx, "sqlite://"+filepath.Join(server.Dir, "quoin.db"), nil, audit.Owner, oauth.Owner); err != nil {
		return err
	}
	sessions := &oauth.Store{DB: w.db, Record: func(context.Context, *store.Tx, audit.Event) error { return nil }}
	active := auth.NewActiveUsers(users, roles, k8s.GetAPIReader(), clock.RealClock{})
	people := auth.NewOIDC(active, clock.RealClock{}, w.idp.Client())
	w.authenticator = auth.Chain(
		signin.NewAuthenticator(signin.Options{Store: sessions, People: people, Clock: clock.RealClock{}}),
		auth.NewKeys(keys, k8s.GetAPIReader(), active, clock.RealClock{}, auth.NewLastUsed(k8s.GetClient())),
		people,
		auth.NewServiceAccounts(k8s.GetClient(), clock.RealClock{}),
	)
	for kind, userName := range map[string]string{"access token": person, memberToken: member} {
		if w.credentials[kind], err = w.signIn(ctx, sessions, userName); err != nil {
			return err
		}
	}
	return nil
}

// newDirectory returns the users, groups and roles, and the informer of ApiKeys.
func newDirectory(ctx context.Context, k8s cluster.Cluster) (*directory.Directory, *access.Roles, toolscache.SharedIndexInformer, error) {
	o := directory.Options{Kube: kube.NewClient(k8s.GetClient(), k8s.GetAPIReader(), "bench"), Clock: clock.RealClock{}}
	var roles, deployments, keys toolscache.SharedIndexInformer
	for object, informer := range map[client.Object]*toolscache.SharedIndexInformer{
		&v1alpha1.ScimUser{}: &o.Users, &v1alpha1.ScimGroup{}: &o.Groups, &v1alpha1.ScimMemberChunk{}: &o.Chunks, &v1alpha1.UserAttribute{}: &o.Attributes,
		&v1alpha1.AccountRole{}: &roles, &v1alpha1.Deployment{}: &deployments, &v1alpha1.ApiKey{}: &keys,
	} {
		found, err := k8s.GetCache().GetInformer(ctx, object)
		if err != nil {
			return nil, nil, nil, err
		}
		shared, ok := found.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, nil, nil, errors.New("the informer has no store")
		}
		*informer = shared
	}
	known, err := access.NewRoles(roles, deployments, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	if !k8s.GetCache().WaitForCacheSync(ctx) {
		return nil, nil, nil, context.Cause(ctx)
	}
	users, err := directory.New(ctx, o)
	return users, known, keys, err
}

// signIn returns an access token of a person, as the command line gets it.
func (w *world) signIn(ctx context.Context, sessions *oauth.Store, userName string) (string, error) {
	stored, sum := store.Account{UID: string(w.account.UID), Name: w.account.Name}, sha256.Sum256([]byte(verifier))
	code, err := sessions.IssueCode(ctx, stored, oauth.Code{
		ClientID: "cube-cli", RedirectURI: redirect, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
		Person: oauth.Person{Issuer: w.idp.URL, Subject: userName, Claims: map[string]any{"sub": userName, "email": userName}},
	})
	if err != nil {
		return "", err
	}
	tokens, err := sessions.Redeem(ctx, stored, oauth.Redemption{Code: code, ClientID: "cube-cli", RedirectURI: redirect, Verifier: verifier})
	if err != nil {
		return "", err
	}
	return tokens.Access, nil
}

// counter counts requests, without watches.
type counter struct {
	next  http.RoundTripper
	calls *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.RawQuery, "watch=") {
		c.calls.Add(1)
	}
	return c.next.RoundTrip(r)
}
