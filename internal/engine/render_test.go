package engine_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

var update = flag.Bool("update", false, "write the golden files; refused for one that changes while engine.Revision does not")

func templateOf(obj client.Object) (template, bool) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return template{o.Name, o.Spec.Selector, *o.Spec.Replicas, o.Spec.Template}, true
	case *appsv1.StatefulSet:
		return template{o.Name, o.Spec.Selector, *o.Spec.Replicas, o.Spec.Template}, true
	}
	return template{}, false
}

func TestGolden(t *testing.T) {
	header := fmt.Appendf(nil, "# Rendered by revision %s of the renderer.\n", engine.Revision)
	eachCase(t, func(t *testing.T, f fixture) {
		got := append(slices.Clone(header), document(t, engine.Render(f.inputs(t)))...)
		path := filepath.Join("testdata", strings.TrimPrefix(t.Name(), "TestGolden/")+".yaml")
		want, err := os.ReadFile(path)
		if err != nil && !*update {
			t.Fatal(err)
		}
		diff := cmp.Diff(string(want), string(got))
		switch {
		case diff == "":
			return
		case bytes.HasPrefix(want, header):
			t.Fatalf("equal inputs render different objects: increment engine.Revision (before the first release: remove the golden file) (-golden +rendered):\n%s", diff)
		case *update:
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("the golden file has another revision; review the difference, then run with -update (-golden +rendered):\n%s", diff)
		}
	})
}

// Objects have no empty fields, which server-side apply would own.
func TestNoEmptyFields(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		for line := range strings.Lines(string(document(t, engine.Render(f.inputs(t))))) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "- ")
			if strings.HasSuffix(line, ": null") || strings.HasSuffix(line, "[]") || strings.HasSuffix(line, `: ""`) ||
				(strings.HasSuffix(line, "{}") && line != "emptyDir: {}") {
				t.Errorf("empty field %q", line)
			}
		}
	})
}

func TestRenderIsDeterministic(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		want := f.inputs(t)
		first, second := document(t, engine.Render(want)), document(t, engine.Render(want))
		if diff := cmp.Diff(string(first), string(second)); diff != "" {
			t.Errorf("rendered twice (-first +second):\n%s", diff)
		}
		spec := &f.deployment.Spec
		slices.Reverse(spec.Env)
		slices.Reverse(spec.ImagePullSecrets)
		if spec.Store != nil {
			slices.Reverse(spec.Store.Env)
		}
		if f.files != nil {
			slices.Reverse(f.files.Keys)
		}
		before := f.deployment.DeepCopy()
		shuffled := f.inputs(t)
		if diff := cmp.Diff(string(first), string(document(t, engine.Render(shuffled)))); diff != "" {
			t.Errorf("shuffled (-before +after):\n%s", diff)
		}
		if want.Hash() != shuffled.Hash() {
			t.Errorf("hash %s, shuffled %s", want.Hash(), shuffled.Hash())
		}
		if diff := cmp.Diff(before, f.deployment); diff != "" {
			t.Errorf("the deployment was modified (-before +after):\n%s", diff)
		}
	})
}

// Selectors are immutable on existing objects, so the test has them as literals.
func TestSelectors(t *testing.T) {
	objects := engine.Render(dedicated().inputs(t))
	want := map[string]map[string]string{
		"sales-production-api":     {"app.kubernetes.io/instance": "sales-production", "app.kubernetes.io/component": "api"},
		"sales-production-refresh": {"app.kubernetes.io/instance": "sales-production", "app.kubernetes.io/component": "refresh-worker"},
		"sales-production-router":  {"app.kubernetes.io/instance": "sales-production", "app.kubernetes.io/component": "store-router"},
		"sales-production-worker":  {"app.kubernetes.io/instance": "sales-production", "app.kubernetes.io/component": "store-worker"},
	}
	workloads, services, policies := map[string]map[string]string{}, map[string]map[string]string{}, map[string]map[string]string{}
	for _, obj := range objects {
		if w, ok := templateOf(obj); ok {
			workloads[w.name] = w.selector.MatchLabels
			for key, value := range w.selector.MatchLabels {
				if w.pod.Labels[key] != value {
					t.Errorf("%s does not select its own pods: %s", w.name, key)
				}
			}
		}
		switch o := obj.(type) {
		case *corev1.Service:
			services[o.Name] = o.Spec.Selector
		case *networkingv1.NetworkPolicy:
			policies[o.Name] = o.Spec.PodSelector.MatchLabels
		}
	}
	if diff := cmp.Diff(want, workloads); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, policies); diff != "" {
		t.Errorf("network policies (-want +got):\n%s", diff)
	}
	delete(want, "sales-production-refresh") // has no Service
	if diff := cmp.Diff(want, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if got, want := engine.Selector("sales-production"), "app.kubernetes.io/component=api,app.kubernetes.io/instance=sales-production"; got != want {
		t.Errorf("Selector = %q, want %q", got, want)
	}
}

func TestWorkloads(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		in := f.inputs(t)
		var rendered []engine.Workload
		for _, obj := range engine.Render(in) {
			if _, ok := templateOf(obj); ok {
				rendered = append(rendered, engine.Workload{Kind: obj.GetObjectKind().GroupVersionKind().Kind, Name: obj.GetName()})
			}
		}
		if diff := cmp.Diff(rendered, engine.Workloads(in)); diff != "" {
			t.Errorf("(-rendered +Workloads):\n%s", diff)
		}
	})
}

func TestObjectsAreComplete(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		for _, obj := range engine.Render(f.inputs(t)) {
			kind := obj.GetObjectKind().GroupVersionKind()
			if kind.Kind == "" || kind.Version == "" {
				t.Errorf("%T %s has no kind", obj, obj.GetName())
			}
			if obj.GetNamespace() != "acme" || len(obj.GetOwnerReferences()) > 0 {
				t.Errorf("%T %s: namespace %q, owners %v", obj, obj.GetName(), obj.GetNamespace(), obj.GetOwnerReferences())
			}
			l := obj.GetLabels()
			if l[v1alpha1.LabelDeployment] != "sales" || l[v1alpha1.LabelEnvironment] != f.environment.Name {
				t.Errorf("%T %s: labels %v", obj, obj.GetName(), l)
			}
			if _, ok := templateOf(obj); ok == (obj.GetAnnotations()[v1alpha1.AnnotationInputs] == "") {
				t.Errorf("%T %s: annotations %v", obj, obj.GetName(), obj.GetAnnotations())
			}
		}
	})
}

func TestStagingIsShared(t *testing.T) {
	for _, kind := range []v1alpha1.EnvironmentType{v1alpha1.EnvironmentStaging, v1alpha1.EnvironmentDevelopment} {
		f := staging()
		f.environment.Spec.Type = kind
		f.environment.Spec.StoreImage = ""
		in := f.inputs(t)
		if in.Dedicated() || in.Replicas != 1 {
			t.Errorf("%s: dedicated %v, %d replicas", kind, in.Dedicated(), in.Replicas)
		}
	}
}

// TestConfigurationInConfigMap: the server reads its configuration from its working directory, and would take one in the
// folder of the model for a part of it.
func TestConfigurationInConfigMap(t *testing.T) {
	f := shared()
	f.files.Keys = []string{"cube.js", "cube.py", "orders.js"}
	api := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
	mounted := map[string]string{}
	for _, m := range api.Spec.Template.Spec.Containers[0].VolumeMounts {
		mounted[m.SubPath] = m.MountPath
	}
	delete(mounted, "")
	want := map[string]string{"cube.js": "/cube/conf/cube.js", "cube.py": "/cube/conf/cube.py", "orders.js": "/cube/conf/model/orders.js"}
	if diff := cmp.Diff(want, mounted); diff != "" {
		t.Error(diff)
	}
}

func TestReplicas(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fixture fixture
		set     *int32
		want    int32
		budget  bool
	}{
		{"shared", shared(), nil, 1, false},
		{"shared, 3", shared(), ptr.To[int32](3), 3, true},
		{"shared, none", shared(), ptr.To[int32](0), 0, false},
		{"dedicated", dedicated(), nil, 2, true},
		{"dedicated, 1", dedicated(), ptr.To[int32](1), 1, false},
		{"staging, 5", staging(), ptr.To[int32](5), 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.fixture.deployment.Spec.Replicas = tc.set
			objects := engine.Render(tc.fixture.inputs(t))
			name := engine.APIName(tc.fixture.environment.Name)
			if got := *find[*appsv1.Deployment](t, objects, name).Spec.Replicas; got != tc.want {
				t.Errorf("%d replicas, want %d", got, tc.want)
			}
			budget := slices.ContainsFunc(objects, func(o client.Object) bool { _, ok := o.(*policyv1.PodDisruptionBudget); return ok })
			if budget != tc.budget {
				t.Errorf("disruption budget %v, want %v", budget, tc.budget)
			}
		})
	}
}

// TestBrokenPodsDoNotBlockDrains: pods that are not ready can be evicted although too few others are.
func TestBrokenPodsDoNotBlockDrains(t *testing.T) {
	f := dedicated()
	budget := find[*policyv1.PodDisruptionBudget](t, engine.Render(f.inputs(t)), engine.APIName(f.environment.Name))
	if got := ptr.Deref(budget.Spec.UnhealthyPodEvictionPolicy, ""); got != policyv1.AlwaysAllow {
		t.Errorf("the policy is %q", got)
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 50)
	seen := map[string]bool{}
	for _, name := range []string{"a", "sales-production", strings.Repeat("d", 32) + "-production", long, long[:49] + "b", long[:48] + "-b"} {
		for _, got := range []string{
			engine.APIName(name), engine.RefreshName(name), engine.StoreRouterName(name), engine.StoreWorkerName(name),
		} {
			if len(got) > 52 || seen[got] || len(validation.IsDNS1123Label(got)) > 0 {
				t.Errorf("%q results in %q (%d characters, duplicate: %v)", name, got, len(got), seen[got])
			}
			seen[got] = true
		}
		for _, got := range []string{engine.CredentialsName(name), engine.GatewayCredentialsName(name)} {
			if len(got) > 63 {
				t.Errorf("%q results in %q", name, got)
			}
		}
	}
	if got, want := engine.APIName("sales-production"), "sales-production-api"; got != want {
		t.Errorf("APIName = %q, want %q", got, want)
	}
}

func TestGracePeriodCoversShutdown(t *testing.T) {
	api := find[*appsv1.Deployment](t, engine.Render(shared().inputs(t)), "sales-production-api")
	container := api.Spec.Template.Spec.Containers[0]
	var shutdown int64
	if _, err := fmt.Sscan(variable(t, container, "CUBEJS_GRACEFUL_SHUTDOWN").Value, &shutdown); err != nil {
		t.Fatal(err)
	}
	// The server exits one second after its graceful shutdown.
	required := container.Lifecycle.PreStop.Sleep.Seconds + shutdown + 1
	if period := *api.Spec.Template.Spec.TerminationGracePeriodSeconds; required >= period {
		t.Errorf("requires %d seconds, grace period is %d", required, period)
	}
	if api.Spec.MinReadySeconds >= 5 {
		t.Errorf("minReadySeconds %d is not below the shortest progress deadline", api.Spec.MinReadySeconds)
	}
}
