// Package controllers runs all controllers in one manager, for `quoin controller`.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/account"
	"github.com/quoin-dev/quoin/controllers/accountrole"
	"github.com/quoin-dev/quoin/controllers/agent"
	"github.com/quoin-dev/quoin/controllers/apikey"
	"github.com/quoin-dev/quoin/controllers/branch"
	"github.com/quoin-dev/quoin/controllers/dbtsync"
	"github.com/quoin-dev/quoin/controllers/deployment"
	"github.com/quoin-dev/quoin/controllers/environment"
	"github.com/quoin-dev/quoin/controllers/metrics"
	"github.com/quoin-dev/quoin/controllers/modelendpoint"
	"github.com/quoin-dev/quoin/controllers/oauthintegration"
	"github.com/quoin-dev/quoin/controllers/oidctokenconfig"
	"github.com/quoin-dev/quoin/controllers/releasechannel"
	"github.com/quoin-dev/quoin/controllers/scimgroup"
	"github.com/quoin-dev/quoin/controllers/scimuser"
	"github.com/quoin-dev/quoin/controllers/userattribute"
	"github.com/quoin-dev/quoin/controllers/warmup"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/fairqueue"
	"github.com/quoin-dev/quoin/internal/git"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/lastmodified"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/telemetry"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/tracing"
)

const (
	// minBackoff and maxBackoff bound the backoff after failures of one object.
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	// reconcileTimeout bounds one reconciliation.
	reconcileTimeout = 2 * time.Minute
)

// Config is the configuration of the controllers.
type Config struct {
	// Namespace is the namespace of the controller, with its leases and pull secrets.
	Namespace string
	// WatchNamespaces are the namespaces of accounts in which the controllers work.
	WatchNamespaces tenant.Namespaces
	// Image is the image of quoin, for the init container that fetches the model.
	Image string
	// Concurrency is the number of workers of each controller.
	Concurrency int
	// MaxRollouts is the maximum number of concurrent rollouts; 0 for no limit.
	MaxRollouts int
	// Region is the name of the region of the cluster, for subjects of OpenID Connect tokens.
	Region string
	// SQLPort is the port of the SQL interfaces that clients connect to: that of the gateway's Service.
	SQLPort int32
	// AllowInsecureGit allows http:// URLs of models, for tests and isolated networks.
	AllowInsecureGit bool
	// RepositoryURL is the URL of quoin apiserver for the repositories that Quoin keeps, such as
	// https://quoin-apiserver.quoin-system.svc; empty if there are none.
	RepositoryURL string
	// DbtImage is the image with dbt, for dbt syncs of Git repositories; empty if there is none.
	DbtImage string
	// WarmUp makes API pods compile their data model before they are ready.
	WarmUp bool
	// Tracer creates spans of reconciliations; nil for none.
	Tracer *tracing.Tracer
	// Registerer of the metrics; that of controller-runtime if nil.
	Registerer prometheus.Registerer
}

// Scheme returns a scheme with the kinds that the controllers read and write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		v1alpha1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	return scheme, nil
}

// CacheOptions restrict the cache of Kubernetes' own kinds to objects that the controllers created,
// and keep of managedFields what v1alpha1.Kinds declares. Kubernetes' own kinds are read in the given namespaces only;
// Quoin's in all, because hosts are unique in the cluster.
func CacheOptions(namespaces ...string) cache.Options {
	only := tenant.Namespaces(namespaces).Cache()
	managed := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{engine.LabelManagedBy: engine.ManagedBy}), Namespaces: only}
	pods := warmup.CacheOptions()
	pods.Namespaces = only
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&appsv1.Deployment{}:            managed,
			&appsv1.StatefulSet{}:           managed,
			&corev1.Service{}:               managed,
			&corev1.ServiceAccount{}:        managed,
			&networkingv1.NetworkPolicy{}:   managed,
			&policyv1.PodDisruptionBudget{}: managed,
			&corev1.Pod{}:                   pods,
		},
	}
	if only != nil {
		options.ByObject[&corev1.ConfigMap{}] = cache.ByObject{Namespaces: only}
	}
	for _, kind := range v1alpha1.Kinds {
		if kind.Cached.Controller == v1alpha1.WithTimes {
			options.ByObject[kind.Object] = cache.ByObject{Transform: lastmodified.Transform()}
		}
	}
	return options
}

// Run runs the controllers until the context ends.
func Run(ctx context.Context, restConfig *rest.Config, options manager.Options, config Config) error {
	scheme, err := Scheme()
	if err != nil {
		return err
	}
	options.Scheme, options.Cache = scheme, CacheOptions(config.WatchNamespaces...)
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("set up manager: %w", err)
	}
	if err := Setup(ctx, mgr, config); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("caches", cachesSynced(mgr.GetCache())); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// Setup adds the controllers and the sweeps of orphaned objects to a manager.
func Setup(ctx context.Context, mgr manager.Manager, config Config) error {
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	k := kube.NewClient(mgr.GetClient(), mgr.GetAPIReader(), "quoin-controller")
	clk, fleet := clock.RealClock{}, deployment.NewFleet(mgr.GetClient(), config.MaxRollouts)
	for name, setUp := range setups(mgr, k, clk, fleet, config) {
		if err := setUp(); err != nil {
			return fmt.Errorf("set up controller %s: %w", name, err)
		}
	}
	return errors.Join(
		registerMetrics(ctx, mgr, fleet, config),
		mgr.Add(&certificates.EmptySecrets{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: config.Namespace}),
		mgr.Add(claims.NewSweep(k, clk, claims.DeploymentName, claims.UserName, claims.GroupName, claims.Hosts{Namespace: config.Namespace})),
		mgr.Add(scimgroup.NewCollector(k, clk)),
	)
}

// registerMetrics registers the metrics of the controllers, which only the leader exports.
func registerMetrics(ctx context.Context, mgr manager.Manager, fleet *deployment.Fleet, config Config) error {
	objects, err := metrics.NewObjects(ctx, mgr.GetCache())
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	registerer := config.Registerer
	if registerer == nil {
		registerer = ctrlmetrics.Registry
	}
	collectors := slices.Concat([]prometheus.Collector{objects}, deployment.Collectors(fleet), releasechannel.Collectors())
	return telemetry.Register(registerer, telemetry.LeaderOnly(mgr.Elected(), collectors...)...)
}

// setups returns the functions that add the controllers to a manager.
func setups(mgr manager.Manager, k *kube.Client, clk clock.Clock, fleet *deployment.Fleet, config Config) map[string]func() error {
	allocator := ids.New(k)
	gitClient := git.New(git.Options{AllowInsecure: config.AllowInsecureGit, MaxConnectionBytes: git.MaxListBytes})
	deployments := deployment.Options{
		IDs:     allocator,
		Fleet:   fleet,
		Remotes: deployment.NewRemotes(mgr.GetAPIReader(), readRefs(gitClient), clk),
		Hosts:   claims.Hosts{Namespace: config.Namespace},
	}
	deployments.Remotes.RepositoryURL = config.RepositoryURL
	type setUp func(ctrl.Manager, reconcile.Reconciler, controller.Options) error
	setups := map[string]func() error{}
	add := func(name, kind string, set setUp, r reconcile.Reconciler) {
		setups[name] = func() error {
			return set(mgr, traced(config.Tracer, name, kind, within(config.WatchNamespaces, r)), controllerOptions(config))
		}
	}
	deploymentSetUp := func(m ctrl.Manager, r reconcile.Reconciler, o controller.Options) error {
		return deployment.SetupWithManager(m, r, deployments, o)
	}
	environments := environment.Options{
		Engine: engine.Options{
			QuoinImage: config.Image, GatewayNamespace: config.Namespace, WarmUp: config.WarmUp, AllowInsecureGit: config.AllowInsecureGit,
			RepositoryURL: config.RepositoryURL,
		},
		SQLPort: config.SQLPort,
		Indexed: true,
	}
	channels := releasechannel.Options{Namespace: config.Namespace}
	recorder := mgr.GetEventRecorder
	add("account", "Account", account.SetupWithManager, account.New(k, recorder(account.FieldManager), clk, account.Options{
		Hosts: deployments.Hosts, WatchNamespaces: config.WatchNamespaces,
	}))
	add("releasechannel", "ReleaseChannel", releasechannel.SetupWithManager, releasechannel.New(k, recorder(releasechannel.FieldManager), clk, channels))
	add("releasechannel-rollouts", "ReleaseChannel", releasechannel.SetupRollouts, releasechannel.NewRollouts(k, recorder(releasechannel.FieldManager)))
	add("deployment", "Deployment", deploymentSetUp, deployment.New(k, recorder(deployment.FieldManager), clk, deployments))
	add("environment", "Environment", environment.SetupWithManager, environment.New(k, recorder(environment.FieldManager), clk, environments))
	add("apikey", "ApiKey", apikey.SetupWithManager, apikey.New(k, recorder(apikey.FieldManager), clk))
	add("branch", "Branch", branch.SetupWithManager, branch.New(k, recorder(branch.FieldManager), clk, allocator))
	add("dbtsync", "DbtSync", dbtsync.SetupWithManager, dbtsync.New(k, recorder(dbtsync.FieldManager), clk, dbtsync.Options{
		QuoinImage: config.Image, DbtImage: config.DbtImage, URL: config.RepositoryURL, AllowInsecureGit: config.AllowInsecureGit,
	}))
	add("warmup", "Pod", warmup.SetupWithManager, warmup.New(k, clk, warmup.Options{Off: !config.WarmUp}))
	add("scimuser", "ScimUser", scimuser.SetupWithManager, scimuser.New(k, recorder(scimuser.FieldManager), clk))
	add("scimgroup", "ScimGroup", scimgroup.SetupWithManager, scimgroup.New(k, recorder(scimgroup.FieldManager), clk))
	add("accountrole", "AccountRole", accountrole.SetupWithManager, accountrole.New(k, recorder(accountrole.FieldManager), clk, allocator))
	add("userattribute", "UserAttribute", userattribute.SetupWithManager, userattribute.New(k, recorder(userattribute.FieldManager), clk, allocator))
	add("oidctokenconfig", "OidcTokenConfig", oidctokenconfig.SetupWithManager, oidctokenconfig.New(k, recorder(oidctokenconfig.FieldManager), clk, oidctokenconfig.Options{
		Namespace: config.Namespace, Region: config.Region, IDs: allocator,
	}))
	add("oauthintegration", "OAuthIntegration", oauthintegration.SetupWithManager, oauthintegration.New(k, recorder(oauthintegration.FieldManager), clk, allocator))
	add("modelendpoint", "ModelEndpoint", modelendpoint.SetupWithManager, modelendpoint.New(k, recorder(modelendpoint.FieldManager), clk, modelendpoint.Options{Namespace: config.Namespace}))
	add("agent", "Agent", agent.SetupWithManager, agent.New(k, recorder(agent.FieldManager), clk, allocator))
	return setups
}

// within returns a reconciler that ignores objects in other namespaces: it may read them, but not write them.
func within(namespaces tenant.Namespaces, next reconcile.Reconciler) reconcile.Reconciler {
	if len(namespaces) == 0 {
		return next
	}
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		if request.Namespace != "" && !namespaces.Include(request.Namespace) {
			return reconcile.Result{}, nil
		}
		return next.Reconcile(ctx, request)
	})
}

// controllerOptions returns the options of one controller. Each has its own rate limiter,
// because objects of different kinds may have the same name. Its queue takes turns between accounts.
func controllerOptions(config Config) controller.Options {
	o := controller.Options{
		ReconciliationTimeout: reconcileTimeout,
		RateLimiter:           workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
	}
	fairqueue.Workers(&o, config.Concurrency)
	return o
}

func readRefs(c *git.Client) deployment.ReadRefs {
	return func(ctx context.Context, url string, secret map[string][]byte) ([]git.Ref, string, error) {
		var creds git.Credentials
		if secret != nil {
			var err error
			if creds, err = git.ParseCredentials(url, secret); err != nil {
				return nil, "", err
			}
		}
		return c.Refs(ctx, url, creds)
	}
}

// addIndexes adds the selectable fields of the API server to the cache, and fields that only map
// functions use.
func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		index(ctx, indexer, tenant.IndexNamespace, func(a *v1alpha1.Account) string { return a.Spec.Namespace }),
		index(ctx, indexer, claims.IndexHolder, func(c *v1alpha1.Claim) string { return c.Spec.Holder.Name }),
		index(ctx, indexer, releasechannel.IndexChannel, func(d *v1alpha1.Deployment) string { return d.Spec.ReleaseChannel }),
		index(ctx, indexer, environment.IndexDeployment, func(e *v1alpha1.Environment) string { return e.Spec.DeploymentRef.Name }),
		index(ctx, indexer, branch.IndexDeployment, func(b *v1alpha1.Branch) string { return b.Spec.DeploymentRef.Name }),
		index(ctx, indexer, agent.IndexDeployment, func(a *v1alpha1.Agent) string { return a.Spec.DeploymentRef.Name }),
		index(ctx, indexer, agent.IndexEndpoint, func(a *v1alpha1.Agent) string { return a.Spec.ModelEndpointRef.Name }),
		deployment.AddIndexes(ctx, indexer),
		environment.AddIndexes(ctx, indexer),
		scimuser.AddIndexes(ctx, indexer),
		scimgroup.AddIndexes(ctx, indexer),
	)
}

func index[T any, P interface {
	*T
	client.Object
}](ctx context.Context, indexer client.FieldIndexer, field string, value func(P) string) error {
	err := indexer.IndexField(ctx, P(new(T)), field, func(o client.Object) []string {
		if obj, ok := o.(P); ok {
			return []string{value(obj)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("index %T by %s: %w", P(nil), field, err)
	}
	return nil
}
