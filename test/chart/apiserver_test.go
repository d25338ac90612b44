package chart_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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
	for _, name := range []string{"quoin-apiserver." + releaseNamespace + ".svc", "a.example.com"} {
		c.eventually(t, "the certificate is for", func(ctx context.Context) bool {
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
			connection, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return false
			}
			return connection.Close() == nil
		}, name)
	}
	if got := c.list(t, roots, address, ""); got != http.StatusUnauthorized {
		t.Errorf("without a key: status %d", got)
	}
	if got := c.list(t, roots, address, "nonsense"); got != http.StatusUnauthorized {
		t.Errorf("with a wrong key: status %d", got)
	}
	stop()
	wantAllRights(t, log)
}

// list asks for the account's deployments.
func (c *cluster) list(t *testing.T, roots *x509.CertPool, address, key string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a.example.com/api/v1/deployments", nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestFrontEndsCertificate: a given one is mounted and named, and its authority registered.
func TestFrontEndsCertificate(t *testing.T) {
	all := render(t, "--values", "testdata/values/everything.yaml").of("apiserver")
	pod := only[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec
	if len(pod.Volumes) == 0 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != "certificate" {
		t.Errorf("volumes: %v", pod.Volumes)
	}
	mounts := pod.Containers[0].VolumeMounts
	if len(mounts) == 0 || mounts[0].Name != pod.Volumes[0].Name || !mounts[0].ReadOnly {
		t.Fatalf("mounts: %v", mounts)
	}
	args := strings.Join(pod.Containers[0].Args, " ")
	for _, want := range []string{
		"--tls-cert-file=" + mounts[0].MountPath + "/tls.crt", "--tls-key-file=" + mounts[0].MountPath + "/tls.key",
		"--service=analytics-apiserver", "--trusted-proxies=10.0.0.0/8,fd00::/8", `--region-title=Europe, "Frankfurt"`,
	} {
		if !strings.Contains(args, want) {
			t.Errorf("no argument %s in %s", want, args)
		}
	}
	spec := only[apiService](t, all, "APIService").Spec
	bundle, _ := spec["caBundle"].(string)
	if text, err := base64.StdEncoding.DecodeString(bundle); err != nil || !strings.HasPrefix(string(text), "-----BEGIN CERTIFICATE-----\nMAA=\n") {
		t.Errorf("caBundle %q: %v", bundle, err)
	}
}

// TestMetricsOfTheFrontEnd: nobody but the pod reads them unless somebody says so.
func TestMetricsOfTheFrontEnd(t *testing.T) {
	for set, want := range map[string]string{"false": "127.0.0.1:8080", "true": ":8080"} {
		all := render(t, "--set", "apiserver.networkPolicy.enabled=true,apiserver.metrics.enabled="+set).of("apiserver")
		container := only[appsv1.Deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0]
		if args := strings.Join(container.Args, " "); !strings.Contains(args, "--metrics-bind-address="+want+" ") {
			t.Errorf("metrics.enabled=%s: %s", set, args)
		}
		ports := 0
		for _, rule := range only[networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress {
			ports += len(rule.Ports)
		}
		if wanted := len(container.Ports) - 1; ports != wanted { // all but the probes'
			t.Errorf("metrics.enabled=%s: %d ports are let through, want %d", set, ports, wanted)
		}
	}
}

// TestWithoutFrontEnd: nothing of it is left, above all no APIService that nobody answers for.
func TestWithoutFrontEnd(t *testing.T) {
	for _, object := range render(t, "--set", "apiserver.enabled=false") {
		if strings.Contains(object.GetName(), "apiserver") || strings.Contains(object.GetName(), "proxy") || object.GetKind() == "APIService" {
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
	for _, object := range render(t, "--set", "apiserver.aggregation.enabled=false") {
		if strings.Contains(object.GetName(), "proxy") || strings.Contains(object.GetName(), "auth") || object.GetKind() == "APIService" {
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
}

// TestFrontEndsService: the accounts' hosts may lead to it from outside.
func TestFrontEndsService(t *testing.T) {
	service := only[corev1.Service](t, render(t, "--set", "apiserver.service.type=LoadBalancer").of("apiserver"), "Service")
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		t.Errorf("type %s", service.Spec.Type)
	}
}
