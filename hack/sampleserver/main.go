// Command sampleserver is a stub of the analytics data-plane server. It serves the probes, its
// version and the few endpoints that a rollout needs, without data. hack/dataplane is the real
// server. "localcluster push" builds images of it that differ only in their version.
//
// It runs as any user on a read-only root file system, and shuts down gracefully on SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// configuration is read from the environment, as the real server's is.
type configuration struct {
	version   string   // reported version
	isBroken  bool     // exit immediately, as an image that cannot start
	httpPorts []string // ports that serve HTTP
	tcpPorts  []string // ports that only accept connections, for TCP probes
}

// readConfiguration returns the configuration of the API server or, by
// SAMPLESERVER_ROLE, of the store.
func readConfiguration(getenv func(string) string) configuration {
	c := configuration{
		version:  getenv("SAMPLESERVER_VERSION"),
		isBroken: getenv("SAMPLESERVER_BROKEN") == "true",
	}
	if getenv("SAMPLESERVER_ROLE") != "store" {
		c.httpPorts = []string{withDefault(getenv("PORT"), "4000")}
		return c
	}
	c.httpPorts = []string{
		withDefault(getenv("CUBESTORE_STATUS_PORT"), "3031"),
		withDefault(getenv("CUBESTORE_HTTP_PORT"), "3030"),
	}
	// A worker listens for its router; the router listens for metadata.
	c.tcpPorts = []string{withDefault(getenv("CUBESTORE_WORKER_PORT"), withDefault(getenv("CUBESTORE_META_PORT"), "9999"))}
	return c
}

func withDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// handler serves the responses of a data plane without a data model.
func handler(c configuration) http.Handler {
	mux := http.NewServeMux()
	health := func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"health": "HEALTH"})
	}
	mux.HandleFunc("GET /readyz", health)
	mux.HandleFunc("GET /livez", health)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]string{"version": c.version})
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		// The REST API may have any base path, /cubejs-api by default.
		if !strings.HasSuffix(r.URL.Path, "/v1/meta") {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, map[string][]string{"cubes": {}})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Data-Plane-Version", c.version)
		mux.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Printf("Write a response: %v", err)
	}
}

// serve listens on every port until ctx ends, then drains open requests.
func serve(ctx context.Context, c configuration) error {
	server := &http.Server{Handler: handler(c), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, len(c.httpPorts))
	for _, port := range c.httpPorts {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		go func() { failed <- server.Serve(listener) }()
	}
	for _, port := range c.tcpPorts {
		listener, err := net.Listen("tcp", ":"+port)
		if err != nil {
			return err
		}
		defer listener.Close()
		go acceptAndClose(listener)
	}
	log.Printf("Started version %s on ports %s", c.version, strings.Join(append(c.httpPorts, c.tcpPorts...), ", "))
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	return server.Shutdown(drain)
}

// acceptAndClose accepts and closes connections, for TCP probes.
func acceptAndClose(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // the listener is closed at shutdown
		}
		connection.Close()
	}
}

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	c := readConfiguration(os.Getenv)
	if c.isBroken {
		log.Fatalf("Version %s is broken on purpose", c.version)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, c); err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "sampleserver:", err)
		os.Exit(1)
	}
}
