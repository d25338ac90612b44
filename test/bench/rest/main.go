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
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	host        = "bench.example.com"
	httpsPort   = "127.0.0.1:18953"
	metricsPort = "127.0.0.1:18954"
	limit       = 20
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
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "rest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	fmt.Fprintln(os.Stderr, "starting an API server")
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	if err != nil {
		return err
	}
	defer func() { _ = env.Stop() }()
	config.QPS = -1
	fmt.Fprintf(os.Stderr, "making %d deployments\n", o.deployments)
	token, k8s, err := furnish(ctx, config, o.deployments)
	if err != nil {
		return err
	}
	stopFront, err := startFront(ctx, env, o.quoin)
	if err != nil {
		return err
	}
	defer stopFront()
	front, err := frontTarget(ctx, k8s, token)
	if err != nil {
		return err
	}
	direct, err := directTarget(config)
	if err != nil {
		return err
	}
	fmt.Printf("%d deployments, limit=%d, %d callers, %s a turn\n\n", o.deployments, limit, o.callers, o.time)
	fmt.Printf("%-6s %14s %14s %10s %14s %14s %16s\n", "pair", "Quoin req/s", "API srv req/s", "ratio", "Quoin p99 ms", "API srv p99", "mallocs/request")
	var ratios []float64
	for pair := range o.pairs {
		before := mallocs()
		q, err := front.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("over REST: %w", err)
		}
		spent := (mallocs() - before) / float64(q.requests)
		d, err := direct.measure(ctx, o)
		if err != nil {
			return fmt.Errorf("from the API server: %w", err)
		}
		ratio := q.perSecond() / d.perSecond()
		ratios = append(ratios, ratio)
		fmt.Printf("%-6d %14.0f %14.0f %10.2f %14.2f %14.2f %16.0f\n", pair+1, q.perSecond(), d.perSecond(), ratio, q.p99(), d.p99(), spent)
	}
	slices.Sort(ratios)
	fmt.Printf("\nratio %.2f (bar 5), the median of %d\n", ratios[len(ratios)/2], len(ratios))
	return nil
}

// furnish makes the account, its key and its deployments, as the controllers would have left them.
func furnish(ctx context.Context, config *clientrest.Config, n int) (string, client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return "", nil, err
		}
	}
	k8s, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return "", nil, err
	}
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return "", nil, err
	}
	for _, obj := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quoin-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bench"}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "bench"}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: "bench"}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: ptr.To(token.Hash())}},
	} {
		if err := k8s.Create(ctx, obj); err != nil {
			return "", nil, err
		}
	}
	for i := range n {
		id := fmt.Sprint(i + 1)
		d := &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "d-" + id, Labels: map[string]string{v1alpha1.LabelID: id}},
			Spec: v1alpha1.DeploymentSpec{
				DisplayName: "Deployment " + id, ReleaseChannel: "latest",
				Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
			},
		}
		if err := k8s.Create(ctx, d); err != nil {
			return "", nil, err
		}
		d.Status.ID, d.Status.URL, d.Status.CurrentVersion = id, "https://d-"+id+".data."+host, "1.2.3"
		if err := k8s.Status().Update(ctx, d); err != nil {
			return "", nil, err
		}
	}
	return token.Reveal(), k8s, nil
}

func startFront(ctx context.Context, env *envtest.Environment, quoin string) (func(), error) {
	admin, err := env.AddUser(envtest.User{Name: "bench", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := admin.KubeConfig()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(os.TempDir(), fmt.Sprintf("quoin-bench-rest-%d.kubeconfig", os.Getpid()))
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, quoin, "apiserver", "--kubeconfig", file, "--bind-address", httpsPort, "--metrics-bind-address", metricsPort,
		"--health-probe-bind-address=0", "--aggregation=false", "--requests-per-second=1000000", "--burst=1000000", "--log-level=warn", "--shutdown-delay=0s")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = os.Remove(file)
	}, nil
}

// target is a list that can be asked for.
type target struct {
	client *http.Client
	build  func(ctx context.Context) (*http.Request, error)
}

func frontTarget(ctx context.Context, k8s client.Client, token string) (*target, error) {
	secret := &corev1.Secret{}
	roots := x509.NewCertPool()
	t := &target{
		client: &http.Client{Transport: &http.Transport{
			MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12},
		}},
		build: func(ctx context.Context) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://%s/api/v1/deployments?limit=%d", httpsPort, limit), nil)
			if err == nil {
				r.Host = host
				r.Header.Set("Authorization", "Bearer "+token)
			}
			return r, err
		},
	}
	var last error
	for range 200 {
		if last = k8s.Get(ctx, client.ObjectKey{Namespace: "quoin-system", Name: serving.SecretName}, secret); last == nil {
			roots.AppendCertsFromPEM(secret.Data["ca.crt"])
			if _, last = t.once(ctx); last == nil {
				return t, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, fmt.Errorf("the front end does not answer: %w", last)
}

func directTarget(config *clientrest.Config) (*target, error) {
	transport, err := clientrest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s/apis/%s/namespaces/bench/deployments?limit=%d", strings.TrimSuffix(config.Host, "/"), v1alpha1.GroupVersion, limit)
	return &target{
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, TLSClientConfig: transport}},
		build: func(ctx context.Context) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		},
	}, nil
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

// measured is a turn.
type measured struct {
	requests int
	took     time.Duration
	each     []time.Duration
}

func (m measured) perSecond() float64 { return float64(m.requests) / m.took.Seconds() }
func (m measured) p99() float64 {
	slices.Sort(m.each)
	return float64(m.each[len(m.each)*99/100]) / float64(time.Millisecond)
}

func (t *target) measure(ctx context.Context, o options) (measured, error) {
	var lock sync.Mutex
	var all sync.WaitGroup
	m := measured{}
	var failed error
	began := time.Now()
	for range o.callers {
		all.Go(func() {
			var each []time.Duration
			var err error
			for time.Since(began) < o.time && err == nil {
				var took time.Duration
				if took, err = t.once(ctx); err == nil {
					each = append(each, took)
				}
			}
			lock.Lock()
			defer lock.Unlock()
			m.each = append(m.each, each...)
			if err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	m.took, m.requests = time.Since(began), len(m.each)
	return m, failed
}

// mallocs is how often the front end has allocated, by its own metrics.
func mallocs() float64 {
	response, err := http.Get("http://" + metricsPort + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return metric(body, "go_memstats_mallocs_total ")
}
