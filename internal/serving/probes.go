package serving

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// probes returns the handler of /healthz, which is 200 while the process runs, and of /readyz,
// which is 200 if all checks pass. Otherwise /readyz is 503 with the names of the failed checks, or
// "draining" during shutdown.
func (s *server) probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if failed := s.notReady(r); len(failed) > 0 {
			WriteError(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(failed, ", "))
			return
		}
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("/", notFound)
	return mux
}

// notReady returns the sorted names of the failed checks.
func (s *server) notReady(r *http.Request) []string {
	if s.draining.Load() {
		return []string{"draining"}
	}
	var failed []string
	for _, name := range slices.Sorted(maps.Keys(s.Ready)) {
		if err := s.Ready[name](r); err != nil {
			s.Log.Info("Not ready", "check", name, "error", err)
			failed = append(failed, name)
		}
	}
	return failed
}
