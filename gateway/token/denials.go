package token

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// refusals are the environments whose Secrets the gateway may not read. The API server is asked
// again every few seconds only, whatever callers send, and the log is told now and then.
type refusals struct {
	mu   sync.Mutex
	held map[types.NamespacedName]refusal
}

// refusal is when the API server has refused last, and when the log was told so.
type refusal struct{ asked, told time.Time }

// recent tells whether it is too early to ask again.
func (r *refusals) recent(environment types.NamespacedName, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, refused := r.held[environment]
	return refused && now.Sub(held.asked) < again
}

// note remembers a refusal, and says in the log who can mend it.
func (r *refusals) note(environment types.NamespacedName, secret string, now time.Time, log *slog.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Nobody asks for those any more: an environment that is gone is among them.
	maps.DeleteFunc(r.held, func(_ types.NamespacedName, held refusal) bool { return now.Sub(held.asked) >= stale })
	if r.held == nil {
		r.held = map[types.NamespacedName]refusal{}
	}
	held := r.held[environment]
	held.asked = now
	if held.told.IsZero() || now.Sub(held.told) >= stale {
		held.told = now
		log.Error("Cannot check tokens: bind ClusterRole quoin-account to the gateway with a RoleBinding in the namespace",
			"namespace", environment.Namespace, "roleBinding", "quoin-account", "secret", secret)
	}
	r.held[environment] = held
}

// forget is for an environment whose Secrets could be read.
func (r *refusals) forget(environment types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, environment)
}
