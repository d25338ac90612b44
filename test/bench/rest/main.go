// Command rest measures the list of deployments over REST, beside the same list taken from
// the API server: 1,000 deployments, pages of 20, the same number of callers, taking turns.
// The ratio is what the front end is worth; requests a second say more about the machine.
//
//	make bench-rest
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
}

func main() {
	o := options{}
	flag.IntVar(&o.deployments, "n", 1000, "`number` of deployments")
	flag.IntVar(&o.callers, "callers", 8, "`number` of callers at once")
	flag.IntVar(&o.pairs, "pairs", 3, "how `often` the two take turns")
	flag.DurationVar(&o.time, "time", 5*time.Second, "how `long` a turn takes")
	flag.StringVar(&o.quoin, "quoin", filepath.Join("bin", "quoin"), "`binary` to measure")
	flag.Parse()
	process.Main("rest", func(ctx context.Context) error {
		return controlplane.WithAPIServer("rest", func(server *controlplane.APIServer) error { return run(ctx, o, server) })
	})
}

func run(ctx context.Context, o options, server *controlplane.APIServer) error {
	measure.Progress("making %d deployments", o.deployments)
	token, err := furnish(ctx, server, o.deployments)
	if err != nil {
		return err
	}
	var through *target
	front, err := server.StartFront(ctx, o.quoin, func(f *controlplane.Front) error {
		through = frontTarget(f, token)
		_, err := through.once(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return takeTurns(ctx, o, front, through, directTarget(server))
}

// takeTurns has both answer, pair by pair, and prints what came of it.
func takeTurns(ctx context.Context, o options, front *controlplane.Front, through, direct *target) error {
	mallocs := func() float64 { return front.Metric("go_memstats_mallocs_total") }
	fmt.Printf("%d deployments, limit=%d, %d callers, %s a turn\n\n", o.deployments, limit, o.callers, o.time)
	fmt.Printf("%-6s %14s %14s %10s %14s %14s %16s\n", "pair", "Quoin req/s", "API srv req/s", "ratio", "Quoin p99 ms", "API srv p99", "mallocs/request")
	var ratios []float64
	for pair := range o.pairs {
		before := mallocs()
		q, err := through.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("over REST: %w", err)
		}
		spent := (mallocs() - before) / float64(len(q.Each))
		d, err := direct.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("from the API server: %w", err)
		}
		ratio := q.PerSecond() / d.PerSecond()
		ratios = append(ratios, ratio)
		fmt.Printf("%-6d %14.0f %14.0f %10.2f %14.2f %14.2f %16.0f\n", pair+1, q.PerSecond(), d.PerSecond(), ratio, q.Milliseconds(0.99), d.Milliseconds(0.99), spent)
	}
	fmt.Printf("\nratio %.2f (bar 5), the median of %d\n", measure.Median(ratios), len(ratios))
	return nil
}

// furnish makes the account, its key and its deployments, as the controllers would have left them.
func furnish(ctx context.Context, server *controlplane.APIServer, n int) (string, error) {
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

// target is a list that can be asked for.
type target struct {
	client *http.Client
	build  func(ctx context.Context) (*http.Request, error)
}

func frontTarget(f *controlplane.Front, token string) *target {
	url := fmt.Sprintf("%s/api/v1/deployments?limit=%d", f.URL, limit)
	return &target{f.HTTP, func(ctx context.Context) (*http.Request, error) {
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

// once asks once and reads the answer to its end.
func (t *target) once(ctx context.Context) (time.Duration, error) {
	r, err := t.build(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	response, err := t.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return time.Since(began), err
}

// measure takes a turn: all callers ask again and again until it is over.
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
