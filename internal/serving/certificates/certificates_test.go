package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/logtest"
)

// volume is a directory with tls.crt and tls.key as the kubelet mounts a Secret: both are links
// through ..data, which is replaced atomically.
type volume string

func newVolume(t *testing.T) volume {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"tls.crt", "tls.key"} {
		must(t, os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
	}
	return volume(dir)
}

func (v volume) path(name string) string { return filepath.Join(string(v), name) }

func (v volume) write(t *testing.T, version string, certificate, key []byte) {
	t.Helper()
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		must(t, errors.Join(os.MkdirAll(v.path(version), 0o700), os.WriteFile(v.path(filepath.Join(version, name)), content, 0o600)))
	}
	must(t, errors.Join(os.Symlink(version, v.path("..tmp")), os.Rename(v.path("..tmp"), v.path("..data"))))
}

func (v volume) open(t *testing.T, log *logtest.Buffer) *Certificates {
	t.Helper()
	c, err := FromFiles(t.Context(), v.path("tls.crt"), v.path("tls.key"), log.Logger())
	must(t, err)
	return c
}

func TestFilesAreReloaded(t *testing.T) {
	v := newVolume(t)
	oldCertificate, oldKey, _ := testPair(t, "old.example.com")
	newCertificate, newKey, _ := testPair(t, "new.example.com")
	v.write(t, "1", oldCertificate, oldKey)
	c := v.open(t, &logtest.Buffer{})
	if got := current(t, c).DNSNames; !slices.Equal(got, []string{"old.example.com"}) || c.CA() != nil {
		t.Errorf("certificate for %q with CA %q", got, c.CA())
	}
	c.interval = time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Run(ctx) }()
	v.write(t, "2", newCertificate, newKey)
	eventually(t, func() bool { return slices.Equal(current(t, c).DNSNames, []string{"new.example.com"}) })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run returns %v", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "quoin_certificate_expiry_timestamp_seconds" ||
		families[0].GetMetric()[0].GetGauge().GetValue() != float64(current(t, c).NotAfter.Unix()) {
		t.Errorf("metrics %v (%v)", families, err)
	}
}

func TestBrokenFilesAreIgnored(t *testing.T) {
	v, log := newVolume(t), &logtest.Buffer{}
	oldCertificate, oldKey, _ := testPair(t, "old.example.com")
	newCertificate, newKey, _ := testPair(t, "new.example.com")
	v.write(t, "1", oldCertificate, oldKey)
	c := v.open(t, log)
	for i, broken := range [][2][]byte{{newCertificate, oldKey}, {[]byte("junk"), newKey}, {newCertificate, nil}} {
		v.write(t, fmt.Sprint("broken", i), broken[0], broken[1])
		for range 3 {
			if err := c.Refresh(t.Context()); err == nil {
				t.Errorf("no error for broken pair %d", i)
			}
		}
		if got := current(t, c).DNSNames; !slices.Equal(got, []string{"old.example.com"}) {
			t.Errorf("certificate for %q after a broken pair", got)
		}
	}
	if lines := log.Lines(t, "Cannot renew the serving certificate"); len(lines) != 3 {
		t.Errorf("%d lines about 3 broken pairs: %v", len(lines), lines)
	}
	for _, key := range [][]byte{oldKey, newKey} {
		if strings.Contains(log.String(), strings.Split(string(key), "\n")[1]) {
			t.Error("the log contains a key")
		}
	}
}

func TestMissingFiles(t *testing.T) {
	_, err := FromFiles(t.Context(), filepath.Join(t.TempDir(), "tls.crt"), "tls.key", slog.New(slog.DiscardHandler))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func current(t *testing.T, c *Certificates) *x509.Certificate {
	t.Helper()
	certificate, err := c.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate.Leaf
}

// cluster is a fake cluster with a clock.
type cluster struct {
	client.Client
	clock *clocktesting.FakePassiveClock
	log   *logtest.Buffer
	mu    sync.Mutex
	names []string
}

var secretKey = client.ObjectKey{Namespace: "quoin-system", Name: SecretName}

func newCluster(funcs interceptor.Funcs, names ...string) *cluster {
	return &cluster{
		Client: fake.NewClientBuilder().WithInterceptorFuncs(funcs).Build(),
		clock:  clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second)), log: &logtest.Buffer{}, names: names,
	}
}

func (c *cluster) open(ctx context.Context, names ...string) (*Certificates, error) {
	return FromSecret(ctx, SecretOptions{
		Client: c.Client, Namespace: secretKey.Namespace, Clock: c.clock, Log: c.log.Logger(),
		Names: func() []string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return append(slices.Clone(c.names), names...)
		},
	})
}

func (c *cluster) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), secretKey, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func (c *cluster) mustOpen(t *testing.T, names ...string) *Certificates {
	t.Helper()
	certificates, err := c.open(t.Context(), names...)
	if err != nil {
		t.Fatal(err)
	}
	return certificates
}

func TestSecretIsCreated(t *testing.T) {
	c := newCluster(interceptor.Funcs{}, "B.example.com.", "*.a.example.com", "b.example.com", "127.0.0.1", "not valid", "")
	certificates := c.mustOpen(t)
	leaf := current(t, certificates)
	if diff := cmp.Diff([]string{"*.a.example.com", "b.example.com"}, leaf.DNSNames); diff != "" {
		t.Error(diff)
	}
	if len(leaf.IPAddresses) != 1 || !leaf.IPAddresses[0].Equal(net.IPv4(127, 0, 0, 1)) {
		t.Errorf("addresses %v", leaf.IPAddresses)
	}
	if got := leaf.NotAfter.Sub(c.clock.Now()); got != servingLifetime {
		t.Errorf("valid for %s", got)
	}
	secret := c.secret(t)
	if secret.Type != corev1.SecretTypeTLS || secret.Labels["app.kubernetes.io/managed-by"] != "quoin" || len(secret.Data) != 4 {
		t.Errorf("secret of type %q with labels %v and %d keys", secret.Type, secret.Labels, len(secret.Data))
	}
	ca, err := parseAuthority(secret.Data["ca.crt"], secret.Data["ca.key"])
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := ca.key.Public().(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() || ca.certificate.NotAfter.Sub(c.clock.Now()) != authorityLifetime {
		t.Errorf("CA with a %T, valid until %s", ca.key, ca.certificate.NotAfter)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificates.CA())
	for _, name := range []string{"x.a.example.com", "b.example.com", "127.0.0.1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: pool}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := certificates.Refresh(t.Context()); err != nil || c.secret(t).ResourceVersion != secret.ResourceVersion {
		t.Errorf("written again without a change (%v)", err)
	}
	if lines := c.log.Lines(t, "Names omitted from the serving certificate"); len(lines) != 1 {
		t.Errorf("%d lines about omitted names", len(lines))
	}
	for _, key := range []string{"tls.key", "ca.key"} {
		if strings.Contains(c.log.String(), strings.Split(string(secret.Data[key]), "\n")[1]) {
			t.Errorf("the log contains %s", key)
		}
	}
}

var renewalTests = []struct {
	name   string
	change func(t *testing.T, c *cluster)
	leaf   bool // is renewed
	ca     bool // is renewed
	names  []string
}{
	{"no change", func(*testing.T, *cluster) {}, false, false, []string{"a"}},
	{"before two thirds", func(_ *testing.T, c *cluster) { c.clock.SetTime(c.clock.Now().Add(59 * 24 * time.Hour)) }, false, false, []string{"a"}},
	{"after two thirds", func(_ *testing.T, c *cluster) { c.clock.SetTime(c.clock.Now().Add(60 * 24 * time.Hour)) }, true, false, []string{"a"}},
	{"CA in its last year", func(_ *testing.T, c *cluster) {
		c.clock.SetTime(c.clock.Now().Add(authorityLifetime - authorityReserve + 1))
	}, true, true, []string{"a"}},
	{"name added", func(_ *testing.T, c *cluster) { c.names = []string{"b"} }, true, false, []string{"a", "b"}},
	{"name removed", func(_ *testing.T, c *cluster) { c.names = nil }, false, false, []string{"a"}},
	{"name removed, renewal by age", func(_ *testing.T, c *cluster) {
		c.names = []string{"b"}
		c.clock.SetTime(c.clock.Now().Add(60 * 24 * time.Hour))
	}, true, false, []string{"b"}},
	{"secret deleted", func(t *testing.T, c *cluster) { must(t, c.Delete(t.Context(), c.secret(t))) }, true, true, []string{"a"}},
	{"secret emptied", func(t *testing.T, c *cluster) { c.edit(t, func(d map[string][]byte) { clear(d) }) }, true, true, []string{"a"}},
	{"broken certificate", func(t *testing.T, c *cluster) {
		c.edit(t, func(d map[string][]byte) { d["tls.crt"] = []byte("junk") })
	}, true, false, []string{"a"}},
	{"broken CA", func(t *testing.T, c *cluster) {
		c.edit(t, func(d map[string][]byte) { d["ca.crt"] = []byte("junk") })
	}, true, true, []string{"a"}},
	{"certificate of another CA", func(t *testing.T, c *cluster) {
		c.edit(t, func(d map[string][]byte) { d["tls.crt"], d["tls.key"], _ = testPair(t, "a") })
	}, true, false, []string{"a"}},
	{"CA that is not a CA certificate", func(t *testing.T, c *cluster) {
		c.edit(t, func(d map[string][]byte) { d["ca.crt"], d["ca.key"] = d["tls.crt"], d["tls.key"] })
	}, true, true, []string{"a"}},
}

func TestSecretIsRenewed(t *testing.T) {
	for _, tt := range renewalTests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(interceptor.Funcs{}, "a")
			certificates := c.mustOpen(t)
			leaf, ca := current(t, certificates), certificates.CA()
			tt.change(t, c)
			if err := certificates.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			now := current(t, certificates)
			if renewed := !now.Equal(leaf); renewed != tt.leaf {
				t.Errorf("certificate renewed: %t", renewed)
			}
			if renewed := string(ca) != string(certificates.CA()); renewed != tt.ca {
				t.Errorf("CA renewed: %t", renewed)
			}
			if diff := cmp.Diff(tt.names, now.DNSNames); diff != "" {
				t.Error(diff)
			}
			if stored := c.secret(t); string(stored.Data["ca.crt"]) != string(certificates.CA()) {
				t.Error("the secret has another CA")
			}
			if !current(t, c.mustOpen(t)).Equal(now) {
				t.Error("another replica uses another certificate")
			}
		})
	}
}

func (c *cluster) edit(t *testing.T, change func(map[string][]byte)) {
	t.Helper()
	secret := c.secret(t)
	change(secret.Data)
	must(t, c.Update(t.Context(), secret))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Concurrent replicas converge to one certificate, for the names of all of them.
func TestReplicasConverge(t *testing.T) {
	c := newCluster(interceptor.Funcs{}, "a")
	const replicas = 4
	all := make([]*Certificates, replicas)
	runConcurrently(replicas, func(i int) {
		var err error
		if all[i], err = c.open(t.Context()); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	})
	if t.Failed() {
		return
	}
	agree := func() {
		t.Helper()
		for i := range all {
			if !current(t, all[i]).Equal(current(t, all[0])) || string(all[i].CA()) != string(c.secret(t).Data["ca.crt"]) {
				t.Errorf("replica %d uses another certificate", i)
			}
		}
	}
	agree()
	ca := string(all[0].CA())
	c.clock.SetTime(c.clock.Now().Add(60 * 24 * time.Hour))
	runConcurrently(replicas, func(i int) {
		if err := all[i].Refresh(t.Context()); err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	})
	agree()
	if string(all[0].CA()) != ca {
		t.Error("the CA was replaced")
	}

	// Replicas with different names do not remove each other's.
	x, y := c.mustOpen(t, "x"), c.mustOpen(t, "y")
	version := c.secret(t).ResourceVersion
	for range 3 {
		if err := errors.Join(x.Refresh(t.Context()), y.Refresh(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	if got := current(t, x).DNSNames; !slices.Equal(got, []string{"a", "x", "y"}) || c.secret(t).ResourceVersion != version {
		t.Errorf("names %q, secret of version %s, before %s", got, c.secret(t).ResourceVersion, version)
	}
}

func runConcurrently(n int, run func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { run(i) })
	}
	group.Wait()
}

// A replica whose write conflicts uses the certificate that another one wrote.
func TestConflicts(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	t.Run("create", func(t *testing.T) {
		var winner []byte
		once := sync.Once{}
		c := newCluster(interceptor.Funcs{Create: func(ctx context.Context, w client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			once.Do(func() {
				other := obj.DeepCopyObject().(*corev1.Secret)
				ca, err := newAuthority("quoin-apiserver", time.Now())
				must(t, err)
				other.Data["ca.crt"], other.Data["ca.key"] = ca.certificatePEM, ca.keyPEM
				other.Data["tls.crt"], other.Data["tls.key"], err = ca.issue("quoin-apiserver", []string{"a"}, time.Now())
				must(t, errors.Join(err, w.Create(ctx, other)))
				winner = ca.certificatePEM
			})
			return w.Create(ctx, obj, o...)
		}}, "a")
		if got := c.mustOpen(t).CA(); string(got) != string(winner) {
			t.Error("does not use the stored certificate")
		}
	})
	t.Run("always", func(t *testing.T) {
		attempts := 0
		c := newCluster(interceptor.Funcs{Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
			attempts++
			return apierrors.NewConflict(resource, SecretName, errors.New("changed"))
		}}, "a")
		certificates := c.mustOpen(t)
		before := current(t, certificates)
		c.names = []string{"b"}
		if err := certificates.Refresh(t.Context()); !errors.Is(err, errConflict) || attempts != maxConflicts {
			t.Errorf("error %v after %d attempts", err, attempts)
		}
		if !current(t, certificates).Equal(before) {
			t.Error("does not keep its certificate")
		}
	})
}

// A failed write keeps the stored certificate in use.
func TestSecretFailures(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, SecretName, errors.New("no"))
	deny := map[string]bool{}
	c := newCluster(interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			if deny["get"] {
				return forbidden
			}
			return w.Get(ctx, key, obj, o...)
		},
		Create: func(ctx context.Context, w client.WithWatch, obj client.Object, o ...client.CreateOption) error {
			if deny["create"] {
				return forbidden
			}
			return w.Create(ctx, obj, o...)
		},
		Update: func(ctx context.Context, w client.WithWatch, obj client.Object, o ...client.UpdateOption) error {
			if deny["update"] {
				return forbidden
			}
			return w.Update(ctx, obj, o...)
		},
	}, "a")
	deny["get"] = true
	if _, err := c.open(t.Context()); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "secret quoin-system/quoin-apiserver-tls") {
		t.Errorf("error %v", err)
	}
	deny["get"] = false
	certificates := c.mustOpen(t)
	before := current(t, certificates)
	c.names = []string{"b"}
	for _, verb := range []string{"get", "update"} {
		deny[verb] = true
		if err := certificates.Refresh(t.Context()); !apierrors.IsForbidden(err) || !current(t, certificates).Equal(before) {
			t.Errorf("%s: error %v", verb, err)
		}
		if verb == "update" && !current(t, c.mustOpen(t)).Equal(before) {
			t.Error("a new replica does not use the stored certificate")
		}
		deny[verb] = false
	}
}

func TestForeignSecretIsNotModified(t *testing.T) {
	c := newCluster(interceptor.Funcs{}, "a")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}, Data: map[string][]byte{}}
	foreign.Data["tls.crt"], foreign.Data["tls.key"], foreign.Data["ca.crt"] = testPair(t, "b")
	must(t, c.Create(t.Context(), foreign))
	if _, err := c.open(t.Context()); err == nil || !strings.Contains(err.Error(), "not managed by quoin") {
		t.Errorf("error %v", err)
	}
	if c.secret(t).ResourceVersion != foreign.ResourceVersion {
		t.Error("the Secret was written")
	}
}

// An empty Secret, for example from a chart, is filled.
func TestEmptySecretIsFilled(t *testing.T) {
	c := newCluster(interceptor.Funcs{}, "a")
	must(t, c.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}},
		Type:       corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil},
	}))
	first, second := c.mustOpen(t), c.mustOpen(t)
	if !current(t, first).Equal(current(t, second)) || c.secret(t).Labels["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("labels %v", c.secret(t).Labels)
	}
}

func TestManyNames(t *testing.T) {
	var names []string
	for i := range maxNames + 10 {
		names = append(names, fmt.Sprintf("%s-%03d.example.com", strings.Repeat("x", 40), maxNames+10-i))
	}
	c := newCluster(interceptor.Funcs{}, names...)
	certificates := c.mustOpen(t)
	got := current(t, certificates).DNSNames
	if len(got) != maxNames || !slices.IsSorted(got) || !slices.Contains(got, names[0]) || slices.Contains(got, names[maxNames]) {
		t.Errorf("%d names", len(got))
	}
	// The certificate must fit into a handshake.
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{GetCertificate: certificates.GetCertificate})
	must(t, err)
	defer l.Close()
	go func() {
		if accepted, err := l.Accept(); err == nil {
			_ = accepted.(*tls.Conn).Handshake()
		}
	}()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificates.CA())
	connection, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: names[0]})
	must(t, err)
	_ = connection.Close()
}

// New connections use a renewed certificate, without a restart.
func TestNewConnectionsUseRenewedCertificate(t *testing.T) {
	c := newCluster(interceptor.Funcs{}, "localhost")
	certificates := c.mustOpen(t)
	bound := make(chan serving.Addresses, 1)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- serving.Run(ctx, serving.Options{
			HTTPS: serving.Endpoint{Address: "127.0.0.1:0"}, GetCertificate: certificates.GetCertificate, Log: c.log.Logger(),
			OnListen: func(a serving.Addresses) { bound <- a },
		}, http.NotFoundHandler())
	}()
	address := (<-bound).HTTPS.String()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificates.CA())
	dial := func(name string) error {
		connection, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool, ServerName: name})
		if err == nil {
			_ = connection.Close()
		}
		return err
	}
	must(t, dial("localhost"))
	var mismatch x509.HostnameError
	if err := dial("new.example.com"); !errors.As(err, &mismatch) {
		t.Errorf("error %v, want a HostnameError", err)
	}
	c.mu.Lock()
	c.names = append(c.names, "new.example.com")
	c.mu.Unlock()
	must(t, certificates.Refresh(t.Context()))
	must(t, dial("localhost"))
	must(t, dial("new.example.com"))
	stop()
	must(t, <-done)
}
