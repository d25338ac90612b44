package engine_test

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Values of the fixtures. Golden files and hashes depend on them.
const (
	image      = "registry.example.com/cube@sha256:1111111111111111111111111111111111111111111111111111111111111111"
	storeImage = "registry.example.com/cubestore@sha256:2222222222222222222222222222222222222222222222222222222222222222"
	commit     = "0123456789abcdef0123456789abcdef01234567"
)

var options = engine.Options{QuoinImage: "ghcr.io/quoin-dev/quoin:v0.1.0", GatewayNamespace: "quoin-system", WarmUp: true}

// fixture holds the objects that an environment is rendered from.
type fixture struct {
	account     *v1alpha1.Account
	deployment  *v1alpha1.Deployment
	environment *v1alpha1.Environment
	files       *engine.ModelFiles
	options     engine.Options
}

func (f fixture) inputs(t *testing.T) engine.Inputs {
	t.Helper()
	in, err := f.read()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func (f fixture) read() (engine.Inputs, error) {
	return engine.InputsFor(f.account, f.deployment, f.environment, f.files, f.options)
}

// shared returns a production environment of size Shared whose model is in a ConfigMap.
func shared() fixture {
	return fixture{
		account: &v1alpha1.Account{
			ObjectMeta: metav1.ObjectMeta{Name: "acme"},
			Spec:       v1alpha1.AccountSpec{Namespace: "acme", Host: "acme.example.com"},
		},
		deployment: &v1alpha1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales"},
			Spec: v1alpha1.DeploymentSpec{
				ReleaseChannel: "stable",
				Model:          v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "sales-model"}},
				Env: []v1alpha1.EnvVar{
					{Name: "CUBEJS_DB_TYPE", Value: ptr.To("postgres")},
					{Name: "CUBEJS_DB_PASS", ValueFrom: &v1alpha1.EnvVarSource{
						SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "password"},
					}},
				},
			},
		},
		environment: &v1alpha1.Environment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "sales-production"},
			Spec: v1alpha1.EnvironmentSpec{
				DeploymentRef: v1alpha1.LocalReference{Name: "sales"},
				Type:          v1alpha1.EnvironmentProduction,
				Version:       "1.6.60",
				Image:         image,
			},
		},
		files: &engine.ModelFiles{
			ConfigMap:   "sales-model",
			Keys:        []string{"orders.yml", "customers.yml"},
			ContentHash: "3333333333333333",
		},
		options: options,
	}
}

// git returns a production environment of size Shared whose model is in a private repository.
func git() fixture {
	f := shared()
	f.files = nil
	f.deployment.Spec.Model = v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
		URL: "https://git.example.com/team/model.git", Branch: "main", Path: "cube/model",
		SecretRef: &v1alpha1.LocalReference{Name: "git"},
	}}
	f.environment.Spec.ModelCommit = commit
	return f
}

// dedicated returns a production environment of size Dedicated, with three API pods, two store
// workers and a volume.
func dedicated() fixture {
	f := git()
	f.deployment.Spec.Size = v1alpha1.SizeDedicated
	f.deployment.Spec.Replicas = ptr.To[int32](3)
	f.deployment.Spec.Store = &v1alpha1.Store{
		Workers:        ptr.To[int32](2),
		RemoteClaimRef: &v1alpha1.LocalReference{Name: "sales-store"},
		Env:            []v1alpha1.EnvVar{{Name: "CUBESTORE_LOG_LEVEL", Value: ptr.To("info")}},
	}
	f.environment.Spec.StoreImage = storeImage
	return f
}

// bucket returns a production environment of size Dedicated whose store uses a bucket and has no
// workers.
func bucket() fixture {
	f := dedicated()
	f.deployment.Spec.Replicas = nil
	f.deployment.Spec.Store = &v1alpha1.Store{Env: []v1alpha1.EnvVar{
		{Name: "CUBESTORE_S3_REGION", Value: ptr.To("eu-central-1")},
		{Name: "CUBESTORE_S3_BUCKET", Value: ptr.To("acme-store")},
	}}
	return f
}

// staging returns an environment of a branch of the dedicated deployment.
func staging() fixture {
	f := dedicated()
	f.environment.Name = "sales-feature-a"
	f.environment.Spec.Type = v1alpha1.EnvironmentStaging
	f.environment.Spec.BranchRef = &v1alpha1.LocalReference{Name: "sales-feature-a"}
	return f
}

// overrides returns the shared environment with all settings that a user can override.
func overrides() fixture {
	f := shared()
	spec := &f.deployment.Spec
	spec.Replicas = ptr.To[int32](2)
	spec.Env = append(spec.Env,
		v1alpha1.EnvVar{Name: "CUBEJS_TELEMETRY", Value: ptr.To("true")},
		v1alpha1.EnvVar{Name: "CUBEJS_DB_NAME", Value: ptr.To("a$(HOME)b$$c")},
	)
	spec.EnvFrom = []v1alpha1.LocalReference{{Name: "warehouse"}, {Name: "more"}}
	spec.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "pull-b"}, {Name: "pull-a"}}
	spec.Rollout = &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: ptr.To[int32](120)}
	spec.Resources = &v1alpha1.ComponentResources{API: &v1alpha1.Resources{
		Requests: v1alpha1.ResourceList{corev1.ResourceMemory: resource.MustParse("4Gi")},
		Limits:   v1alpha1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}}
	return f
}

// cases returns the environments with a golden file.
func cases() map[string]fixture {
	return map[string]fixture{
		"shared":    shared(),
		"git":       git(),
		"dedicated": dedicated(),
		"bucket":    bucket(),
		"staging":   staging(),
		"overrides": overrides(),
	}
}

// eachCase runs a test for every environment with a golden file.
func eachCase(t *testing.T, test func(t *testing.T, f fixture)) {
	t.Helper()
	for name, f := range cases() {
		t.Run(name, func(t *testing.T) { test(t, f) })
	}
}

// document returns the YAML of objects as server-side apply sends them, without status.
func document(t *testing.T, objects []client.Object) []byte {
	t.Helper()
	var out bytes.Buffer
	for _, obj := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(content, "status")
		text, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes()
}

// template is a workload and its pod template.
type template struct {
	name     string
	selector *metav1.LabelSelector
	replicas int32
	pod      corev1.PodTemplateSpec
}

// templates returns the workloads among rendered objects.
func templates(objects []client.Object) []template {
	var out []template
	for _, obj := range objects {
		if t, ok := templateOf(obj); ok {
			out = append(out, t)
		}
	}
	return out
}

// find returns the rendered object of a type and name.
func find[T client.Object](t *testing.T, objects []client.Object, name string) T {
	t.Helper()
	for _, obj := range objects {
		if found, ok := obj.(T); ok && obj.GetName() == name {
			return found
		}
	}
	var zero T
	t.Fatalf("no %T named %q", zero, name)
	return zero
}

func variable(t *testing.T, c corev1.Container, name string) corev1.EnvVar {
	t.Helper()
	i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("container %q has no variable %s", c.Name, name)
	}
	return c.Env[i]
}
