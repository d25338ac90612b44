// Command auth measures how many requests a second a server authenticates: with an API key, with a JWT of an OIDC issuer, and
// with an access token of a person who has signed in. It compares each with the same requests to a server that does not read
// the credential, in the same process and alternating: TLS connections that are kept open, and a handler that responds with
// two bytes.
//
//	make bench-auth BENCH_FLAGS=-docs      # also writes the results into the documentation
//	go run ./test/bench/auth -rounds 5      # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"time"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/tenant"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

type options struct {
	callers, rounds, roles, groups int
	time                           time.Duration
	docs                           *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.callers, "callers", 8, "`number` of concurrent callers, each with a connection")
	flag.IntVar(&o.rounds, "rounds", 15, "`number` of rounds, each with all measurements")
	flag.IntVar(&o.roles, "roles", 100, "`number` of roles")
	flag.IntVar(&o.groups, "groups", 10_000, "`number` of groups")
	flag.DurationVar(&o.time, "time", 500*time.Millisecond, "`duration` of a measurement")
	flag.Parse()
	process.Main("auth", func(ctx context.Context) error {
		return controlplane.WithAPIServer("auth", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

// memberToken is the access token of a person with all roles.
const memberToken = "access token of a member of groups"

// kinds are the credentials of requests, in the order in which they are measured.
var kinds = []string{"API key", "JWT", "access token"}

// ignored is the name of the measurement of requests whose credential is not read.
func ignored(kind string) string { return kind + ", not read" }

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("auth", *o.docs)
	if err != nil {
		return err
	}
	measure.Progress("creating an account with its credentials")
	w, err := newWorld(ctx, o, server)
	if err != nil {
		return err
	}
	defer w.close()
	measured, ratios, err := measureAll(ctx, o, w)
	if err != nil {
		return err
	}
	report := &measure.Report{}
	for _, kind := range kinds {
		for _, name := range []string{ignored(kind), kind} {
			report.Add(name, measured[name], "%d callers", o.callers)
		}
	}
	for _, kind := range kinds {
		all := ratios[kind]
		report.AtLeast(fmt.Sprintf("%s: requests a second ÷ those whose credential is not read, median of %d rounds (%.2f to %.2f)", kind, len(all), slices.Min(all), slices.Max(all)),
			measure.Median(all), 0.8, "")
	}
	for _, kind := range kinds {
		times, err := w.alone(ctx, kind, v1alpha1.PermissionSchemaRead)
		if err != nil {
			return err
		}
		report.Add(kind+", alone", times, "one caller, without a connection; %.1f µs at p50", 1000*times.Milliseconds(0.5))
	}
	resolved, err := w.alone(ctx, memberToken, v1alpha1.PermissionSchemaUpdate)
	if err != nil {
		return err
	}
	resolution := fmt.Sprintf("permissions of a person with %d roles, by %[1]d of %d groups", o.roles, o.groups)
	report.Add(resolution, resolved, "one caller, without a connection")
	report.AtMost(resolution+", p99", resolved.Milliseconds(0.99), 1, " ms")
	report.AtMost("requests to kube-apiserver, all together", float64(w.calls.Load()), 0, "")
	setup := fmt.Sprintf("%d callers, each with a connection; %s a measurement, %d rounds; JWT with Ed25519; SQLite", o.callers, o.time, o.rounds)
	return results.Publish(setup, func(out io.Writer) {
		report.PrintBars(out)
		report.PrintRows(out, "Requests")
	})
}

// measureAll measures all kinds in each round, with and without authentication. ratios are those of the throughput with
// authentication to that without.
func measureAll(ctx context.Context, o options, w *world) (measured map[string]measure.Times, ratios map[string][]float64, err error) {
	targets := map[string]*target{}
	for _, kind := range kinds {
		for name, t := range map[string]*target{ignored(kind): w.serve(kind, false), kind: w.serve(kind, true)} {
			defer t.close()
			if err := t.once(ctx); err != nil {
				return nil, nil, fmt.Errorf("%s: %w", name, err)
			}
			targets[name] = t
		}
	}
	w.calls.Store(0) // the first requests have filled the caches
	measured, ratios = map[string]measure.Times{}, map[string][]float64{}
	for round := range o.rounds {
		for _, kind := range kinds {
			pair := []string{ignored(kind), kind}
			if round%2 == 1 {
				slices.Reverse(pair)
			}
			rate := map[string]float64{}
			for _, name := range pair {
				times, err := targets[name].measure(ctx, o)
				if err != nil {
					return nil, nil, fmt.Errorf("%s: %w", name, err)
				}
				measured[name], rate[name] = measured[name].With(times), times.PerSecond()
			}
			ratios[kind] = append(ratios[kind], rate[kind]/rate[ignored(kind)])
			measure.Progress("  round %d: %s: ratio %.2f", round+1, kind, rate[kind]/rate[ignored(kind)])
		}
	}
	return measured, ratios, nil
}

// repetitions is how often each credential is authenticated without a connection.
const repetitions = 20_000

// alone authenticates a credential without a connection.
func (w *world) alone(ctx context.Context, kind string, needed v1alpha1.Permission) (measure.Times, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, tenant.URL(w.account), nil)
	if err != nil {
		return measure.Times{}, err
	}
	r.Header.Set("Authorization", "Bearer "+w.credentials[kind])
	return measure.Spread(ctx, repetitions, 1, func(ctx context.Context, _ int) (time.Duration, error) {
		begun := time.Now()
		p, err := w.authenticator.Authenticate(ctx, w.account, r)
		took := time.Since(begun)
		if err == nil && !p.May(needed) {
			err = fmt.Errorf("%s: no permission %s", kind, needed)
		}
		return took, err
	})
}

// target is a server, and a client that sends it requests with one kind of credential.
type target struct {
	server     *httptest.Server
	client     *http.Client
	credential string
}

// serve starts a server, which authenticates requests or does not read their credential.
func (w *world) serve(kind string, authenticates bool) *target {
	t := &target{credential: w.credentials[kind]}
	t.server = httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if authenticates {
			if p, err := w.authenticator.Authenticate(r.Context(), w.account, r); err != nil || !p.May(v1alpha1.PermissionSchemaRead) {
				http.Error(rw, fmt.Sprint(err), http.StatusUnauthorized)
				return
			}
		}
		_, _ = io.WriteString(rw, "ok")
	}))
	roots := x509.NewCertPool()
	roots.AddCert(t.server.Certificate())
	t.client = controlplane.NewHTTPClient(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})
	return t
}

func (t *target) close() {
	t.client.CloseIdleConnections()
	t.server.Close()
}

// once sends a request and reads the response.
func (t *target) once(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.server.URL, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+t.credential)
	response, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return err
}

// measure sends requests with all callers for the time of a measurement.
func (t *target) measure(ctx context.Context, o options) (measure.Times, error) {
	return measure.Together(o.callers, func(_ int, start time.Time) (each []time.Duration, err error) {
		for time.Since(start) < o.time && err == nil {
			begun := time.Now()
			if err = t.once(ctx); err == nil {
				each = append(each, time.Since(begun))
			}
		}
		return each, err
	})
}
