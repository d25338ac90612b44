// Package apiserver is the REST and SCIM server: it serves the hosts of the accounts over HTTPS, and
// the same handlers as an aggregated API server. Its state is in the Kubernetes API and in the
// content store; with PostgreSQL, any number of replicas serve in parallel.
//
// A request passes, in this order, serving (listener, limits, access log), handler (account,
// authentication, rate limit, recording) and rest or scim.
package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/aggregation"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/catalog"
	"github.com/quoin-dev/quoin/apiserver/chat"
	"github.com/quoin-dev/quoin/apiserver/clientcredentials"
	"github.com/quoin-dev/quoin/apiserver/datatokens"
	"github.com/quoin-dev/quoin/apiserver/dbtobjects"
	"github.com/quoin-dev/quoin/apiserver/directory"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/evaluations"
	"github.com/quoin-dev/quoin/apiserver/githttp"
	"github.com/quoin-dev/quoin/apiserver/gitmirror"
	"github.com/quoin-dev/quoin/apiserver/guide"
	"github.com/quoin-dev/quoin/apiserver/mcp"
	"github.com/quoin-dev/quoin/apiserver/metering"
	"github.com/quoin-dev/quoin/apiserver/oidcissuer"
	"github.com/quoin-dev/quoin/apiserver/queries"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	restagents "github.com/quoin-dev/quoin/apiserver/rest/agents"
	"github.com/quoin-dev/quoin/apiserver/rest/attributes"
	"github.com/quoin-dev/quoin/apiserver/rest/content"
	"github.com/quoin-dev/quoin/apiserver/rest/deployments"
	"github.com/quoin-dev/quoin/apiserver/rest/identity"
	"github.com/quoin-dev/quoin/apiserver/rest/model"
	"github.com/quoin-dev/quoin/apiserver/rest/tenant"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/signin"
	"github.com/quoin-dev/quoin/apiserver/tenants"
	"github.com/quoin-dev/quoin/apiserver/usertokens"
	"github.com/quoin-dev/quoin/docs"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/token"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/content/workspace"
	"github.com/quoin-dev/quoin/internal/github"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/telemetry"
	accounts "github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// Config is the configuration of the server.
type Config struct {
	// Namespace of Quoin, where the Secret of a self-signed certificate is kept.
	Namespace string
	// WatchNamespaces are the namespaces whose accounts are served.
	WatchNamespaces accounts.Namespaces
	// Service is the name of the server's Service in that namespace.
	Service string
	// Region of the cluster.
	Region deployments.Region
	// Version of quoin.
	Version string
	// HTTPS, Probes and Metrics are the endpoints to listen on.
	HTTPS, Probes, Metrics serving.Endpoint
	// OnListen is called with the addresses that are listened on; it may be nil.
	OnListen func(serving.Addresses)
	// OnOpen is called each time that the database is open, which may be after OnListen; it may be nil.
	OnOpen func()
	// CertFile and KeyFile hold the certificate. If both are empty, a self-signed one is created.
	CertFile, KeyFile string
	// CertificateNames are further DNS names and addresses of a self-signed certificate.
	CertificateNames []string
	// TrustedProxies are the proxies whose X-Forwarded-For is used.
	TrustedProxies []netip.Prefix
	// Aggregation enables the aggregated API server.
	Aggregation bool
	// RequestsPerSecond and Burst limit the requests of each caller.
	RequestsPerSecond float64
	Burst             int
	// DatabaseURL of the content store, as for store.Open; empty for none.
	DatabaseURL string
	// DbtImage is the image with dbt that quoin controller runs; without it, dbt syncs of Git repositories
	// are rejected.
	DbtImage string
	// GitHub is the GitHub App; none if its AppID is 0.
	GitHub github.Options
	// Gateway is how queries of reports reach the data APIs; none if it has no address.
	Gateway queries.Gateway
	// ChatRetention is how long chats with agents are kept after their last change; chat.DefaultRetention if zero.
	ChatRetention time.Duration
	// ChatTokens are the tokens that agents may use in a day.
	ChatTokens metering.Limits
	// AllowInsecureGit allows http:// URLs of models, for tests and isolated networks.
	AllowInsecureGit bool
	// ShutdownDelay is how long requests are accepted after /readyz fails on shutdown.
	ShutdownDelay time.Duration
	// OIDCClient fetches the keys of issuers. If nil, a client with the system's root certificates is used.
	OIDCClient *http.Client
	// Tracer creates spans of requests; nil for none.
	Tracer *tracing.Tracer
	// Log receives the access log.
	Log *slog.Logger
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=apikeys,verbs=create;delete;get
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=accountroles;oauthintegrations;oidctokenconfigs;userattributes,verbs=create;delete;get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=branches;deployments,verbs=create;delete;get;patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=apikeys/status,verbs=patch
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=deployments/finalizers,verbs=update
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,resourceNames=quoin-apiserver-tls,verbs=get;update
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Run serves until the context is done.
func Run(ctx context.Context, restConfig *clientrest.Config, c Config) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, authenticationv1.AddToScheme, authorizationv1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("build scheme: %w", err)
		}
	}
	k8s, err := cluster.New(restConfig, func(o *cluster.Options) {
		o.Scheme = scheme
		o.Cache = cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: cacheOptions()}
		// Secrets and ConfigMaps are not cached.
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
	})
	if err != nil {
		return fmt.Errorf("set up client: %w", err)
	}
	if err := addIndexes(ctx, k8s.GetFieldIndexer()); err != nil {
		return err
	}
	ctx, background := serving.NewBackground(ctx)
	background.Run("cache", k8s.Start)
	for _, kind := range v1alpha1.Kinds {
		if kind.Cached.APIServer == v1alpha1.NotCached {
			continue
		}
		if _, err := k8s.GetCache().GetInformer(ctx, kind.Object); err != nil {
			return background.End(fmt.Errorf("watch %s: %w", kind.Plural, err))
		}
	}
	if !k8s.GetCache().WaitForCacheSync(ctx) {
		return background.End(errors.New("caches did not sync"))
	}
	return background.End(serve(ctx, k8s, restConfig, c, background))
}

// cacheOptions returns what the cache keeps of objects, by kind.
func cacheOptions() map[client.Object]cache.ByObject {
	options := directory.CacheOptions()
	for _, kind := range v1alpha1.Kinds {
		if object, ok := kind.Object.(client.Object); ok && kind.Cached.APIServer == v1alpha1.WithTimes {
			options[object] = cache.ByObject{Transform: lastmodified.Transform()}
		}
	}
	return options
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v1alpha1.Account{}, accounts.IndexNamespace, accounts.NamespaceOf),
		indexer.IndexField(ctx, &v1alpha1.Deployment{}, auth.IndexGitHook, auth.GitHookNumbers),
		indexer.IndexField(ctx, &v1alpha1.Deployment{}, auth.IndexDbtHook, auth.DbtHookNumbers),
	)
}

func serve(ctx context.Context, k8s cluster.Cluster, restConfig *clientrest.Config, c Config, background *serving.Background) error {
	f, err := newHandler(ctx, k8s, c)
	if err != nil {
		return err
	}
	informer, err := informerOf(ctx, k8s.GetCache(), &v1alpha1.Deployment{})
	if err != nil {
		return err
	}
	// All writes on behalf of callers go through this client, which records them.
	writer := kube.NewClient(recording.NewClient(k8s.GetClient()), k8s.GetAPIReader(), edit.Manager)
	app, push, err := runGitHub(k8s, c, background)
	if err != nil {
		return err
	}
	groups := storedGroups{push: push}
	if f.log, err = groups.use(k8s, c, background, informer); err != nil {
		return err
	}
	clientset, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("set up client: %w", err)
	}
	groups.useAgents(k8s)
	runContentObjects(k8s, clientset, groups, c, background)
	groups.deployments.Logs, groups.deployments.GitHub = podLogs{clientset}, app
	known, err := newCatalog(ctx, k8s, writer)
	if err != nil {
		return err
	}
	f.dbt, f.git = groups.dbt, newGit(k8s, writer, known, groups.repositories)
	var roles *access.Roles
	if f.directory, roles, err = newPeople(ctx, k8s, writer, informer); err != nil {
		return err
	}
	var agents *agents.Service
	if f.api, agents, err = newREST(ctx, k8s, writer, known, f.directory, roles, groups, c); err != nil {
		return err
	}
	f.mcp = mcp.New(mcp.Options{Deployments: known.Deployments, Agents: agents, Chat: groups.chat, Version: c.Version})
	if f.authenticator, f.signIn, err = newAuthenticator(k8s, f.directory, roles, groups, f.log, c, background); err != nil {
		return err
	}
	options := serving.Options{
		HTTPS: c.HTTPS, Connections: newConnections(c.TrustedProxies, metrics.Registry),
		Probes: c.Probes, Metrics: c.Metrics, OnListen: c.OnListen, Log: c.Log, Ready: map[string]func(*http.Request) error{},
		ShutdownDelay: c.ShutdownDelay, Gatherer: metrics.Registry, AuthorizeMetrics: serving.AuthorizeByReview(restConfig, k8s.GetHTTPClient(), c.Log),
	}
	if c.Aggregation {
		review := &recording.Admission{Log: f.log, Reader: k8s.GetCache(), Live: k8s.GetAPIReader(), Namespace: c.Namespace}
		aggregated, err := aggregate(clientset, k8s, f, review)
		if err != nil {
			return err
		}
		background.Run("aggregation", aggregated.Start)
		options.ConfigureTLS, f.aggregated = aggregated.TLS, aggregated
	}
	if options.GetCertificate, err = runCertificates(ctx, k8s, c, groups.dbt, background); err != nil {
		return err
	}
	return serving.Run(ctx, options, wrap(f, c))
}

// wrap returns the handler with its limits, traces and metrics.
func wrap(f *handler, c Config) http.Handler {
	return serving.Wrap(serving.CanonicalPath(f), serving.WrapOptions{
		Log: c.Log, Tracer: c.Tracer, Registerer: metrics.Registry, TrustedProxies: c.TrustedProxies, Errors: errorsOn, BodyLimitOf: bodyLimit,
		BodyPace: bodyPace, MaxUnauthenticated: maxUnauthenticated, IsStream: chat.IsStream, MaxStreams: maxStreams,
	})
}

// newAuthenticator returns the authenticator of tenant hosts and the server at which people sign in. It records
// the last use of keys in the background.
func newAuthenticator(
	k8s cluster.Cluster, users auth.Users, roles auth.Roles, stored storedGroups, events recording.Log, c Config, background *serving.Background,
) (auth.Authenticator, *signin.Server, error) {
	informer, err := informerOf(context.Background(), k8s.GetCache(), &v1alpha1.ApiKey{})
	if err != nil {
		return nil, nil, err
	}
	keys, err := auth.Cached(k8s.GetClient(), informer)
	if err != nil {
		return nil, nil, err
	}
	used, active := auth.NewLastUsed(k8s.GetClient()), auth.NewActiveUsers(users, roles, k8s.GetAPIReader(), clock.RealClock{})
	background.Run("last use of keys", used.Start)
	chain := []auth.Authenticator{
		auth.NewGitHooks(model.GitHookPath, k8s.GetClient(), k8s.GetAPIReader(), clock.RealClock{}),
		auth.NewDbtHooks(model.DbtHookPath, k8s.GetClient(), k8s.GetAPIReader(), clock.RealClock{}),
	}
	people := auth.NewOIDC(active, clock.RealClock{}, c.OIDCClient)
	apiKeys := auth.NewKeys(keys, k8s.GetAPIReader(), active, clock.RealClock{}, used)
	programs := clientcredentials.New(apiKeys, newKeyring(k8s), clock.RealClock{})
	signIn := signin.Options{Store: stored.signIn, People: people, Secrets: k8s.GetAPIReader(), Programs: programs, Log: events, Clock: clock.RealClock{}}
	if c.DatabaseURL != "" {
		signIn.Integrations = stored.userTokens
		chain = append(chain,
			auth.NewDeployTokens(stored.model.DeployTokens, active, model.ExchangePath, k8s.GetClient(), k8s.GetAPIReader(), clock.RealClock{}),
			signin.NewAuthenticator(signIn),
		)
	}
	return auth.Basic(auth.Chain(append(chain,
		programs,
		apiKeys,
		people,
		auth.NewServiceAccounts(k8s.GetClient(), clock.RealClock{}),
	)...), githttp.Handles), signin.New(signIn), nil
}

// runCertificates renews the certificate of the listener in the background, and publishes its CA in
// the APIService, in the Secrets of repositories and in those of dbt syncs. It returns the function that selects the
// certificate of a connection.
func runCertificates(ctx context.Context, k8s cluster.Cluster, c Config, dbt *dbtobjects.Objects, background *serving.Background) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	certificates, err := certificatesFor(ctx, k8s, c)
	if err != nil {
		return nil, err
	}
	background.Run("certificates", certificates.Run)
	if c.CertFile == "" {
		background.Run("hosts", func(ctx context.Context) error {
			return certificates.Follow(ctx, k8s.GetCache(), hostsOf, &v1alpha1.Account{})
		})
	}
	if c.Aggregation && certificates.CA() != nil {
		bundle, err := newCABundle(k8s.GetConfig(), c, certificates.CA)
		if err != nil {
			return nil, err
		}
		background.Run("CA bundle", bundle.run)
	}
	if c.DatabaseURL != "" {
		secrets := newRepositorySecrets(k8s.GetCache(), k8s.GetClient(), certificates.Trusted, c.Log)
		background.Run("certificate of repositories", secrets.run)
		if err := runDbtObjects(ctx, k8s, dbt, certificates.Trusted, background); err != nil {
			return nil, err
		}
	}
	if err := telemetry.Register(metrics.Registry, certificates); err != nil {
		return nil, err
	}
	return certificates.GetCertificate, nil
}

// storedGroups has the options of the groups that use the content store.
type storedGroups struct {
	deployments deployments.Options
	tenant      tenant.Options
	content     content.Options
	model       model.Options
	attributes  attributes.Options
	agents      restagents.Options
	// repositories are the Git repositories that Quoin keeps; nil without a database.
	repositories *repository.Repositories
	// signIn has sessions and tokens of people; nil without a database.
	signIn *oauth.Store
	// userTokens are the OAuth tokens of people; nil without a database.
	userTokens *usertokens.Service
	// push returns credentials for pushes to remotes; nil for those of their Secrets.
	push gitmirror.PushCredentials
	// dbt connects dbt syncs with objects; nil without a database.
	dbt *dbtobjects.Objects
	// chat has the chats with agents; nil without a database.
	chat *chat.Service
	// evaluations has the evaluations of agents; nil without a database.
	evaluations *evaluations.Service
}

// use opens the content store and sets the options that need it. It returns the audit log. Without a database it does nothing.
func (g *storedGroups) use(k8s cluster.Cluster, c Config, background *serving.Background, informer toolscache.SharedIndexInformer) (recording.Log, error) {
	if c.DatabaseURL == "" {
		return nil, nil
	}
	database, events := newContentStore(k8s, c, informer, background)
	g.tenant.AuditLog, g.content.Views = events, &workspace.Views{}
	database.WhileOpen(func(ctx context.Context, s *store.Store) error { return g.content.Views.Run(ctx, s, c.Log) })
	g.deployments.Tokens = &token.Tokens{DB: database}
	g.repositories = &repository.Repositories{DB: database, Record: model.Record}
	g.model.Mirrors = gitmirror.New(gitmirror.Options{Repositories: g.repositories, Live: k8s.GetAPIReader(), AllowInsecure: c.AllowInsecureGit, PushCredentials: g.push})
	g.model.DbtSyncs, g.dbt = newDbtSyncs(k8s, database, g.model.Mirrors, c)
	g.model.DbtGit = c.DbtImage != ""
	g.deployments.Mirrors = g.model.Mirrors
	g.deployments.Repositories, g.model.Repositories, g.model.DevMode = g.repositories, g.repositories, &devmode.DevMode{DB: database}
	g.model.Uploads = &upload.Uploads{DB: database, Record: model.Record}
	g.model.DeployTokens = &deploytoken.Tokens{DB: database, Record: model.Record}
	g.signIn = &oauth.Store{DB: database, Record: signin.RecordTx}
	g.agents.Usage = &usage.Usage{DB: database}
	if err := errors.Join(g.useUserTokens(k8s, database, c), g.observeLeavers(k8s, database, c), g.useContent(k8s, database, c), g.useChat(database, c), g.useEvaluations(k8s, database, c)); err != nil {
		return nil, err
	}
	background.Run("content store", database.Run) // when all jobs are registered
	return events, registerStoreMetrics(metrics.Registry, database)
}

// newREST composes the REST API of its groups. It returns the agents, too; nil without a database.
func newREST(ctx context.Context, k8s cluster.Cluster, writer *kube.Client, known *catalog.Catalog, people *directory.Directory, roles *access.Roles, stored storedGroups, c Config) (*rest.API, *agents.Service, error) {
	// The kinds that groups wait for after a write. The catalog observes Deployments, and newRoles AccountRoles.
	for _, kind := range []client.Object{&v1alpha1.Account{}, &v1alpha1.ApiKey{}, &v1alpha1.Branch{}, &v1alpha1.Environment{}, &v1alpha1.OidcTokenConfig{}, &v1alpha1.OAuthIntegration{}, &v1alpha1.UserAttribute{}} {
		informer, err := informerOf(ctx, k8s.GetCache(), kind)
		if err != nil {
			return nil, nil, err
		}
		if _, err := informer.AddEventHandler(writer.Tracker().Handler(writer.KindOf(kind))); err != nil {
			return nil, nil, fmt.Errorf("observe %T: %w", kind, err)
		}
	}
	stored.tenant.Kube, stored.model.Kube, stored.model.Catalog, stored.model.Tracer = writer, writer, known, c.Tracer
	stored.deployments.Kube, stored.deployments.Catalog, stored.deployments.Region = writer, known, c.Region
	stored.content.Contact, stored.content.Groups = people.Contact, people.GroupsOf
	stored.content.People, stored.content.Deployments = people, known.Deployments
	stored.deployments.Person, stored.attributes = people.Person, attributes.Options{Kube: writer, Directory: people}
	stored.model.SetVariables, stored.model.IssueToken = deployments.SetVariables(stored.deployments), deployments.IssueToken(stored.deployments)
	tokens := &datatokens.Issuer{Kube: writer, Person: stored.deployments.Person, Credentials: stored.deployments.Credentials, Now: time.Now}
	stored.content.Queries = queries.New(queries.Options{HTTP: c.Gateway.Client(c.Tracer), Clock: clock.RealClock{}, Tokens: tokens})
	var agents *agents.Service
	if stored.chat != nil {
		agents = newAgents(k8s, people, roles, tokens, stored.agents.Files, c)
		stored.chat.Agents, stored.evaluations.Agents = agents, agents
	}
	api, err := composeREST(known, identity.Options{
		Kube: writer, Catalog: known, Users: people,
		Directory: func(account *v1alpha1.Account) identity.Directory { return people.Of(account) },
	}, stored, c.Version)
	return api, agents, err
}

// composeREST returns the REST API of the groups. The routes are the same whatever the options are.
func composeREST(known rest.DeploymentFinder, identities identity.Options, stored storedGroups, version string) (*rest.API, error) {
	return rest.New(rest.Options{Deployments: known, Version: version, Sections: []rest.Section{scimSection()}}, slices.Concat(
		deployments.New(stored.deployments),
		model.New(stored.model),
		identity.New(identities),
		attributes.New(stored.attributes),
		tenant.New(stored.tenant),
		content.New(stored.content),
		stored.chat.Families(),
		restagents.New(stored.agents),
		stored.evaluations.Families(),
	)...)
}

// newSCIM returns the SCIM server. It annotates requests with their route, for metrics and the access
// log.
func newSCIM() *scim.Server {
	return scim.NewServer(time.Now, func(ctx context.Context, route string) {
		serving.Annotate(ctx, serving.AnnotationRoute, route)
	})
}

// newHandler returns a handler that finds the account of a request and serves the guides.
func newHandler(ctx context.Context, k8s cluster.Cluster, c Config) (*handler, error) {
	informer, err := informerOf(ctx, k8s.GetCache(), &v1alpha1.Account{})
	if err != nil {
		return nil, err
	}
	known, err := tenants.New(informer, c.WatchNamespaces)
	if err != nil {
		return nil, err
	}
	f := &handler{tenants: known, limits: newLimits(c.RequestsPerSecond, c.Burst), scim: newSCIM(), issuer: oidcissuer.New()}
	f.guides, err = guide.New(docs.Guides)
	return f, err
}

// newCatalog returns the catalog of the deployments of all accounts.
func newCatalog(ctx context.Context, k8s cluster.Cluster, writer *kube.Client) (*catalog.Catalog, error) {
	var o catalog.Informers
	if err := informersOf(ctx, k8s.GetCache(), map[client.Object]*toolscache.SharedIndexInformer{
		&v1alpha1.Deployment{}: &o.Deployments, &v1alpha1.Environment{}: &o.Environments, &v1alpha1.Branch{}: &o.Branches,
	}); err != nil {
		return nil, err
	}
	return catalog.New(writer, o)
}

// newDirectory returns the directory of the users and groups of all accounts.
func newDirectory(ctx context.Context, k8s cluster.Cluster, writer *kube.Client) (*directory.Directory, error) {
	o := directory.Options{Kube: writer, Clock: clock.RealClock{}}
	if err := informersOf(ctx, k8s.GetCache(), map[client.Object]*toolscache.SharedIndexInformer{
		&v1alpha1.ScimUser{}: &o.Users, &v1alpha1.ScimGroup{}: &o.Groups, &v1alpha1.ScimMemberChunk{}: &o.Chunks,
		&v1alpha1.UserAttribute{}: &o.Attributes,
	}); err != nil {
		return nil, err
	}
	return directory.New(ctx, o)
}

// newPeople returns the users of all accounts and their roles.
func newPeople(ctx context.Context, k8s cluster.Cluster, writer *kube.Client, deployments toolscache.SharedIndexInformer) (*directory.Directory, *access.Roles, error) {
	users, err := newDirectory(ctx, k8s, writer)
	if err != nil {
		return nil, nil, err
	}
	roles, err := newRoles(ctx, k8s, writer, deployments)
	return users, roles, err
}

// newRoles returns the roles of all accounts. A write of a role is acknowledged when it is in effect in this process.
func newRoles(ctx context.Context, k8s cluster.Cluster, writer *kube.Client, deployments toolscache.SharedIndexInformer) (*access.Roles, error) {
	informer, err := informerOf(ctx, k8s.GetCache(), &v1alpha1.AccountRole{})
	if err != nil {
		return nil, err
	}
	return access.NewRoles(informer, deployments, writer.Tracker().Observer(writer.KindOf(&v1alpha1.AccountRole{})))
}

// informersOf sets the shared informers of kinds.
func informersOf(ctx context.Context, from cache.Cache, kinds map[client.Object]*toolscache.SharedIndexInformer) (err error) {
	for kind, informer := range kinds {
		if *informer, err = informerOf(ctx, from, kind); err != nil {
			return err
		}
	}
	return nil
}

// informerOf returns the shared informer of a kind.
func informerOf(ctx context.Context, from cache.Cache, kind client.Object) (toolscache.SharedIndexInformer, error) {
	informer, err := from.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("the cache of %T has no store", kind)
	}
	return shared, nil
}

// aggregate returns the aggregated API server.
func aggregate(clientset kubernetes.Interface, k8s cluster.Cluster, f *handler, review *recording.Admission) (*aggregation.Server, error) {
	return aggregation.New(aggregation.Options{
		Client:  clientset,
		Account: f.tenants.ByName,
		Accounts: func(ctx context.Context) ([]v1alpha1.Account, error) {
			list := &v1alpha1.AccountList{}
			err := k8s.GetCache().List(ctx, list)
			return list.Items, err
		},
		Next:   f.serve,
		Review: review.Review,
	})
}

// certificatesFor returns the certificates from the configured files, or self-signed ones for the
// hosts of all accounts.
func certificatesFor(ctx context.Context, k8s cluster.Cluster, c Config) (*certificates.Certificates, error) {
	if c.CertFile != "" {
		return certificates.FromFiles(ctx, c.CertFile, c.KeyFile, c.Log)
	}
	direct, err := client.New(k8s.GetConfig(), client.Options{Scheme: k8s.GetScheme()})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return certificates.FromSecret(ctx, certificates.SecretOptions{
		Client: direct, Namespace: c.Namespace, Log: c.Log,
		Names: func() []string {
			names := append(certificates.OwnNames(c.Service, c.Namespace), c.CertificateNames...)
			hosts, err := hostsOfAll(ctx, k8s.GetCache())
			if err != nil {
				return names
			}
			// Clients that connect to an address send no server name to choose a certificate by.
			return append(names, slices.DeleteFunc(hosts, func(host string) bool { return net.ParseIP(host) == nil })...)
		},
		Hosts: func() ([]string, error) { return hostsOfAll(ctx, k8s.GetCache()) },
	})
}

// hostsOfAll returns the hosts of all accounts.
func hostsOfAll(ctx context.Context, c client.Reader) ([]string, error) {
	list := &v1alpha1.AccountList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var hosts []string
	for i := range list.Items {
		hosts = append(hosts, accounts.Hosts(&list.Items[i])...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}

// hostsOf returns the names that an object adds to the certificate.
func hostsOf(o any) []string {
	account, ok := o.(*v1alpha1.Account)
	if !ok {
		return nil
	}
	return accounts.Hosts(account)
}
