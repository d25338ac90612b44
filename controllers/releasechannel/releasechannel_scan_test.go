package releasechannel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/registry"
)

// images is a registry in memory, with digests by repository and tag.
type images struct {
	mu    sync.Mutex
	repos map[string]map[string]string
	errs  map[string]error
	// read are the tags whose digests were requested since the last scan.
	read []string
}

func (i *images) Tags(_ context.Context, repository string) ([]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.errs[repository]; err != nil {
		return nil, err
	}
	var tags []string
	for tag := range i.repos[repository] {
		tags = append(tags, tag)
	}
	return tags, nil
}

func (i *images) Digests(_ context.Context, repository string, tags []string, _ int) (map[string]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	digests := map[string]string{}
	for _, tag := range tags {
		i.read = append(i.read, repository[strings.LastIndex(repository, "/")+1:]+":"+tag)
		digests[tag] = i.repos[repository][tag]
	}
	return digests, i.errs["digests"]
}

func (i *images) CloseIdleConnections() {}

// fixture is a channel and its reconciler.
type fixture struct {
	t          *testing.T
	api        client.WithWatch
	clock      *clocktesting.FakePassiveClock
	options    Options
	connection registry.Options
}

func newFixture(t *testing.T, c *v1alpha1.ReleaseChannel, reg Registry, objs ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &fixture{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), options: Options{Namespace: "quoin-system"}}
	if reg != nil {
		w.options.Connect = func(o registry.Options) (Registry, error) { w.connection = o; return reg, nil }
	}
	c.Name, c.Generation = "stable", 1
	w.api = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.ReleaseChannel{}).WithObjects(append(objs, c)...).Build()
	return w
}

// scan reconciles the channel a minute after the previous scan, and returns it.
func (w *fixture) scan() (*v1alpha1.ReleaseChannel, ctrl.Result) {
	w.t.Helper()
	w.clock.SetTime(w.clock.Now().Add(time.Minute))
	r := New(kube.NewClient(w.api, w.api, "quoin-test"), events.NewFakeRecorder(10), w.clock, w.options)
	key := client.ObjectKey{Name: "stable"}
	result, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.t.Fatal(err)
	}
	c := &v1alpha1.ReleaseChannel{}
	if err := w.api.Get(w.t.Context(), key, c); err != nil {
		w.t.Fatal(err)
	}
	return c, result
}

// expectReady checks the Ready condition of a channel.
func expectReady(t *testing.T, c *v1alpha1.ReleaseChannel, want, part string) {
	t.Helper()
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || string(ready.Status)+" "+ready.Reason != want || !strings.Contains(ready.Message, part) {
		t.Errorf("condition %+v; want %s: …%s…", ready, want, part)
	}
}

func offered(c *v1alpha1.ReleaseChannel) []string {
	var all []string
	for _, v := range c.Status.Versions {
		all = append(all, v.Version+" "+v.Digest)
	}
	return all
}

func following(change ...func(spec *v1alpha1.ReleaseChannelSpec)) *v1alpha1.ReleaseChannel {
	c := &v1alpha1.ReleaseChannel{Spec: v1alpha1.ReleaseChannelSpec{ImageRepository: repository}}
	for _, f := range change {
		f(&c.Spec)
	}
	return c
}

// TestScanReadsUnknownDigests and that of the newest version.
func TestScanReadsUnknownDigests(t *testing.T) {
	reg := &images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3", "v1.2.4": "sha256:4", "latest": "sha256:9"}}}
	w := newFixture(t, following(), reg)
	for _, step := range []struct {
		do              func()
		versions, reads []string
		latest          string
		ready, part     string
		changed         bool
	}{
		{func() {}, []string{"1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.3", "cube:v1.2.4"}, "1.2.4", "True Succeeded", "1.2.4", true},
		{func() {}, []string{"1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.4"}, "1.2.4", "True Succeeded", "1.2.4", false},
		{func() { reg.repos[repository]["v1.2.5"] = "sha256:5" }, []string{"1.2.5 sha256:5", "1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.5"}, "1.2.5", "True Succeeded", "1.2.5", true},
		{func() { reg.repos[repository]["v1.2.5"] = "sha256:6" }, []string{"1.2.5 sha256:5", "1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.5"}, "1.2.5", "True DigestChanged", "v1.2.5 was pushed again", false},
		{func() { reg.errs = map[string]error{repository: errors.New("connection refused")} }, []string{"1.2.5 sha256:5", "1.2.4 sha256:4", "1.2.3 sha256:3"}, nil, "1.2.5", "False ScanFailed", "connection refused; the list of the last successful scan is kept", false},
		{func() { reg.errs = map[string]error{"digests": errors.New("too slow")} }, []string{"1.2.5 sha256:5", "1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.5"}, "1.2.5", "False ScanFailed", "too slow", false},
		{func() { reg.errs = nil; delete(reg.repos[repository], "v1.2.5") }, []string{"1.2.4 sha256:4", "1.2.3 sha256:3"}, []string{"cube:v1.2.4"}, "1.2.4", "True Succeeded", "1.2.4", true},
	} {
		before := w.clock.Now()
		step.do()
		reg.read = nil
		c, _ := w.scan()
		slices.Sort(reg.read)
		if diff := cmp.Diff(step.versions, offered(c)); diff != "" {
			t.Errorf("versions (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(step.reads, reg.read); diff != "" {
			t.Errorf("digests that were read (-want +got):\n%s", diff)
		}
		expectReady(t, c, step.ready, step.part)
		if c.Status.LatestVersion != step.latest || c.Status.LastChangeTime.After(before) != step.changed {
			t.Errorf("latest %s, changed %s; want %s", c.Status.LatestVersion, c.Status.LastChangeTime, step.latest)
		}
	}
}

func TestScanOfAnExplicitList(t *testing.T) {
	reg := &images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3", "v1.2.4": "sha256:4", "v9.0.0": "sha256:9"}}}
	w := newFixture(t, following(func(spec *v1alpha1.ReleaseChannelSpec) {
		spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.3"}, {Version: "1.2.4", Digest: "sha256:given"}, {Version: "1.2.6"}, {Version: "1.2.5"}}
	}), reg)
	c, _ := w.scan()
	if diff := cmp.Diff([]string{"1.2.4 sha256:given", "1.2.3 sha256:3"}, offered(c)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	expectReady(t, c, "True Succeeded", "not in the repository: [1.2.5 1.2.6]")
	if diff := cmp.Diff([]string{"cube:v1.2.3"}, reg.read); diff != "" {
		t.Errorf("digests that were read (-want +got):\n%s", diff)
	}
}

// TestListWithDigestsNeedsNoRegistry: neither for the versions nor for images of the store that are known or specified, and
// images that are not known are read later.
func TestListWithDigestsNeedsNoRegistry(t *testing.T) {
	down := errors.New("connection refused")
	list := func(stores ...string) func(*v1alpha1.ReleaseChannelSpec) {
		return func(spec *v1alpha1.ReleaseChannelSpec) {
			spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.3", Digest: "sha256:3"}, {Version: "1.2.4", Digest: "sha256:4"}}
			for i, digest := range stores {
				spec.StoreImageRepository, spec.Versions[i].StoreDigest = store, digest
			}
		}
	}
	unreadable := func(spec *v1alpha1.ReleaseChannelSpec) {
		spec.PullSecretRef = &v1alpha1.LocalReference{Name: "missing"}
	}
	for name, tc := range map[string]struct {
		change      []func(*v1alpha1.ReleaseChannelSpec)
		want, part  string
		connections int
		stores      []string
	}{
		"no store":                 {[]func(*v1alpha1.ReleaseChannelSpec){list()}, "True Succeeded", "1.2.4", 0, []string{"", ""}},
		"no store, no pull secret": {[]func(*v1alpha1.ReleaseChannelSpec){list(), unreadable}, "True Succeeded", "1.2.4", 0, []string{"", ""}},
		"specified stores":         {[]func(*v1alpha1.ReleaseChannelSpec){list("sha256:s3", "sha256:s4")}, "True Succeeded", "1.2.4", 0, []string{store + ":v1.2.4@sha256:s4", store + ":v1.2.3@sha256:s3"}},
		"one store is not known":   {[]func(*v1alpha1.ReleaseChannelSpec){list("sha256:s3", "")}, "True StoreScanFailed", "Newest version is 1.2.4; images of the store that are not known could not be read: connection refused", 1, []string{"", store + ":v1.2.3@sha256:s3"}},
		"a store, no pull secret":  {[]func(*v1alpha1.ReleaseChannelSpec){list(""), unreadable}, "True StoreScanFailed", `"missing" in namespace "quoin-system" does not exist`, 0, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			reg, connections := &images{errs: map[string]error{repository: down, store: down}}, 0
			w := newFixture(t, following(tc.change...), nil)
			w.options.Connect = func(registry.Options) (Registry, error) { connections++; return reg, nil }
			c, result := w.scan()
			expectReady(t, c, tc.want, tc.part)
			if diff := cmp.Diff([]string{"1.2.4 sha256:4", "1.2.3 sha256:3"}, offered(c)); diff != "" || c.Status.LatestVersion != "1.2.4" {
				t.Errorf("latest %s, versions (-want +got):\n%s", c.Status.LatestVersion, diff)
			}
			if diff := cmp.Diff(tc.stores, storeImages(c)); diff != "" || connections != tc.connections {
				t.Errorf("%d connections, store images (-want +got):\n%s", connections, diff)
			}
			if complete := tc.want == "True Succeeded"; complete == (result.RequeueAfter == retryInterval) {
				t.Errorf("requeued after %s", result.RequeueAfter)
			}
		})
	}
	t.Run("the store is read when the registry is back", func(t *testing.T) {
		reg := &images{repos: map[string]map[string]string{store: {"v1.2.4": "sha256:s4", "v1.2.3": "sha256:s3"}}, errs: map[string]error{repository: down}}
		w := newFixture(t, following(list("")), reg)
		for range 2 {
			c, _ := w.scan()
			expectReady(t, c, "True Succeeded", "1.2.4")
			if diff := cmp.Diff([]string{store + ":v1.2.4@sha256:s4", store + ":v1.2.3@sha256:s3"}, storeImages(c)); diff != "" {
				t.Errorf("store images (-want +got):\n%s", diff)
			}
			reg.errs[store] = down // all are known
		}
	})
}

func storeImages(c *v1alpha1.ReleaseChannel) []string {
	var all []string
	for _, v := range c.Status.Versions {
		all = append(all, v.StoreImage)
	}
	return all
}

func TestScanOfTheStore(t *testing.T) {
	reg := &images{repos: map[string]map[string]string{
		repository: {"v1.2.3": "sha256:3", "v1.2.4": "sha256:4"}, store: {"v1.2.3": "sha256:s3", "v1.2.2": "sha256:s2"},
	}}
	w := newFixture(t, following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.StoreImageRepository = store }), reg)
	stores := func() []string {
		reg.read = nil
		c, _ := w.scan()
		return storeImages(c)
	}
	if diff := cmp.Diff([]string{"", store + ":v1.2.3@sha256:s3"}, stores()); diff != "" {
		t.Errorf("store images (-want +got):\n%s", diff)
	}
	reg.repos[store]["v1.2.4"], reg.repos[store]["v1.2.3"] = "sha256:s4", "sha256:pushed-again"
	if diff := cmp.Diff([]string{store + ":v1.2.4@sha256:s4", store + ":v1.2.3@sha256:s3"}, stores()); diff != "" {
		t.Errorf("store images (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cube:v1.2.4", "cubestore:v1.2.4"}, reg.read); diff != "" {
		t.Errorf("digests that were read (-want +got):\n%s", diff)
	}
	reg.errs = map[string]error{store: errors.New("connection refused")}
	reg.repos[repository]["v1.2.5"] = "sha256:5"
	c, _ := w.scan()
	expectReady(t, c, "False ScanFailed", "connection refused")
	if c.Status.LatestVersion != "1.2.4" {
		t.Errorf("an incomplete scan is recorded: %s", c.Status.LatestVersion)
	}
}

// TestScanWithoutVersions names the selection in the message.
func TestScanWithoutVersions(t *testing.T) {
	cases := map[string]struct {
		channel *v1alpha1.ReleaseChannel
		reg     *images
		want    string
		part    string
	}{
		"empty repository":   {following(), &images{}, "False NoVersions", "no tag of " + repository + " is a version that matches the channel (spec.policy: every release)"},
		"missing repository": {following(), &images{errs: map[string]error{repository: registry.ErrNotFound}}, "False ScanFailed", "not found"},
		"nothing in range": {following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.Policy = &v1alpha1.VersionPolicy{Range: ">=2"} }),
			&images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3"}}}, "False NoVersions", "(spec.policy: >=2)"},
		"malformed range": {following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.Policy = &v1alpha1.VersionPolicy{Range: "newest"} }),
			&images{}, "False InvalidPolicy", "spec.policy.range: "},
		"malformed version": {following(func(spec *v1alpha1.ReleaseChannelSpec) {
			spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.3-01"}}
		}),
			&images{}, "False InvalidPolicy", "spec.versions: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := newFixture(t, tc.channel, tc.reg).scan()
			expectReady(t, c, tc.want, tc.part)
			if c.Status.LatestVersion != "" || len(c.Status.Versions) != 0 {
				t.Errorf("versions %v", offered(c))
			}
		})
	}
}

func TestSuspendedChannelIsNotScanned(t *testing.T) {
	reg := &images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3"}}}
	c := following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.Suspend = ptr.To(true) })
	c.Status.Versions, c.Status.LatestVersion = []v1alpha1.ChannelVersion{{Version: "1.2.2", Image: repository + ":v1.2.2", Digest: "sha256:2"}}, "1.2.2"
	got, result := newFixture(t, c, reg).scan()
	expectReady(t, got, "True Suspended", "the list is kept")
	if result.RequeueAfter != 0 || len(reg.read) != 0 || got.Status.LatestVersion != "1.2.2" {
		t.Errorf("requeued after %s, read %v, latest %s", result.RequeueAfter, reg.read, got.Status.LatestVersion)
	}
}

// TestScanInterval: scans have jitter, and failed scans are retried sooner.
func TestScanInterval(t *testing.T) {
	every := func(d time.Duration) func(*v1alpha1.ReleaseChannelSpec) {
		return func(spec *v1alpha1.ReleaseChannelSpec) { spec.Interval = &metav1.Duration{Duration: d} }
	}
	down := map[string]error{repository: errors.New("connection refused")}
	cases := map[string]struct {
		channel *v1alpha1.ReleaseChannel
		errs    map[string]error
		least   time.Duration
	}{
		"default":                  {following(), nil, 5 * time.Minute},
		"spec.interval":            {following(every(time.Hour)), nil, time.Hour},
		"failed":                   {following(), down, time.Minute},
		"failed, shorter interval": {following(every(time.Second)), down, time.Second},
		"failed, longer interval":  {following(every(time.Hour)), down, time.Minute},
		"missing repository":       {following(every(time.Hour)), map[string]error{repository: registry.ErrNotFound}, time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reg := &images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3"}}, errs: tc.errs}
			_, result := newFixture(t, tc.channel, reg).scan()
			if most := tc.least + tc.least/10; result.RequeueAfter < tc.least || result.RequeueAfter > most {
				t.Errorf("requeued after %s; want %s to %s", result.RequeueAfter, tc.least, most)
			}
		})
	}
}

// TestUnusablePullSecretIsReported with its name and the problem, but not its content.
func TestUnusablePullSecretIsReported(t *testing.T) {
	secret := func(key, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "quoin-system", Name: "pull"}, Data: map[string][]byte{key: []byte(value)}}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "pull", errors.New("rbac"))
	named := `spec.pullSecretRef: secret "pull" in namespace "quoin-system" `
	cases := map[string]struct {
		secret     *corev1.Secret
		err        error
		want, part string
	}{
		"missing":         {nil, nil, "False PullSecretUnreadable", named + "does not exist"},
		"other namespace": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "pull"}}, nil, "False PullSecretUnreadable", named + "does not exist"},
		"forbidden":       {nil, forbidden, "False PullSecretUnreadable", named + "may not be read by the controller"},
		"wrong type":      {secret("password", "hunter2"), nil, "False PullSecretUnreadable", named + `has no key ".dockerconfigjson"; it must be of type kubernetes.io/dockerconfigjson`},
		"not JSON":        {secret(corev1.DockerConfigJsonKey, "hunter2"), nil, "False PullSecretUnreadable", named + "cannot be used: "},
		"wrong entry":     {secret(corev1.DockerConfigJsonKey, `{"auths":{"registry.example.com":{"password":"hunter2"}}}`), nil, "False PullSecretUnreadable", `auths["registry.example.com"].username: is missing`},
		"unavailable":     {nil, errors.New("connection refused"), "False ScanFailed", "read pull secret: connection refused"},
		"valid":           {secret(corev1.DockerConfigJsonKey, `{"auths":{"registry.example.com":{"username":"ci","password":"hunter2"}}}`), nil, "True Succeeded", "1.2.3"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			reg := &images{repos: map[string]map[string]string{repository: {"v1.2.3": "sha256:3"}}}
			var objs []client.Object
			if tc.secret != nil {
				objs = append(objs, tc.secret)
			}
			w := newFixture(t, following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.PullSecretRef = &v1alpha1.LocalReference{Name: "pull"} }), reg, objs...)
			if tc.err != nil {
				w.api = interceptor.NewClient(w.api, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
						if _, ok := obj.(*corev1.Secret); ok {
							return tc.err
						}
						return c.Get(ctx, key, obj, opts...)
					},
				})
			}
			c, _ := w.scan()
			expectReady(t, c, tc.want, tc.part)
			if text := fmt.Sprint(c.Status); strings.Contains(text, "hunter2") {
				t.Errorf("the status contains the secret: %s", text)
			}
			if usable := tc.want == "True Succeeded"; usable != (w.connection.Keychain != nil) {
				t.Errorf("options %+v", w.connection)
			}
		})
	}
}

// TestRegistryOptions follow from the spec.
func TestRegistryOptions(t *testing.T) {
	cases := map[string]struct {
		change func(spec *v1alpha1.ReleaseChannelSpec)
		want   registry.Options
	}{
		"default":     {func(*v1alpha1.ReleaseChannelSpec) {}, registry.Options{}},
		"insecure":    {func(spec *v1alpha1.ReleaseChannelSpec) { spec.Insecure = ptr.To(true) }, registry.Options{PlainHTTP: true}},
		"secure":      {func(spec *v1alpha1.ReleaseChannelSpec) { spec.Insecure = ptr.To(false) }, registry.Options{}},
		"on loopback": {func(spec *v1alpha1.ReleaseChannelSpec) { spec.ImageRepository = "127.0.0.1:5000/cube" }, registry.Options{PlainHTTP: true}},
		"private CA":  {func(spec *v1alpha1.ReleaseChannelSpec) { spec.CABundle = "PEM" }, registry.Options{CABundle: []byte("PEM")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, following(tc.change), &images{})
			w.scan()
			if w.connection.PlainHTTP != tc.want.PlainHTTP || string(w.connection.CABundle) != string(tc.want.CABundle) || w.connection.Keychain != nil {
				t.Errorf("options %+v, want %+v", w.connection, tc.want)
			}
		})
	}
	t.Run("malformed CA", func(t *testing.T) {
		c, _ := newFixture(t, following(func(spec *v1alpha1.ReleaseChannelSpec) { spec.CABundle = "none" }), nil).scan()
		expectReady(t, c, "False InvalidSpec", "spec.caBundle: ")
	})
}

// distribution is a CNCF distribution registry on loopback. After stop, start restarts it at the
// same address with the same content.
type distribution struct {
	t            *testing.T
	binary, host string
	config       string
	stop         func()
}

func newDistribution(t *testing.T) *distribution {
	t.Helper()
	binary := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "registry")
	if path := os.Getenv("QUOIN_REGISTRY_BINARY"); path != "" {
		binary = path
	}
	if os.Getenv("KUBEBUILDER_ASSETS")+os.Getenv("QUOIN_REGISTRY_BINARY") == "" || exec.Command(binary, "--version").Run() != nil {
		t.Skip("SKIPPED: NO REAL REGISTRY: $KUBEBUILDER_ASSETS/registry does not exist; run bin/localcluster binaries --nodes simulated")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host, dir := listener.Addr().String(), t.TempDir()
	listener.Close()
	d := &distribution{t: t, binary: binary, host: host, config: filepath.Join(dir, "config.yml")}
	config := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/data}, delete: {enabled: true}}\nhttp: {addr: %s}\n", dir, host)
	if err := os.WriteFile(d.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	t.Cleanup(func() { d.stop() })
	return d
}

func (d *distribution) start() {
	d.t.Helper()
	var output bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, d.binary, "serve", d.config)
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.stop = sync.OnceFunc(func() { cancel(); _ = cmd.Wait() })
	for range 400 {
		conn, err := net.DialTimeout("tcp", d.host, time.Second)
		if err == nil {
			conn.Close()
			return
		}
		time.Sleep(25 * time.Millisecond) // polled, because another process listens
	}
	d.stop()
	d.t.Fatalf("the registry does not listen: %s", output.String())
}

// push pushes an image with random content and returns its digest.
func (d *distribution) push(ref string) string {
	d.t.Helper()
	image, err := random.Image(64, 1)
	if err != nil {
		d.t.Fatal(err)
	}
	tag, err := name.NewTag(d.host + "/" + ref)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		d.t.Fatal(err)
	}
	return digest(d.t, image)
}

func digest(t *testing.T, image v1.Image) string {
	t.Helper()
	hash, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return hash.String()
}

// TestRealRegistry: pushed versions are listed, and the list is kept while the registry is down.
func TestRealRegistry(t *testing.T) {
	d := newDistribution(t)
	channel := following(func(spec *v1alpha1.ReleaseChannelSpec) {
		spec.ImageRepository, spec.StoreImageRepository = d.host+"/demo/cube", d.host+"/demo/cubestore"
	})
	w := newFixture(t, channel, nil)
	d.push("demo/cubestore:v1.0.0")
	c, _ := w.scan()
	expectReady(t, c, "False ScanFailed", "repository demo/cube: not found")

	first := d.push("demo/cube:v1.2.3")
	d.push("demo/cube:latest")
	c, _ = w.scan()
	expectReady(t, c, "True Succeeded", "1.2.3")
	if diff := cmp.Diff([]string{"1.2.3 " + first}, offered(c)); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}

	second, stored := d.push("demo/cube:v1.2.4"), d.push("demo/cubestore:v1.2.4")
	want := []string{"1.2.4 " + second, "1.2.3 " + first}
	c, _ = w.scan()
	if diff := cmp.Diff(want, offered(c)); diff != "" {
		t.Errorf("after a push (-want +got):\n%s", diff)
	}
	if got := c.Status.Versions[0].StoreImage; got != d.host+"/demo/cubestore:v1.2.4@"+stored {
		t.Errorf("store image %q", got)
	}

	d.push("demo/cube:v1.2.4")
	c, _ = w.scan()
	expectReady(t, c, "True DigestChanged", "v1.2.4")
	if diff := cmp.Diff(want, offered(c)); diff != "" {
		t.Errorf("after a push of the same tag (-want +got):\n%s", diff)
	}

	d.stop()
	c, _ = w.scan()
	expectReady(t, c, "False ScanFailed", "connection refused; the list of the last successful scan is kept")
	if diff := cmp.Diff(want, offered(c)); diff != "" {
		t.Errorf("while the registry is down (-want +got):\n%s", diff)
	}
	d.start()
	c, _ = w.scan()
	expectReady(t, c, "True DigestChanged", "v1.2.4")
}
