package chart_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/apikey"
)

// TestAPIServerRunsWithItsRole starts `quoin apiserver` locally with the arguments and the ServiceAccount of the chart. The
// namespace of one account is in accountNamespaces; the RoleBinding of the other one is created later.
func TestAPIServerRunsWithItsRole(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "monitoring", "tenant-a", "tenant-b")
	c.helm(t, "install", releaseName, chartFolder, "--set", "accountNamespaces={tenant-a},apiserver.aggregation.enabled=true,"+readers)
	c.createScrapers(t)
	keys := map[string]string{"a": c.createTenant(t, "a"), "b": c.createTenant(t, "b")}
	c.createSecrets(t)
	health, address, metrics := freeAddress(t), freeAddress(t), freeAddress(t)
	log, stop := c.run(t, "apiserver", buildQuoin(t), "--database-url=sqlite://"+filepath.Join(t.TempDir(), "quoin.db"),
		"--health-probe-bind-address="+health, "--bind-address="+address, "--metrics-bind-address="+metrics, "--shutdown-delay=0s", "--aggregation")
	c.eventually(t, "quoin apiserver is ready", func(ctx context.Context) bool {
		return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK
	})
	c.wantMetrics(t, metrics)
	wantReady(t, "--https="+address+","+metrics)
	roots := c.registeredCA(t)
	// For kube-apiserver, and for the account's users.
	c.wantCertificate(t, roots, address, "quoin-apiserver."+releaseNamespace+".svc", "a.example.com", "b.example.com")
	const url = "https://a.example.com/api/v1/deployments"
	if got, body := get(t, roots, address, url, ""); got != http.StatusUnauthorized {
		t.Errorf("without a token: status %d %s", got, body)
	}
	if got, body := get(t, roots, address, url, "nonsense"); got != http.StatusUnauthorized {
		t.Errorf("with an invalid token: status %d %s", got, body)
	}
	c.eventually(t, "the database opens", func(context.Context) bool {
		got, _ := get(t, roots, address, "https://a.example.com/api/v1/audit-logs/export", keys["a"])
		return got == http.StatusOK
	})
	requestToken := func(account string, wantStatus int, want string) {
		t.Helper()
		status, body := call(t, http.MethodPost, roots, address, "https://"+account+".example.com/api/v1/deployments/1/token", keys[account])
		if status != wantStatus || !strings.Contains(body, want) {
			t.Errorf("account %s: %d %s, want %d %s", account, status, body, wantStatus, want)
		}
	}
	requestToken("a", http.StatusOK, `"cubeApiToken":"ey`)
	wantNoForbidden(t, log)
	requestToken("b", http.StatusServiceUnavailable, "an administrator must grant access")
	// The log line may be written after the response.
	c.eventually(t, "the log names the missing RoleBinding", func(context.Context) bool {
		return log.has(`"namespace":"tenant-b"`, "quoin-account-apiserver", "RoleBinding")
	})

	// As documented for administrators.
	c.kubectl(t, "create", "rolebinding", "quoin-account-apiserver", "--clusterrole=quoin-account-apiserver", "--namespace=tenant-b",
		"--serviceaccount=quoin-system:quoin-apiserver")
	c.wantPermissions(t, "quoin-apiserver", permission{"tenant-b", "secrets", "get", true})
	requestToken("b", http.StatusOK, `"cubeApiToken":"ey`)
	stop()
}

// registeredCA returns the CA certificate in the APIService.
func (c *cluster) registeredCA(t *testing.T) *x509.CertPool {
	t.Helper()
	bundle := ""
	c.eventually(t, "the APIService has a CA bundle", func(ctx context.Context) bool {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
		if err := c.Get(ctx, client.ObjectKey{Name: "v1.api.platform.quoin.dev"}, service); err != nil {
			t.Fatal(err)
		}
		bundle, _, _ = unstructured.NestedString(service.Object, "spec", "caBundle")
		return bundle != ""
	})
	pem, err := base64.StdEncoding.DecodeString(bundle)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return roots
}

// createTenant creates an account with a deployment and an audit log, and returns the token of a key.
func (c *cluster) createTenant(t *testing.T, account string) string {
	t.Helper()
	token, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hash := token.Hash()
	file := filepath.Join(t.TempDir(), "tenant.yaml")
	writeFile(t, file, strings.ReplaceAll(tenant, "NAME", account)+fmt.Sprintf(`
---
apiVersion: platform.quoin.dev/v1alpha1
kind: ApiKey
metadata: {name: admin, namespace: tenant-%s}
spec: {token: {id: %q, sha256: %q}}
`, account, hash.ID, hash.SHA256))
	c.kubectl(t, "wait", "crd", "--all", "--for=condition=Established")
	c.kubectl(t, "apply", "-f", file)
	c.kubectl(t, "label", "-n", "tenant-"+account, "deployments.platform.quoin.dev/sales", "platform.quoin.dev/id=1")
	c.kubectl(t, "patch", "account", account, "--type=merge", "-p", `{"spec":{"plan":"Enterprise","auditLog":{"enabled":true}}}`)
	return token.Reveal()
}

// With a certificate of the user, the APIService has the CA from the values.
func TestAPIServiceTrustsAGivenCertificate(t *testing.T) {
	all := render(t, "--values", "testdata/values/everything.yaml").of("apiserver")
	spec := only[apiService](t, all, "APIService").Spec
	bundle, _ := spec["caBundle"].(string)
	if text, err := base64.StdEncoding.DecodeString(bundle); err != nil || !strings.HasPrefix(string(text), "-----BEGIN CERTIFICATE-----\nMAA=\n") {
		t.Errorf("caBundle %q: %v", bundle, err)
	}
}

// Without the component, there are no objects that depend on it.
func TestDisabledAPIServerLeavesNoObjects(t *testing.T) {
	for _, object := range render(t, "--set", "apiserver.enabled=false,apiserver.aggregation.enabled=true") {
		isProxy := strings.Contains(object.GetName(), "proxy") || strings.Contains(object.GetName(), "auth-delegator") || strings.Contains(object.GetName(), "authentication-reader")
		if isProxy || object.GetKind() == "APIService" || object.GetKind() == "ValidatingWebhookConfiguration" {
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
}

// TestAggregationIsOptIn: while an APIService is unavailable, for example because the volume of quoin apiserver is Pending,
// Kubernetes deletes no namespace of the cluster. A default installation must not have one. The roles for ServiceAccounts do
// not need it.
func TestAggregationIsOptIn(t *testing.T) {
	all := render(t)
	for _, object := range all {
		if object.GetKind() == "APIService" || object.GetKind() == "ValidatingWebhookConfiguration" || strings.Contains(object.GetName(), "auth-delegator") || strings.Contains(object.GetName(), "authentication-reader") {
			t.Errorf("the defaults contain %s %s", object.GetKind(), object.GetName())
		}
	}
	for aggregation, server := range map[bool]objects{false: all, true: render(t, "--set", "apiserver.aggregation.enabled=true")} {
		args := only[appsv1.Deployment](t, server.of("apiserver"), "Deployment").Spec.Template.Spec.Containers[0].Args
		if slices.Contains(args, "--aggregation") != aggregation {
			t.Errorf("with aggregation %t, the arguments are %v", aggregation, args)
		}
	}
	for _, role := range []string{"quoin-proxy-viewer", "quoin-proxy-admin"} {
		if len(all.named(role)) != 1 {
			t.Errorf("no role %s", role)
		}
	}
}

// The notes explain why aggregation is disabled, and how to enable it; if it is enabled, how to disable it.
func TestNotesOnAggregation(t *testing.T) {
	const enable, disable = "apiserver.aggregation.enabled=true", "apiserver.aggregation.enabled=false"
	without, with := notes(t), notes(t, "--set", enable)
	for _, want := range []string{enable, "cannot finish deleting namespaces", "not recorded in audit logs"} {
		if !strings.Contains(without, want) {
			t.Errorf("without aggregation, the notes do not contain %q:\n%s", want, without)
		}
	}
	if !strings.Contains(with, "cannot finish deleting namespaces") || !strings.Contains(with, disable) || strings.Contains(with, enable) {
		t.Errorf("with aggregation:\n%s", with)
	}
	if text := notes(t, "--set", "apiserver.enabled=false"); strings.Contains(text, "aggregated") {
		t.Errorf("without quoin apiserver:\n%s", text)
	}
}

// The notes have the commands for all RoleBindings that the chart creates in accountNamespaces.
func TestNotesOnAccounts(t *testing.T) {
	const dbt = "dbt.image=registry.example.com/dbt:1.10"
	text := notes(t, "--set", dbt)
	bindings := render(t, "--set", dbt, "--set", "accountNamespaces={demo}").ofKind("RoleBinding")
	count := 0
	for _, binding := range bindings {
		if binding.GetNamespace() != "demo" {
			continue
		}
		count++
		if want := "kubectl create rolebinding " + binding.GetName() + " --clusterrole=" + field(t, binding, "roleRef", "name") + " "; !strings.Contains(text, want) {
			t.Errorf("the notes do not contain %q:\n%s", want, text)
		}
	}
	if count < 4 {
		t.Errorf("%d RoleBindings", count)
	}
}

// TestNotesNameTheServiceInACertificate: a public issuer does not issue a certificate with the name of the Service.
func TestNotesNameTheServiceInACertificate(t *testing.T) {
	const certManager = "apiserver.tls.certManager.enabled=true,apiserver.tls.certManager.issuerRef.name=public,apiserver.tls.certManager.dnsNames={demo.example.com}"
	for values, want := range map[string]string{
		"apiserver.aggregation.enabled=false":                "set apiserver.repositories.url.",
		"apiserver.aggregation.enabled=true":                 "set apiserver.repositories.url, and\ndisable apiserver.aggregation.enabled",
		"apiserver.repositories.url=https://git.example.com": "",
		"apiserver.database.enabled=false":                   "",
		"apiserver.tls.certManager.enabled=false":            "",
	} {
		text := notes(t, "--set", certManager, "--set", values)
		if strings.Contains(text, "Its Certificate has") != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: want %q in\n%s", values, want, text)
		}
	}
}

// notes returns the notes of the chart, which Helm does not print without a cluster.
func notes(t *testing.T, args ...string) string {
	t.Helper()
	chart := copyChart(t, "quoin")
	templates := filepath.Join(chart, "templates")
	text, err := os.ReadFile(filepath.Join(templates, "NOTES.txt"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(templates, "_notes.tpl"), `{{ define "notes" }}`+string(text)+"{{ end }}")
	writeFile(t, filepath.Join(templates, "notes.yaml"), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata: {notes: {{ include \"notes\" . | toJson }}}\n")
	rendered := mustHelm(t, append([]string{"template", releaseName, chart, "--namespace", releaseNamespace, "--show-only", "templates/notes.yaml"}, args...)...)
	return only[corev1.ConfigMap](t, parse(t, rendered), "ConfigMap").Data["notes"]
}
