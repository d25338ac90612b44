package serving

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// probes answers /healthz with 200 while the process is alive, and /readyz with 200 when it
// should get requests; otherwise with 503 and the names of the checks that failed, for which
// "draining" stands when it is shutting down.
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

// notReady returns the names of what failed, sorted.
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
