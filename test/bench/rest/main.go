// Command rest measures the list of deployments over REST, compared with the same list from kube-apiserver: 1,000
// deployments, pages of 20, the same number of callers, alternating. The ratio measures Quoin; absolute throughput
// depends on the machine.
//
//	make bench-rest BENCH_FLAGS=-docs      # also writes the results into the documentation
//	go run ./test/bench/rest -callers 4 -time 3s        # KUBEBUILDER_ASSETS is set
package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	host      = "bench.example.com"
	namespace = "bench"
	limit     = 20
)

type options struct {
	deployments, callers, pairs int
	time                        time.Duration
	quoin                       string
	docs                        *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.deployments, "n", 1000, "`number` of deployments")
	flag.IntVar(&o.callers, "callers", 8, "`number` of concurrent callers")
	flag.IntVar(&o.pairs, "pairs", 3, "`number` of pairs of measurements")
	flag.DurationVar(&o.time, "time", 5*time.Second, "`duration` of a measurement")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("rest", func(ctx context.Context) error {
		return controlplane.WithAPIServer("rest", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	results, err := measure.OpenResults("rest", *o.docs)
	if err != nil {
		return err
	}
	measure.Progress("creating %d deployments", o.deployments)
	token, err := createObjects(ctx, server, o.deployments)
	if err != nil {
		return err
	}
	var through *target
	quoin, err := server.StartQuoin(ctx, o.quoin, controlplane.Unlimited, func(q *controlplane.Quoin) error {
		through = quoinTarget(q, token)
		_, err := through.once(ctx)
		return err
	})
	if err != nil {
		return err
	}
	report, err := compare(ctx, o, quoin, through, directTarget(server))
	if err != nil {
		return err
	}
	setup := fmt.Sprintf("%d deployments, pages of %d, %d callers, %s a measurement", o.deployments, limit, o.callers, o.time)
	return results.Publish(setup, func(w io.Writer) {
		report.PrintBars(w)
		report.PrintRows(w, "Requests")
	})
}

// compare measures both targets, pair by pair.
func compare(ctx context.Context, o options, server *controlplane.Quoin, through, direct *target) (*measure.Report, error) {
	r := &measure.Report{}
	mallocs := func() float64 { return server.Metric("go_memstats_mallocs_total") }
	var quoin, kubernetes measure.Times
	var ratios, allocations, latencies []float64
	for pair := range o.pairs {
		before := mallocs()
		q, err := through.measure(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("over REST: %w", err)
		}
		allocations = append(allocations, (mallocs()-before)/float64(len(q.Each)))
		d, err := direct.measure(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("from kube-apiserver: %w", err)
		}
		ratios = append(ratios, q.PerSecond()/d.PerSecond())
		latencies = append(latencies, q.Milliseconds(0.99))
		quoin, kubernetes = quoin.With(q), kubernetes.With(d)
		measure.Progress("  pair %d: ratio %.2f, p99 %.2f ms, %.0f allocations a request", pair+1, ratios[pair], latencies[pair], allocations[pair])
	}
	r.Add("list over REST", quoin, "%d callers", o.callers)
	r.Add("the same list from kube-apiserver", kubernetes, "%d callers", o.callers)
	medians := fmt.Sprintf("median of %d pairs", len(ratios))
	r.AtLeast(fmt.Sprintf("requests a second ÷ those of kube-apiserver, %s (%.1f to %.1f)", medians, slices.Min(ratios), slices.Max(ratios)), measure.Median(ratios), 10, "")
	r.AtMost("p99 of a list, "+medians, measure.Median(latencies), 8, " ms")
	r.AtMost("allocations a request, "+medians, measure.Median(allocations), 120, "")
	return r, nil
}

// createObjects creates the account, its key and its deployments, with the status that the controllers would write. It
// returns the token of the key.
func createObjects(ctx context.Context, server *controlplane.APIServer, n int) (string, error) {
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return "", err
	}
	if err := server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: namespace}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: ptr.To(token.Hash())}},
	); err != nil {
		return "", err
	}
	for i := range n {
		id := fmt.Sprint(i + 1)
		d := &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "d-" + id, Labels: map[string]string{v1alpha1.LabelID: id}},
			Spec: v1alpha1.DeploymentSpec{
				DisplayName: "Deployment " + id, ReleaseChannel: "latest",
				Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
			},
		}
		if err := server.Create(ctx, d); err != nil {
			return "", err
		}
		d.Status.ID, d.Status.URL, d.Status.CurrentVersion = id, "https://d-"+id+".data."+host, "1.2.3"
		if err := server.Status().Update(ctx, d); err != nil {
			return "", err
		}
	}
	return token.Reveal(), nil
}

// target is a list to request.
type target struct {
	client *http.Client
	build  func(ctx context.Context) (*http.Request, error)
}

func quoinTarget(q *controlplane.Quoin, token string) *target {
	url := fmt.Sprintf("%s/api/v1/deployments?limit=%d", q.URL, limit)
	return &target{q.HTTP, func(ctx context.Context) (*http.Request, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err == nil {
			r.Host = host
			r.Header.Set("Authorization", "Bearer "+token)
		}
		return r, err
	}}
}

func directTarget(server *controlplane.APIServer) *target {
	url := fmt.Sprintf("%s/deployments?limit=%d", server.Namespaced(namespace), limit)
	return &target{server.HTTP, func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	}}
}

// once sends a request and reads the whole response.
func (t *target) once(ctx context.Context) (time.Duration, error) {
	r, err := t.build(ctx)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	response, err := t.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return time.Since(start), err
}

// measure sends requests with all callers for the time of a measurement.
func (t *target) measure(ctx context.Context, o options) (measure.Times, error) {
	return measure.Together(o.callers, func(_ int, start time.Time) (each []time.Duration, err error) {
		for time.Since(start) < o.time && err == nil {
			var took time.Duration
			if took, err = t.once(ctx); err == nil {
				each = append(each, took)
			}
		}
		return each, err
	})
}
