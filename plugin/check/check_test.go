package check

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// crds returns the CRDs of the repository, as established.
func crds(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs", err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		all = append(all, crd)
	}
	return all
}

// of returns the CRD of a kind.
func of(t *testing.T, all []apiextensionsv1.CustomResourceDefinition, kind string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	for i := range all {
		if all[i].Spec.Names.Kind == kind {
			return &all[i]
		}
	}
	t.Fatalf("no CRD of %s", kind)
	return nil
}

// find returns the schema of the spec of a kind.
func find(t *testing.T, all []apiextensionsv1.CustomResourceDefinition, kind string) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	return of(t, all, kind).Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
}

func TestSchemas(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*testing.T, []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition
		status Status
		want   string
	}{
		"as generated": {func(_ *testing.T, all []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			return all
		}, OK, "kinds, as in this release"},
		"none": {func(*testing.T, []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			return nil
		}, Failed, fmt.Sprintf("not installed: Account, ReleaseChannel, ModelEndpoint, DbtSync, Deployment and %d more", len(v1alpha1.Kinds)-5)},
		"one not established": {func(t *testing.T, all []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			of(t, all, "Account").Status.Conditions = nil
			return all
		}, Failed, "not installed: Account"},
		"another version": {func(t *testing.T, all []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			of(t, all, "Account").Spec.Versions[0].Name = "v1alpha0"
			return all
		}, Failed, "not installed: Account v1alpha1"},
		"older": {func(t *testing.T, all []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			delete(find(t, all, "Deployment"), "hold")
			delete(find(t, all, "Deployment")["model"].Properties, "repository")
			return all
		}, Failed, "older than this plugin, without Deployment.spec.hold, Deployment.spec.model.repository"},
		"newer": {func(t *testing.T, all []apiextensionsv1.CustomResourceDefinition) []apiextensionsv1.CustomResourceDefinition {
			find(t, all, "Deployment")["env"].Items.Schema.Properties["future"] = apiextensionsv1.JSONSchemaProps{}
			return all
		}, Warning, "newer than this plugin, with Deployment.spec.env[].future"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := Schemas(c.change(t, crds(t))); r.Status != c.status || !strings.Contains(r.Message, c.want) || (r.Status != OK) == (r.Next == "") {
				t.Errorf("%+v, want %s %q", r, c.status, c.want)
			}
		})
	}
}

// TestDriftOfEveryKind: the walk understands every field of every kind.
func TestDriftOfEveryKind(t *testing.T) {
	all := crds(t)
	for _, kind := range v1alpha1.Kinds {
		for i := range all {
			if all[i].Spec.Names.Kind != kind.Name() {
				continue
			}
			lacks, adds := Drift(all[i].Spec.Versions[0].Schema.OpenAPIV3Schema, reflect.TypeOf(kind.Object).Elem())
			if len(lacks)+len(adds) > 0 {
				t.Errorf("%s: lacks %v, adds %v", kind.Name(), lacks, adds)
			}
		}
	}
}

func TestKubernetes(t *testing.T) {
	for version, want := range map[string]Status{"v1.31.0": OK, "v1.36.3+k3s1": OK, "v1.30.9": Failed, "unknown": Unknown} {
		if r := Kubernetes(version); r.Status != want {
			t.Errorf("%s: %+v, want %s", version, r, want)
		}
	}
}

func TestProcesses(t *testing.T) {
	process := func(ready int32, image string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "quoin-gateway", Labels: map[string]string{"app.kubernetes.io/component": "gateway"}}}
		d.Spec.Replicas, d.Status.ReadyReplicas = ptr.To(int32(2)), ready
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return d
	}
	for name, c := range map[string]struct {
		processes []appsv1.Deployment
		status    Status
		message   string
	}{
		"none":          {nil, Warning, "no Deployment of Quoin in the namespace system"},
		"ready":         {[]appsv1.Deployment{process(2, "r:5000/quoin:v1.0.0@sha256:1")}, OK, "2 of 2 pods ready, version v1.0.0"},
		"not ready":     {[]appsv1.Deployment{process(1, "quoin:1.0.0")}, Failed, "1 of 2 pods ready, version 1.0.0"},
		"other version": {[]appsv1.Deployment{process(2, "quoin:v0.9.0")}, Warning, "2 of 2 pods ready, version v0.9.0, and this plugin is v1.0.0"},
		"no tag":        {[]appsv1.Deployment{process(2, "r:5000/quoin@sha256:1")}, Warning, "2 of 2 pods ready, version unknown, and this plugin is v1.0.0"},
	} {
		r := Processes(c.processes, "system", "v1.0.0")[0]
		if r.Status != c.status || r.Message != c.message {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestStorageClass(t *testing.T) {
	class := storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}
	if r := StorageClass([]storagev1.StorageClass{class}); r.Status != Warning {
		t.Errorf("no default: %+v", r)
	}
	class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	if r := StorageClass([]storagev1.StorageClass{class}); r.Status != OK || r.Message != "the default is fast" {
		t.Errorf("default: %+v", r)
	}
}

func TestAPIService(t *testing.T) {
	service := func(status string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status, "message": "because"}}}}}
	}
	for name, c := range map[string]struct {
		service *unstructured.Unstructured
		want    Result
	}{
		"absent":        {nil, Result{Status: Warning, Message: "not enabled"}},
		"no conditions": {&unstructured.Unstructured{Object: map[string]any{}}, Result{Status: Failed, Message: "no condition Available"}},
		"unavailable":   {service("False"), Result{Status: Failed, Message: "because"}},
		"available":     {service("True"), Result{Status: OK, Message: "because"}},
	} {
		r := APIService(c.service)
		r.Check, r.Next = "", ""
		if diff := cmp.Diff(c.want, r); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRoleBindings(t *testing.T) {
	a := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
	binding := func(role string, accounts ...string) rbacv1.RoleBinding {
		b := rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{Name: role}}
		for _, name := range accounts {
			b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "quoin-system", Name: name})
		}
		return b
	}
	server := binding("quoin-account-apiserver", "quoin-apiserver")
	for name, c := range map[string]struct {
		bindings []rbacv1.RoleBinding
		status   Status
		message  string
	}{
		"all":             {[]rbacv1.RoleBinding{binding("quoin-account", "quoin-controller", "quoin-gateway"), server}, OK, "gateway, API server and controller may use the Secrets in acme"},
		"other release":   {[]rbacv1.RoleBinding{binding("q2-account", "q2-controller", "q2-gateway"), binding("q2-account-apiserver", "q2-apiserver")}, OK, "gateway, API server and controller may use the Secrets in acme"},
		"none":            {nil, Failed, "gateway, apiserver, controller may not use the Secrets in acme"},
		"no gateway":      {[]rbacv1.RoleBinding{binding("quoin-account", "quoin-controller"), server}, Failed, "gateway may not use the Secrets in acme"},
		"no controller":   {[]rbacv1.RoleBinding{binding("quoin-account", "quoin-gateway"), server}, Warning, "controller may not use the Secrets in acme: it needs this for private Git repositories and --warm-up"},
		"other namespace": {[]rbacv1.RoleBinding{{RoleRef: server.RoleRef, Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "other", Name: "quoin-apiserver"}}}}, Failed, "gateway, apiserver, controller may not use the Secrets in acme"},
	} {
		if r := RoleBindings(a, c.bindings, "quoin-system"); r.Status != c.status || r.Message != c.message {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestCertificate(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		data   []byte
		status Status
		want   string
	}{
		"none":    {nil, Failed, "no certificate yet"},
		"broken":  {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), Failed, "cannot be parsed"},
		"valid":   {certificate(t, now.AddDate(0, 3, 0)), OK, "valid until 2027-02-22"},
		"soon":    {certificate(t, now.AddDate(0, 0, 3)), Warning, "valid until 2026-11-25"},
		"expired": {certificate(t, now.AddDate(0, 0, -1)), Failed, "expired on 2026-11-21"},
	} {
		if r := Certificate("x", c.data, now); r.Status != c.status || !strings.HasPrefix(r.Message, c.want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestCertificateSecret: the certificate is that of the files, as in the chart with tls.secretName or cert-manager.
func TestCertificateSecret(t *testing.T) {
	process := func(component string, args ...string) appsv1.Deployment {
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/component": component}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Args: args, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "tls", MountPath: "/etc/quoin/tls"}}}}
		d.Spec.Template.Spec.Volumes = []corev1.Volume{
			{Name: "data"}, {Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "own"}}},
		}
		return d
	}
	for name, c := range map[string]struct {
		processes []appsv1.Deployment
		want      string
	}{
		"outside of the cluster": {nil, "generated"},
		"generated":              {[]appsv1.Deployment{process("gateway", "gateway")}, "generated"},
		"own":                    {[]appsv1.Deployment{process("controller"), process("gateway", "gateway", "--tls-cert-file=/etc/quoin/tls/tls.crt")}, "own"},
		"another file":           {[]appsv1.Deployment{process("gateway", "gateway", "--tls-cert-file=/data/tls.crt")}, ""},
		"not installed":          {[]appsv1.Deployment{process("apiserver", "--tls-cert-file=/etc/quoin/tls/tls.crt")}, ""},
	} {
		if got := CertificateSecret(c.processes, "gateway", "generated"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func certificate(t *testing.T, end time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.AddDate(-1, 0, 0), NotAfter: end}
	data, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var encoded bytes.Buffer
	if err := pem.Encode(&encoded, &pem.Block{Type: "CERTIFICATE", Bytes: data}); err != nil {
		t.Fatal(err)
	}
	return encoded.Bytes()
}

func TestDNS(t *testing.T) {
	a := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
	if r := DNS(a, nil); r.Status != Unknown {
		t.Errorf("no hosts: %+v", r)
	}
	a.Status.Hosts, a.Status.DataDomain = []string{"acme.example.com:8443"}, "data.acme.example.com"
	if r := DNS(a, func(string) ([]string, error) { return []string{"192.0.2.1"}, nil }); r.Status != OK || r.Message != "acme.example.com, check.data.acme.example.com, check.sql.data.acme.example.com resolve" {
		t.Errorf("all: %+v", r)
	}
	r := DNS(a, func(host string) ([]string, error) {
		if strings.HasPrefix(host, "check.") {
			return nil, errors.New("no such host")
		}
		return nil, nil
	})
	if r.Status != Warning || r.Message != "check.data.acme.example.com, check.sql.data.acme.example.com do not resolve on this machine" {
		t.Errorf("some: %+v", r)
	}
}

func TestObjects(t *testing.T) {
	ready := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	ready.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "True"}}
	broken := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	broken.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: "False", Reason: "HostTaken", Message: "x"}}
	for want, objects := range map[string][]v1alpha1.Object{
		"there is none": nil, "1 ready": {ready}, "b: HostTaken: x": {ready, broken}, "b: HostTaken: x; b: HostTaken: x": {broken, ready, broken},
		strings.Repeat("b: HostTaken: x; ", maxNamed) + "and 2 more": slices.Repeat([]v1alpha1.Object{broken}, maxNamed+2),
	} {
		if r := Objects("Accounts", objects); r.Message != want || Failures([]Result{r}) != slices.Contains(objects, v1alpha1.Object(broken)) {
			t.Errorf("%+v, want %q", r, want)
		}
	}
}
