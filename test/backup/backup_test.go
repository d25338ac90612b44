package backup_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/internal/store/postgrestest"
	"github.com/quoin-dev/quoin/internal/store/storetest"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// An account is copied while Quoin serves, and restored in another cluster with the other database by a program that is
// killed again and again: what users see stays the same.
func TestBackupAndRestore(t *testing.T) {
	postgres := func(t *testing.T) string { return postgrestest.StartServer(t).Database(t) }
	sqlite := func(t *testing.T) string { return storetest.SQLiteURL(t) }
	for name, tc := range map[string]struct{ from, to func(*testing.T) string }{
		"SQLite to PostgreSQL": {sqlite, postgres}, "PostgreSQL to SQLite": {postgres, sqlite},
	} {
		t.Run(name, func(t *testing.T) {
			address, err := freeport.Address()
			if err != nil {
				t.Fatal(err)
			}
			source := newWorld(t, tc.from(t), address)
			source.fill(startRegistry(t))
			before, events := source.observe(), source.events()
			archive := source.backup()
			source.checkActive(archive)
			source.stop()

			target := newWorld(t, tc.to(t), address)
			target.admin, target.generated = source.admin, source.generated
			target.checkRefused(archive)
			// Quoin was installed before it was stopped: the server has generated a certificate.
			generated := certificates.EmptySecret(clustertest.Namespace, certificates.SecretName)
			generated.Data[corev1.TLSCertKey] = []byte("of the new cluster")
			target.ok(target.Client.Update(t.Context(), generated))
			target.restoreKilled(archive)
			// As their owners, or Velero, restore them.
			target.ok(target.Client.Create(t.Context(), model()))
			target.ok(target.Grant(t.Context(), namespace))
			target.start()
			target.settled()
			if diff := cmp.Diff(before, target.observe()); diff != "" {
				t.Errorf("restored (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(events, target.events()); diff != "" {
				t.Errorf("audit log (-before +after):\n%s", diff)
			}
			target.checkNewID()
		})
	}
}

// backup copies the cluster with the content store of another process, as in a pod.
func (w *world) backup() string {
	w.t.Helper()
	archive := filepath.Join(w.Folder, "quoin.backup")
	out, err := w.quoin("backup", "--kubeconfig", w.Kubeconfig(), "--file", archive, "--",
		w.Binary(), "backup", "--content-only", "--database-url", w.databaseURL, "--file", "-")
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(archive)
	w.ok(err)
	if info.Mode().Perm() != 0o600 {
		w.t.Errorf("the archive has mode %v", info.Mode())
	}
	return archive
}

// checkActive checks that an archive is not restored while `quoin apiserver` runs.
func (w *world) checkActive(archive string) {
	w.t.Helper()
	out, err := w.quoin("restore", "--kubeconfig", w.Kubeconfig(), "--file", archive, "--database-url", w.databaseURL)
	if want := "holds lease quoin-system/quoin-apiserver-content"; err == nil || !strings.Contains(out, want) {
		w.t.Errorf("error %v, output %q; want %q", err, out, want)
	}
}

// checkRefused checks that nothing is written for an archive that cannot be restored.
func (w *world) checkRefused(archive string) {
	w.t.Helper()
	whole, err := os.ReadFile(archive)
	w.ok(err)
	w.ok(coordinationv1.AddToScheme(w.Client.Scheme()))
	changed := slices.Clone(whole)
	changed[len(changed)/2] ^= 1
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: clustertest.Namespace, Name: "quoin-controller"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("pod-1"), LeaseDurationSeconds: ptr.To(int32(60)), RenewTime: ptr.To(metav1.NowMicro()),
	}}
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}, Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: "registry.example.com/other"}}
	for name, tc := range map[string]struct {
		archive []byte
		want    string
		exists  func() (remove func())
	}{
		"truncated": {whole[:len(whole)-40], "truncated", nil},
		"half":      {whole[:len(whole)/2], "truncated", nil},
		"changed":   {changed, "the archive is damaged", nil},
		"text":      {[]byte("not an archive"), "the archive is damaged", nil},
		"newer":     {edit(w.t, whole, `"format":1`, `"format":2`), "the archive is of a newer Quoin: its format is 2", nil},
		"edited":    {edit(w.t, whole, `ada@example.com`, `eve@example.com`), "the archive is damaged", nil},
		"active controller": {whole, "pod-1 holds lease quoin-system/quoin-controller", func() func() {
			w.ok(w.Client.Create(w.t.Context(), lease))
			return func() { w.ok(w.Client.Delete(w.t.Context(), lease)) }
		}},
		"other channel": {whole, "objects exist that differ from the archive: ReleaseChannel /stable", func() func() {
			w.ok(w.Client.Create(w.t.Context(), channel))
			return func() { w.ok(w.Client.Delete(w.t.Context(), channel)) }
		}},
	} {
		w.t.Run(name, func(t *testing.T) {
			if tc.exists != nil {
				defer tc.exists()()
			}
			file := filepath.Join(t.TempDir(), "archive")
			w.ok(os.WriteFile(file, tc.archive, 0o600))
			proxy := w.proxy(1 << 30)
			out, err := w.quoin("restore", "--kubeconfig", proxy.kubeconfig, "--file", file, "--database-url", w.databaseURL)
			if err == nil || !strings.Contains(out, tc.want) {
				t.Errorf("error %v, output %q; want %q", err, out, tc.want)
			}
			if n := proxy.writes(); n > 0 {
				t.Errorf("%d writes", n)
			}
		})
	}
}

// edit replaces a text in an archive.
func edit(t *testing.T, archive []byte, old, with string) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	w := gzip.NewWriter(out)
	_, _ = w.Write(bytes.Replace(text, []byte(old), []byte(with), 1))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// restoreKilled restores an archive with a program that is killed at each of its writes in turn, before or after
// the API server has handled it, until it completes. A further run changes nothing.
func (w *world) restoreKilled(archive string) {
	w.t.Helper()
	kills := 0
	for allowed := 0; ; allowed = kills % 7 {
		proxy := w.proxy(allowed)
		p := &clustertest.Process{
			Args:    []string{w.Binary(), "restore", "--kubeconfig", proxy.kubeconfig, "--file", archive, "--database-url", w.databaseURL},
			LogFile: filepath.Join(w.Folder, fmt.Sprintf("restore-%d.log", kills)),
		}
		w.ok(p.Start())
		select {
		case <-proxy.exhausted:
			p.Kill()
			kills++
			continue
		case err := <-exited(p):
			if err != nil {
				w.t.Fatalf("%v: %s", err, p.Log())
			}
		case <-time.After(2 * time.Minute):
			p.Kill()
			w.t.Fatalf("restore does not end: %s", p.Log())
		}
		break
	}
	w.t.Logf("killed %d times", kills)
	if kills < 10 {
		w.t.Errorf("killed only %d times", kills)
	}
	proxy := w.proxy(1 << 30)
	out, err := w.quoin("restore", "--kubeconfig", proxy.kubeconfig, "--file", archive, "--database-url", w.databaseURL)
	if err != nil || !strings.Contains(out, "Restored 0 objects") || proxy.writes() > 0 {
		w.t.Errorf("the second restore: %v: %s; %d writes", err, out, proxy.writes())
	}
}

func exited(p *clustertest.Process) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	return done
}

// counter is a proxy of kube-apiserver that counts writes.
type counter struct {
	kubeconfig string
	// exhausted is closed when there were more writes than allowed; those are not answered.
	exhausted chan struct{}

	mu      sync.Mutex
	count   int
	allowed int
}

func (c *counter) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// proxy starts a proxy that answers a number of writes.
func (w *world) proxy(allowed int) *counter {
	w.t.Helper()
	transport, err := rest.TransportFor(w.Config)
	w.ok(err)
	to, err := url.Parse(w.Config.Host)
	w.ok(err)
	forward := httputil.NewSingleHostReverseProxy(to)
	forward.Transport = transport
	c := &counter{exhausted: make(chan struct{}), allowed: allowed}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			forward.ServeHTTP(out, r)
			return
		}
		c.mu.Lock()
		c.count++
		number := c.count
		c.mu.Unlock()
		if number <= c.allowed {
			forward.ServeHTTP(out, r)
			return
		}
		if number%2 == 0 {
			forward.ServeHTTP(httptest.NewRecorder(), r) // handled, but the answer is lost
		}
		if number == c.allowed+1 {
			close(c.exhausted)
		}
		<-r.Context().Done()
	}))
	w.t.Cleanup(server.CloseClientConnections)
	c.kubeconfig = filepath.Join(w.t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\n" +
		"users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n"
	w.ok(os.WriteFile(c.kubeconfig, []byte(text), 0o600))
	return c
}

// checkNewID checks that the id of a deployment that was deleted before the backup is not issued again.
func (w *world) checkNewID() {
	w.t.Helper()
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}, Spec: v1alpha1.DeploymentSpec{
		ReleaseChannel: "stable", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
	}}
	w.ok(w.Client.Create(w.t.Context(), d))
	if d = w.deployment("new", isReady); d.Status.ID != "4" {
		w.t.Errorf("the next deployment has id %s, want 4", d.Status.ID)
	}
	folder := w.call(w.admin, "POST", "/api/v1/deployments/2/folders", map[string]any{"name": "Second"})
	if id := w.field(folder, "id"); id != "2" {
		w.t.Errorf("the next folder has id %s, want 2", id)
	}
	owned := &corev1.SecretList{}
	w.ok(w.Client.List(w.t.Context(), owned))
	for _, s := range owned.Items {
		if s.Namespace == namespace && len(s.OwnerReferences) == 0 {
			w.t.Errorf("secret %s has no owner", s.Name)
		}
	}
}
