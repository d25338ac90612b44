package apiserver

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest/content"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/dbtsync"
	"github.com/quoin-dev/quoin/internal/content/deploytoken"
	"github.com/quoin-dev/quoin/internal/content/devmode"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/token"
	"github.com/quoin-dev/quoin/internal/content/upload"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/content/usertoken"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/telemetry"
)

// ContentOwners returns the packages with tables in the content store, for backups.
func ContentOwners() []store.Owner { return slices.Clone(owners) }

// owners are the packages with tables in the content store.
var owners = append([]store.Owner{audit.Owner, token.Owner, repository.Owner, dbtsync.Owner, devmode.Owner, upload.Owner, deploytoken.Owner, oauth.Owner, usertoken.Owner, subject.Owner, usage.Owner, chat.Owner, evaluation.Owner}, content.Owners...)

const (
	// purgeInterval is the time between two scans for content of deleted objects.
	purgeInterval = 10 * time.Minute
	// purgeDelay is the time for which an account or deployment must have been absent before its
	// content is deleted.
	purgeDelay = 24 * time.Hour
	// collectionInterval is the time between two scans for unreachable objects of Git repositories.
	collectionInterval = time.Hour
	// statisticsInterval is the time between two updates of the metrics of Git repositories.
	statisticsInterval = time.Minute
)

// newContentStore returns the content store with the audit log and the jobs of its tables. The caller runs it.
func newContentStore(k8s cluster.Cluster, c Config, deployments toolscache.SharedIndexInformer, background *serving.Background) (*store.Database, *auditLog) {
	database := store.NewDatabase(c.DatabaseURL, c.Log, owners...)
	events := &auditLog{reader: k8s.GetCache(), log: c.Log, onOpen: c.OnOpen}
	database.WhileUsed(events.run) // the answers and evaluations that end then record their tool calls
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		purger := &store.Purger{Store: s, Cluster: existence{k8s.GetCache(), k8s.GetAPIReader()}, Delay: purgeDelay, Clock: clock.RealClock{}, Log: c.Log}
		return purger.Run(ctx, purgeInterval)
	})
	for _, expire := range []func(ctx context.Context, s *store.Store, interval time.Duration, log *slog.Logger) error{
		token.RunExpiry, upload.RunExpiry, deploytoken.RunExpiry, oauth.RunExpiry, usertoken.RunExpiry, usage.RunExpiry,
	} {
		database.WhileOpen(func(ctx context.Context, s *store.Store) error { return expire(ctx, s, purgeInterval, c.Log) })
	}
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		return repository.RunCollection(ctx, s, collectionInterval, c.Log)
	})
	database.WhileOpen(func(ctx context.Context, s *store.Store) error {
		return repository.RunStatistics(ctx, s, statisticsInterval, c.Log)
	})
	versions := &recording.Versions{Log: events, Deployments: deployments, Reader: k8s.GetCache(), Now: time.Now}
	background.Run("versions", versions.Start)
	return database, events
}

// registerStoreMetrics registers the metrics of the content store and of everything that uses it.
func registerStoreMetrics(registerer prometheus.Registerer, database *store.Database) error {
	return telemetry.Register(registerer, slices.Concat(
		[]prometheus.Collector{database}, store.Collectors(), audit.Collectors(), dbtsync.Collectors(), repository.Collectors(),
	)...)
}

// existence implements store.Cluster. An object in the cache counts as present, so a stale cache
// delays a purge. Absence is confirmed by the API server, so an empty cache purges nothing.
type existence struct{ cache, live client.Reader }

// AccountExists implements store.Cluster.
func (e existence) AccountExists(ctx context.Context, a store.Account) (bool, error) {
	return e.exists(ctx, "Account", client.ObjectKey{Name: a.Name}, a.UID)
}

// DeploymentExists implements store.Cluster.
func (e existence) DeploymentExists(ctx context.Context, d store.Deployment) (bool, error) {
	return e.exists(ctx, "Deployment", client.ObjectKey{Namespace: d.Namespace, Name: d.Name}, d.UID)
}

func (e existence) exists(ctx context.Context, kind string, key client.ObjectKey, uid string) (bool, error) {
	var cached client.Object = &v1alpha1.Account{}
	if kind == "Deployment" {
		cached = &v1alpha1.Deployment{}
	}
	if err := e.cache.Get(ctx, key, cached); err == nil && string(cached.GetUID()) == uid {
		return true, nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	err := e.live.Get(ctx, key, live)
	// A 404 with an unexpected body means that the kind is not served, not that the object is absent.
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false, nil
	}
	return err != nil || string(live.UID) == uid, err
}
