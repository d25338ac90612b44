package chart_test

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestFrontEndRunsWithItsRights starts the front end as the chart does, but on this machine.
func TestFrontEndRunsWithItsRights(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "tenant-a")
	c.helm(t, "install", releaseName, chartFolder)
	health, address := freeAddress(t), freeAddress(t)
	log, stop := c.run(t, "apiserver", buildQuoin(t),
		"--health-probe-bind-address="+health, "--bind-address="+address, "--metrics-bind-address=0", "--shutdown-delay=0s")
	c.eventually(t, "the front end is ready", func(ctx context.Context) bool {
		return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK
	})
	c.createAccount(t)
	authority := ""
	c.eventually(t, "the Kubernetes API server is told the authority", func(ctx context.Context) bool {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
		if err := c.Get(ctx, client.ObjectKey{Name: "v1.api.platform.quoin.dev"}, service); err != nil {
			t.Fatal(err)
		}
		authority, _, _ = unstructured.NestedString(service.Object, "spec", "caBundle")
		return authority != ""
	})
	pem, err := base64.StdEncoding.DecodeString(authority)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	// For the Kubernetes API server, and for the account's users.
	c.wantCertificate(t, roots, address, "quoin-apiserver."+releaseNamespace+".svc", "a.example.com")
	const url = "https://a.example.com/api/v1/deployments"
	if got, body := get(t, roots, address, url, ""); got != http.StatusUnauthorized {
		t.Errorf("without a key: status %d %s", got, body)
	}
	if got, body := get(t, roots, address, url, "nonsense"); got != http.StatusUnauthorized {
		t.Errorf("with a wrong key: status %d %s", got, body)
	}
	stop()
	wantAllRights(t, log)
}

// TestAuthorityOfTheFrontEnd: that of a given certificate is registered.
func TestAuthorityOfTheFrontEnd(t *testing.T) {
	all := render(t, "--values", "testdata/values/everything.yaml").of("apiserver")
	spec := only[apiService](t, all, "APIService").Spec
	bundle, _ := spec["caBundle"].(string)
	if text, err := base64.StdEncoding.DecodeString(bundle); err != nil || !strings.HasPrefix(string(text), "-----BEGIN CERTIFICATE-----\nMAA=\n") {
		t.Errorf("caBundle %q: %v", bundle, err)
	}
}

// TestWithoutFrontEnd: nothing is left that nobody answers for.
func TestWithoutFrontEnd(t *testing.T) {
	for _, set := range []string{"apiserver.enabled=false", "apiserver.aggregation.enabled=false"} {
		for _, object := range render(t, "--set", set) {
			if strings.Contains(object.GetName(), "proxy") || strings.Contains(object.GetName(), "auth") || object.GetKind() == "APIService" {
				t.Errorf("%s: %s %s", set, object.GetKind(), object.GetName())
			}
		}
	}
}
