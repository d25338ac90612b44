package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientrest "k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/gateway/postgres"
	"github.com/quoin-dev/quoin/gateway/route"
	"github.com/quoin-dev/quoin/gateway/token"
	"github.com/quoin-dev/quoin/gateway/upstream"
	"github.com/quoin-dev/quoin/gateway/usage"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/serving/pending"
	"github.com/quoin-dev/quoin/internal/telemetry"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/internal/tracing"
)

// manager is the field manager of the gateway.
const manager = "quoin-gateway"

// noTimeout disables a timeout of serving.Options; 0 means the default.
const noTimeout = -1

// Config is the configuration of the gateway.
type Config struct {
	// Namespace is quoin's own: the generated certificate is stored there.
	Namespace string
	// WatchNamespaces are the namespaces whose accounts are served.
	WatchNamespaces tenant.Namespaces
	// Service is the name of the Service in front of the replicas, in that namespace.
	Service string
	// HTTPS, SQL, Probes and Metrics are the endpoints to listen on.
	HTTPS, SQL, Probes, Metrics serving.Endpoint
	// OnListen is called with the bound addresses; may be nil.
	OnListen func(Addresses)
	// CertFile and KeyFile are the files of the certificate; if both are empty, one is generated.
	CertFile, KeyFile string
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// RequestsPerSecond, Burst and MaxInFlight limit the requests to each deployment.
	RequestsPerSecond  float64
	Burst, MaxInFlight int
	// MaxRequests limits the concurrent requests in total, of which an account has at most half.
	MaxRequests int
	// MaxConnections limits the HTTP connections of clients; 20,000 if 0.
	MaxConnections int
	// MaxUnauthenticated limits the HTTP connections, the SQL connections and the requests that have
	// not authenticated, for each of these; 1000 if 0. MaxUnauthenticatedPerAddress limits those of
	// a client address; 100 if 0.
	MaxUnauthenticated, MaxUnauthenticatedPerAddress int
	// WaitTimeout is how long a request waits for a pod, and MaxWaiting how many requests may
	// wait for each environment.
	WaitTimeout time.Duration
	MaxWaiting  int
	// MaxSQLConnections limits the SQL connections to each deployment.
	MaxSQLConnections int
	// ShutdownDelay is how long requests are accepted after /readyz returns 503; DrainTimeout is
	// how long requests may run after that.
	ShutdownDelay, DrainTimeout time.Duration
	// Log receives the access log.
	Log *slog.Logger
	// Tracer creates spans of requests; nil for none.
	Tracer *tracing.Tracer
	// Registerer of the metrics; the default registry if nil.
	Registerer prometheus.Registerer
}

// Addresses are the bound addresses; nil for a disabled endpoint.
type Addresses struct {
	serving.Addresses
	SQL net.Addr
}

// The permission to read the Secrets of environments is granted by an administrator in each
// account's namespace: config/rbac/account_role.yaml.
//
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=environments,verbs=patch
// +kubebuilder:rbac:groups=discovery.k8s.io,resources=endpointslices,verbs=list;watch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,resourceNames=quoin-gateway-tls,verbs=get;update

// Run serves until the context ends.
func Run(ctx context.Context, restConfig *clientrest.Config, c Config) error {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = metrics.Registry
	}
	c.MaxConnections = cmp.Or(c.MaxConnections, 20_000)
	c.MaxUnauthenticated = cmp.Or(c.MaxUnauthenticated, 1000)
	c.MaxUnauthenticatedPerAddress = cmp.Or(c.MaxUnauthenticatedPerAddress, 100)
	k8s, err := newCluster(restConfig, c.WatchNamespaces)
	if err != nil {
		return err
	}
	ctx, background := serving.NewBackground(ctx)
	background.Run("cache", k8s.Start)
	h := newHandler(k8s, c)
	w := &watch{cache: k8s.GetCache(), namespaces: c.WatchNamespaces, handler: h, pools: h.pools, change: make(chan struct{}, 1)}
	starting, started := context.WithCancel(background.Context())
	release := context.AfterFunc(ctx, started)
	err = w.start(starting)
	release()
	if err != nil {
		return background.End(err)
	}
	background.Run("routes", w.run)
	background.Run("usage", h.usage.Run)
	return background.End(serve(ctx, k8s, h, c, background))
}

func newCluster(restConfig *clientrest.Config, namespaces tenant.Namespaces) (cluster.Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build scheme: %w", err)
		}
	}
	k8s, err := cluster.New(restConfig, func(o *cluster.Options) {
		o.Scheme = scheme
		o.Cache = cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			// EndpointSlices have the labels of their Service; most in a cluster are not Quoin's.
			ByObject: map[client.Object]cache.ByObject{
				&discoveryv1.EndpointSlice{}: {
					Label: labels.SelectorFromSet(labels.Set{engine.LabelManagedBy: engine.ManagedBy}), Namespaces: namespaces.Cache(),
				},
			},
			// A read of a kind that v1alpha1.Kinds does not declare fails, rather than starting a
			// watch without permission.
			ReaderFailOnMissingInformer: true,
		}
		// Secrets are read by name and never cached.
		o.Client.Cache = &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}
	})
	if err != nil {
		return nil, fmt.Errorf("set up client: %w", err)
	}
	return k8s, nil
}

// pendingLimits are the limits of each kind of unauthenticated peers.
func (c Config) pendingLimits() pending.Limits {
	return pending.Limits{
		Total: c.MaxUnauthenticated, PerAddress: c.MaxUnauthenticatedPerAddress, PerDeployment: max(1, c.MaxUnauthenticated/2),
	}
}

func newHandler(k8s cluster.Cluster, c Config) *handler {
	m := upstream.NewMetrics(c.Registerer)
	p := pending.NewMetrics("gateway", c.Registerer)
	handshakes := serving.NewHandshakes("gateway", c.Registerer)
	h := &handler{
		objects:   k8s.GetCache(),
		keys:      &token.Store{Reader: k8s.GetAPIReader(), Now: time.Now, Log: c.Log},
		usage:     &usage.Recorder{Cache: k8s.GetCache(), Writer: client.WithFieldOwner(k8s.GetClient(), manager), Log: c.Log, Now: time.Now},
		pools:     upstream.NewPools(upstream.Limits{Wait: c.WaitTimeout, MaxWaiting: c.MaxWaiting}, m),
		limits:    newLimits(c.RequestsPerSecond, c.Burst, c.MaxInFlight, c.MaxRequests),
		metrics:   newRequestMetrics(c.Registerer),
		listings:  newListings(),
		transport: upstream.NewTransport(m),

		unauthenticated: pending.NewSet(c.pendingLimits(), p, pending.KindRequest),
		handshakes:      handshakes,
		sqlPending:      pending.NewSet(c.pendingLimits(), p, pending.KindSQLConnection),
		connections:     serving.NewConnections("gateway", c.MaxConnections, pending.NewSet(c.pendingLimits(), p, pending.KindConnection), handshakes, c.TrustedProxies, c.Registerer),
	}
	h.transport = c.Tracer.Transport("pod", h.transport)
	h.proxy = h.newProxy(h.transport, c.TrustedProxies, c.Log)
	h.table.Store(route.NewTable(route.Objects{}))
	return h
}

// serve listens until the context ends, then drains.
func serve(ctx context.Context, k8s cluster.Cluster, h *handler, c Config, background *serving.Background) error {
	certificates, err := certificatesFor(ctx, k8s, c)
	if err != nil {
		return err
	}
	if err := telemetry.Register(c.Registerer, certificates); err != nil {
		return err
	}
	background.Run("certificates", certificates.Run)
	if c.CertFile == "" {
		background.Run("hosts", func(ctx context.Context) error { return followHosts(ctx, k8s, certificates) })
	}
	https, err := c.HTTPS.Listen(ctx, "https")
	if err != nil {
		return err
	}
	sql, err := c.SQL.Listen(ctx, "sql")
	if err != nil {
		if https != nil {
			_ = https.Close()
		}
		return err
	}
	sqlEnded := make(chan struct{})
	if sql == nil {
		close(sqlEnded)
	} else {
		go serveSQL(ctx, sql, certificates, h, c, sqlEnded)
	}
	options := serving.Options{
		HTTPS: serving.Endpoint{Listener: https}, Connections: h.connections, Probes: c.Probes, Metrics: c.Metrics, Log: c.Log, Gatherer: metrics.Registry,
		AuthorizeMetrics: serving.AuthorizeByReview(k8s.GetConfig(), k8s.GetHTTPClient(), c.Log),
		GetCertificate:   certificates.GetCertificate,
		// Bodies and responses may be streams; the handler closes those that stall.
		ReadTimeout: noTimeout, WriteTimeout: noTimeout,
		ShutdownDelay: c.ShutdownDelay, DrainTimeout: c.DrainTimeout,
		OnListen: func(a serving.Addresses) {
			if c.OnListen == nil {
				return
			}
			bound := Addresses{Addresses: a}
			if sql != nil {
				bound.SQL = sql.Addr()
			}
			c.OnListen(bound)
		},
	}
	served := serving.Run(ctx, options, serving.Wrap(h, serving.WrapOptions{
		Log: c.Log, Tracer: c.Tracer, TrustedProxies: c.TrustedProxies, BodyLimit: dataapi.MaxRequestBytes, BodyPace: bodyPace, MaxInFlight: c.MaxRequests,
	}))
	if served != nil && sql != nil {
		_ = sql.Close()
	}
	<-sqlEnded
	return served
}

// serveSQL serves the SQL interface until the context ends and, like HTTPS, for ShutdownDelay
// after that.
func serveSQL(ctx context.Context, l net.Listener, certificates *certificates.Certificates, h *handler, c Config, ended chan<- struct{}) {
	defer close(ended)
	accepting, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() { time.AfterFunc(c.ShutdownDelay, stop) })
	postgres.New(postgres.Options{
		GetCertificate:   certificates.GetCertificate,
		Environment:      func(host string) (route.Environment, error) { return h.table.Load().SQL(host) },
		Pools:            h.pools,
		Pending:          h.sqlPending,
		Handshakes:       h.handshakes,
		PeerNetwork:      func(peer net.Addr) netip.Prefix { return serving.PeerNetwork(peer, c.TrustedProxies) },
		MaxPerDeployment: c.MaxSQLConnections, MaxConnections: maxSQLConnections,
		DrainTimeout: c.DrainTimeout, Log: c.Log, Registerer: c.Registerer,
	}).Run(accepting, l)
}

// maxSQLConnections limits all SQL connections, and so their memory.
const maxSQLConnections = 10_000

var _ http.Handler = (*handler)(nil)
