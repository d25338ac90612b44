package token

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// denials are the environments whose Secrets the gateway is not permitted to read. They limit the
// rate of requests to the Kubernetes API server and of log messages, whatever callers send.
type denials struct {
	mu            sync.Mutex
	byEnvironment map[types.NamespacedName]denial
}

// denial is when the Kubernetes API server last denied the read, and when that was last logged.
type denial struct{ read, logged time.Time }

// recent reports whether the read was denied so recently that it is not tried again.
func (d *denials) recent(environment types.NamespacedName, now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	last, denied := d.byEnvironment[environment]
	return denied && now.Sub(last.read) < minRefreshInterval
}

// record stores a denial, and logs the binding that an administrator must create.
func (d *denials) record(environment types.NamespacedName, secret string, now time.Time, log *slog.Logger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Environments without recent requests, including deleted ones.
	maps.DeleteFunc(d.byEnvironment, func(_ types.NamespacedName, old denial) bool { return now.Sub(old.read) >= maxStaleness })
	if d.byEnvironment == nil {
		d.byEnvironment = map[types.NamespacedName]denial{}
	}
	entry := d.byEnvironment[environment]
	entry.read = now
	if entry.logged.IsZero() || now.Sub(entry.logged) >= maxStaleness {
		entry.logged = now
		log.Error("Cannot check tokens: bind ClusterRole quoin-account to the gateway with a RoleBinding in the namespace",
			"namespace", environment.Namespace, "roleBinding", "quoin-account", "secret", secret)
	}
	d.byEnvironment[environment] = entry
}

// remove removes an environment whose Secrets could be read.
func (d *denials) remove(environment types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.byEnvironment, environment)
}
