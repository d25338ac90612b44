package engine_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// hashes of the fixtures: of each environment, and of each of its components.
var hashes = map[string]string{
	"bucket":                   "0c0900847f780cd7",
	"bucket api":               "890c22ca17a823a1",
	"bucket refresh-worker":    "90c72f95f6b2d3d2",
	"bucket store-router":      "02e3108a0dbc15c1",
	"dedicated":                "a3b78099b9d0ec92",
	"dedicated api":            "890c22ca17a823a1",
	"dedicated refresh-worker": "90c72f95f6b2d3d2",
	"dedicated store-router":   "2d63adebab52f09a",
	"dedicated store-worker":   "5bc4009151ad50d3",
	"git":                      "54df7221faeee36c",
	"git api":                  "4aabd004782dbc06",
	"overrides":                "a603d5f992081ffe",
	"overrides api":            "0dca7c6eed515c9e",
	"shared":                   "b5dc50b7facbe9b9",
	"shared api":               "d7a49c03c3fa4e41",
	"staging":                  "7b61b4f02ecfaf09",
	"staging api":              "25936a6a1ca2c8ae",
}

// The hashes are in annotations of existing objects. A changed hash restarts all pods of the
// component in every cluster: make the new field omitempty instead.
func TestHashesAreStable(t *testing.T) {
	got := map[string]string{}
	for name, f := range cases() {
		in := f.inputs(t)
		got[name] = in.Hash()
		for _, obj := range engine.Render(in) {
			if _, ok := templateOf(obj); ok {
				got[name+" "+obj.GetLabels()["app.kubernetes.io/component"]] = obj.GetAnnotations()[v1alpha1.AnnotationInputs]
			}
		}
	}
	if diff := cmp.Diff(hashes, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// componentHashes returns the input hashes in the annotations of the workloads, by component.
func componentHashes(in engine.Inputs) map[string]string {
	out := map[string]string{}
	for _, obj := range engine.Render(in) {
		if _, ok := templateOf(obj); ok {
			out[obj.GetLabels()["app.kubernetes.io/component"]] = obj.GetAnnotations()[v1alpha1.AnnotationInputs]
		}
	}
	return out
}

// podTemplates returns the pod templates of the workloads, by component.
func podTemplates(in engine.Inputs) map[string]corev1.PodTemplateSpec {
	out := map[string]corev1.PodTemplateSpec{}
	for _, w := range templates(engine.Render(in)) {
		out[w.pod.Labels["app.kubernetes.io/component"]] = w.pod
	}
	return out
}

func TestRestartedComponents(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(f *fixture)
		restarts []string
	}{
		{"replicas", func(f *fixture) { f.deployment.Spec.Replicas = ptr.To[int32](7) }, nil},
		{"one replica", func(f *fixture) { f.deployment.Spec.Replicas = ptr.To[int32](1) }, nil},
		{"rollout deadline", func(f *fixture) {
			f.deployment.Spec.Rollout = &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: ptr.To[int32](60)}
		}, nil},
		{"gateway's namespace", func(f *fixture) { f.options.GatewayNamespace = "elsewhere" }, nil},
		{"data API address", func(f *fixture) { f.deployment.Spec.DataAPI = &v1alpha1.DataAPI{BasePath: "/v"} }, nil},
		{"poll interval", func(f *fixture) { f.deployment.Spec.Model.Git.Interval = nil }, nil},
		{"image", func(f *fixture) { f.environment.Spec.Image = "other" }, []string{"api", "refresh-worker"}},
		{"model commit", func(f *fixture) { f.environment.Spec.ModelCommit = "f" + commit[1:] }, []string{"api", "refresh-worker"}},
		{"variable", func(f *fixture) { f.deployment.Spec.Env[0].Value = ptr.To("mysql") }, []string{"api", "refresh-worker"}},
		{"store image", func(f *fixture) { f.environment.Spec.StoreImage = "other" }, []string{"store-router", "store-worker"}},
		{"store workers", func(f *fixture) { f.deployment.Spec.Store.Workers = ptr.To[int32](3) }, []string{"store-router", "store-worker"}},
		{"resources", func(f *fixture) {
			f.deployment.Spec.Resources = &v1alpha1.ComponentResources{StoreWorker: &v1alpha1.Resources{
				Requests: v1alpha1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			}}
		}, []string{"store-worker"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := dedicated().inputs(t)
			f := dedicated()
			tc.change(&f)
			after := f.inputs(t)
			want := map[string]bool{}
			for _, component := range tc.restarts {
				want[component] = true
			}
			hashesBefore, hashesAfter := componentHashes(before), componentHashes(after)
			podsBefore, podsAfter := podTemplates(before), podTemplates(after)
			for component := range podsBefore {
				if changed := hashesBefore[component] != hashesAfter[component]; changed != want[component] {
					t.Errorf("%s: hash changed: %v, want %v", component, changed, want[component])
				}
				if changed := !cmp.Equal(podsBefore[component], podsAfter[component]); changed != want[component] {
					t.Errorf("%s: pod template changed: %v, want %v", component, changed, want[component])
				}
			}
			if changed := before.Hash() != after.Hash(); changed != (len(want) > 0) {
				t.Errorf("Hash changed: %v, want %v", changed, len(want) > 0)
			}
		})
	}
}

// A new release of Quoin has another image, and so another revision for the same inputs: the
// controller keeps the pod template.
func TestQuoinImageChangesTheRevision(t *testing.T) {
	f := git()
	before := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
	f.options.QuoinImage = "ghcr.io/quoin-dev/quoin:v0.2.0"
	after := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
	if before.Annotations[v1alpha1.AnnotationInputs] != after.Annotations[v1alpha1.AnnotationInputs] {
		t.Error("the hash of the inputs depends on Quoin's image")
	}
	if before.Annotations[v1alpha1.AnnotationRevision] == after.Annotations[v1alpha1.AnnotationRevision] {
		t.Error("the same revision renders two pod templates from the same inputs")
	}
}

func TestInvalidFields(t *testing.T) {
	for _, tc := range []struct {
		name   string
		base   fixture
		change func(f *fixture)
		want   string
	}{
		{"dedicated without a store image", dedicated(), func(f *fixture) { f.environment.Spec.StoreImage = "" },
			"spec.size: Dedicated needs a store image, which the environment does not have; the conditions of the deployment name what is missing"},
		{"no model", shared(), func(f *fixture) { f.deployment.Spec.Model = v1alpha1.ModelSource{} },
			"spec.model: names no source; set git, repository or configMapRef"},
		{"empty config map", shared(), func(f *fixture) { f.files.Keys = nil },
			`spec.model.configMapRef: config map "sales-model" has no files under data; add at least one`},
		{"unsupported extension", shared(), func(f *fixture) { f.files.Keys = append(f.files.Keys, "README.md") },
			`spec.model.configMapRef: config map "sales-model" has the file "README.md"; names must end in .js, .yml, .yaml, .jinja or .py`},
		{"too many files", shared(), func(f *fixture) {
			for i := range 200 {
				f.files.Keys = append(f.files.Keys, fmt.Sprintf("cube-%d.yml", i))
			}
		}, `spec.model.configMapRef: config map "sales-model" has 202 files, more than 200; keep the model in Git`},
		{"request above limit", shared(), func(f *fixture) {
			f.deployment.Spec.Resources = &v1alpha1.ComponentResources{API: &v1alpha1.Resources{
				Requests: v1alpha1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
				Limits:   v1alpha1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
			}}
		}, "spec.resources.api.requests[memory]: 4Gi is more than the limit 2Gi; raise the limit"},
		{"volume and bucket", dedicated(), func(f *fixture) {
			f.deployment.Spec.Store.Env = append(f.deployment.Spec.Store.Env, v1alpha1.EnvVar{Name: "CUBESTORE_GCS_BUCKET", Value: ptr.To("b")})
		}, "spec.store.remoteClaimRef: has no effect beside CUBESTORE_GCS_BUCKET in spec.store.env; remove one of them"},
		{"workers without shared storage", dedicated(), func(f *fixture) { f.deployment.Spec.Store.RemoteClaimRef = nil },
			"spec.store.workers: need a place they share; set remoteClaimRef, or one of CUBESTORE_GCS_BUCKET, CUBESTORE_MINIO_BUCKET, CUBESTORE_S3_BUCKET in spec.store.env"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change(&tc.base)
			_, err := tc.base.read()
			var field *engine.FieldError
			if !errors.As(err, &field) {
				t.Fatalf("error %v is not a FieldError", err)
			}
			if diff := cmp.Diff(tc.want, field.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Errors that are not caused by a field of the deployment are no FieldErrors: they are retried.
func TestOtherErrorsAreNotFieldErrors(t *testing.T) {
	for name, change := range map[string]func(f *fixture){
		"no files":        func(f *fixture) { f.files = nil },
		"other ConfigMap": func(f *fixture) { f.files.ConfigMap = "other" },
		"other namespace": func(f *fixture) { f.account.Spec.Namespace = "other" },
		"no commit yet":   func(f *fixture) { *f = git(); f.environment.Spec.ModelCommit = "" },
	} {
		t.Run(name, func(t *testing.T) {
			f := shared()
			change(&f)
			_, err := f.read()
			var field *engine.FieldError
			if err == nil || errors.As(err, &field) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Every variable that the platform sets is reserved, except for three defaults.
func TestReservedVariables(t *testing.T) {
	reserved := []string{
		"CUBEJS_API_SECRET", "CUBEJS_API_SECRETS", "CUBEJS_CACHE_AND_QUEUE_DRIVER", "CUBEJS_CUBESTORE_HOST",
		"CUBEJS_CUBESTORE_PORT", "CUBEJS_DEV_MODE", "CUBEJS_GRACEFUL_SHUTDOWN", "CUBEJS_JWK_URL", "CUBEJS_JWT_ALGS",
		"CUBEJS_JWT_AUDIENCE", "CUBEJS_JWT_ISSUER", "CUBEJS_JWT_KEY", "CUBEJS_JWT_SUBJECT", "CUBEJS_PG_SQL_PORT",
		"CUBEJS_PLAYGROUND_AUTH_SECRET", "CUBEJS_PRE_AGGREGATIONS_BUILDER", "CUBEJS_REFRESH_WORKER", "CUBEJS_SCHEMA_PATH",
		"CUBEJS_SQL_PASSWORD", "CUBEJS_SQL_USER", "NODE_ENV", "PORT",
	}
	defaults := map[string]bool{"CUBEJS_DB_TYPE": true, "CUBEJS_TELEMETRY": true, "HOME": true}
	f := shared()
	f.deployment.Spec.Env = nil
	for _, pod := range podTemplates(f.inputs(t)) {
		for _, v := range pod.Spec.Containers[0].Env {
			if engine.ReservedVariable(v.Name) == defaults[v.Name] { // either reserved or a default
				t.Errorf("%s is set by the platform; reserved: %v", v.Name, !defaults[v.Name])
			}
		}
	}
	for _, name := range reserved {
		f.deployment.Spec.Env = []v1alpha1.EnvVar{{Name: name, Value: ptr.To("x")}}
		wantFieldError(t, f, "spec.env["+name+"]: is set by the platform; remove it")
	}
}

// TestDataSourceVariables: what dbt connects with, and under which names.
func TestDataSourceVariables(t *testing.T) {
	secret := func(name string) v1alpha1.EnvVar {
		return v1alpha1.EnvVar{Name: name, ValueFrom: &v1alpha1.EnvVarSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "k"}}}
	}
	d := &v1alpha1.Deployment{Spec: v1alpha1.DeploymentSpec{
		Env: []v1alpha1.EnvVar{
			{Name: "CUBEJS_DB_HOST", Value: ptr.To("$(HOME)")}, secret("CUBEJS_DB_PASS"), secret("DBT_ENV_SECRET_TOKEN"), {Name: "DBT_ENV_ROLE", Value: ptr.To("r")},
			{Name: "DBT_TARGET_PATH", Value: ptr.To("/etc")}, secret("OTHER"),
		},
		EnvFrom: []v1alpha1.LocalReference{{Name: "more"}},
	}}
	env, from := engine.DataSourceVariables(d, "DBT_ENV_SECRET_")
	got := ""
	for _, v := range env {
		got += v.Name + "=" + v.Value + " "
	}
	if got != "CUBEJS_DB_HOST=$$(HOME) DBT_ENV_SECRET_CUBEJS_DB_PASS= DBT_ENV_SECRET_TOKEN= DBT_ENV_ROLE=r " {
		t.Error(got)
	}
	if len(from) != 1 || from[0].Prefix != "DBT_ENV_SECRET_" || from[0].SecretRef.Name != "more" {
		t.Errorf("%+v", from)
	}
}

func TestReservedStoreVariables(t *testing.T) {
	for _, name := range []string{
		"CUBESTORE_BIND_ADDR", "CUBESTORE_DATA_DIR", "CUBESTORE_HTTP_BIND_ADDR", "CUBESTORE_HTTP_PORT", "CUBESTORE_META_ADDR",
		"CUBESTORE_META_BIND_ADDR", "CUBESTORE_META_PORT", "CUBESTORE_PORT", "CUBESTORE_REMOTE_DIR", "CUBESTORE_SERVER_NAME",
		"CUBESTORE_STATUS_BIND_ADDR", "CUBESTORE_STATUS_PORT", "CUBESTORE_WORKERS", "CUBESTORE_WORKER_BIND_ADDR",
		"CUBESTORE_WORKER_PORT", "POD_NAME",
	} {
		f := dedicated()
		f.deployment.Spec.Store.Env = []v1alpha1.EnvVar{{Name: name, Value: ptr.To("x")}}
		wantFieldError(t, f, "spec.store.env["+name+"]: is set by the platform; remove it")
	}
}

func wantFieldError(t *testing.T, f fixture, want string) {
	t.Helper()
	_, err := f.read()
	var field *engine.FieldError
	if !errors.As(err, &field) || field.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, quantity := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if quantity != "" {
				out[name] = resource.MustParse(quantity)
			}
		}
		return out
	}
	for _, tc := range []struct {
		name             string
		requests, limits corev1.ResourceList
		want             corev1.ResourceRequirements
	}{
		{"defaults", nil, nil, corev1.ResourceRequirements{Requests: list("250m", "512Mi"), Limits: list("", "3Gi")}},
		{"one of them", list("2", ""), nil, corev1.ResourceRequirements{Requests: list("2", "512Mi"), Limits: list("", "3Gi")}},
		{"request above the default limit", list("", "4Gi"), nil, corev1.ResourceRequirements{Requests: list("250m", "4Gi"), Limits: list("", "4Gi")}},
		{"limit below the default request", nil, list("100m", "256Mi"), corev1.ResourceRequirements{Requests: list("100m", "256Mi"), Limits: list("100m", "256Mi")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := shared()
			f.deployment.Spec.Resources = &v1alpha1.ComponentResources{API: &v1alpha1.Resources{
				Requests: v1alpha1.ResourceList(tc.requests), Limits: v1alpha1.ResourceList(tc.limits),
			}}
			got := podTemplates(f.inputs(t))["api"].Spec.Containers[0].Resources
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
