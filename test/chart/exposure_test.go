package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const exposed = "testdata/values/exposed.yaml"

// field returns a field of an object as YAML.
func field(t *testing.T, object *unstructured.Unstructured, path ...string) string {
	t.Helper()
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, path...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(mustYAML(t, value))
}

// the returns the object of a kind and a name.
func (o objects) the(t *testing.T, kind, name string) *unstructured.Unstructured {
	t.Helper()
	found := o.ofKind(kind).named(name)
	if len(found) != 1 {
		t.Fatalf("%d objects %s %s, want 1", len(found), kind, name)
	}
	return found[0]
}

// By default, there are no objects of other projects, and nothing is exposed.
func TestNothingIsExposedByDefault(t *testing.T) {
	for _, object := range render(t) {
		switch object.GetKind() {
		case "Ingress", "HTTPRoute", "TLSRoute", "BackendTLSPolicy", "Certificate", "HorizontalPodAutoscaler":
			t.Errorf("%s %s", object.GetKind(), object.GetName())
		}
	}
}

// TestAutoscaling: the autoscaler scales the Deployment, which then has no number of pods of its own.
func TestAutoscaling(t *testing.T) {
	all := render(t, "--values", exposed)
	for _, test := range []struct {
		server            string
		minimum, maximum  int32
		resources, others int
	}{{"apiserver", 3, 12, 2, 1}, {"gateway", 2, 10, 1, 0}} {
		deployment := deploymentOf(t, all, test.server)
		if deployment.Spec.Replicas != nil {
			t.Errorf("%s: %d replicas, want none", test.server, *deployment.Spec.Replicas)
		}
		scaler := only[autoscalingv2.HorizontalPodAutoscaler](t, all.of(test.server), "HorizontalPodAutoscaler")
		if scaler.Spec.ScaleTargetRef.Name != deployment.Name || scaler.Spec.ScaleTargetRef.Kind != "Deployment" {
			t.Errorf("%s: target %+v", test.server, scaler.Spec.ScaleTargetRef)
		}
		if *scaler.Spec.MinReplicas != test.minimum || scaler.Spec.MaxReplicas != test.maximum || len(scaler.Spec.Metrics) != test.resources+test.others {
			t.Errorf("%s: %+v", test.server, scaler.Spec)
		}
		for _, metric := range scaler.Spec.Metrics[:test.resources] {
			if metric.ContainerResource == nil || metric.ContainerResource.Container != test.server {
				t.Errorf("%s: metric %+v is not that of its container", test.server, metric)
			}
		}
	}
	if replicas := deploymentOf(t, all, "controller").Spec.Replicas; replicas == nil || *replicas != 1 {
		t.Errorf("controller: replicas %v", replicas)
	}
}

func TestIngress(t *testing.T) {
	all := render(t, "--values", exposed)
	ingress := only[networkingv1.Ingress](t, all.of("apiserver"), "Ingress")
	if *ingress.Spec.IngressClassName != "nginx" || len(ingress.Spec.TLS) != 1 || ingress.Labels["example.com/exposed"] != "yes" ||
		ingress.Annotations["nginx.ingress.kubernetes.io/backend-protocol"] != "HTTPS" {
		t.Errorf("%+v", ingress)
	}
	hosts := []string{}
	for _, rule := range ingress.Spec.Rules {
		hosts = append(hosts, rule.Host)
		service := rule.HTTP.Paths[0].Backend.Service
		ports := only[corev1.Service](t, all.named(service.Name), "Service").Spec.Ports
		if !slices.ContainsFunc(ports, func(p corev1.ServicePort) bool { return p.Name == service.Port.Name && p.Port == 443 }) {
			t.Errorf("%s: backend %+v, the Service has %v", rule.Host, service, ports)
		}
	}
	if want := []string{"demo.example.com", "acme.example.com"}; !slices.Equal(hosts, want) {
		t.Errorf("hosts %v, want %v", hosts, want)
	}
	if other := only[networkingv1.Ingress](t, all.of("gateway"), "Ingress"); other.Spec.IngressClassName != nil || other.Spec.Rules[0].Host != "*.data.demo.example.com" {
		t.Errorf("%+v", other.Spec)
	}
}

func TestRoutes(t *testing.T) {
	all := render(t, "--values", exposed)
	for _, test := range []struct{ kind, name, service, port, hostnames string }{
		{"HTTPRoute", "quoin-apiserver", "quoin-apiserver", "443", "- demo.example.com"},
		{"HTTPRoute", "quoin-gateway", "quoin-gateway", "443", "- '*.data.demo.example.com'"},
		{"TLSRoute", "quoin-gateway", "quoin-gateway", "443", "- '*.data.demo.example.com'"},
		{"TLSRoute", "quoin-gateway-sql", "quoin-gateway", "6432", "- '*.sql.data.demo.example.com'"},
	} {
		route := all.the(t, test.kind, test.name)
		rules, _, _ := unstructured.NestedSlice(route.Object, "spec", "rules")
		backend := strings.TrimSpace(mustYAML(t, rules[0].(map[string]any)["backendRefs"]))
		if want := "- name: " + test.service + "\n  port: " + test.port; backend != want {
			t.Errorf("%s %s: backend %s, want %s", test.kind, test.name, backend, want)
		}
		if got := field(t, route, "spec", "hostnames"); got != test.hostnames {
			t.Errorf("%s %s: hostnames %s", test.kind, test.name, got)
		}
	}
	if routes := all.ofKind("TLSRoute"); len(routes) != 2 || routes[0].GetAPIVersion() != "gateway.networking.k8s.io/v1alpha2" {
		t.Errorf("%d TLSRoutes", len(routes))
	}
	newer := render(t, "--values", exposed, "--api-versions", "gateway.networking.k8s.io/v1/TLSRoute,gateway.networking.k8s.io/v1alpha3/TLSRoute")
	if got := newer.ofKind("TLSRoute")[0].GetAPIVersion(); got != "gateway.networking.k8s.io/v1" {
		t.Errorf("the cluster serves v1, the route has %s", got)
	}
	rest := field(t, all.the(t, "BackendTLSPolicy", "quoin-apiserver"), "spec", "validation")
	if diff := cmp.Diff("caCertificateRefs:\n- group: \"\"\n  kind: ConfigMap\n  name: company-ca\nhostname: quoin-apiserver.quoin-system.svc", rest); diff != "" {
		t.Error(diff)
	}
	data := field(t, all.the(t, "BackendTLSPolicy", "quoin-gateway"), "spec", "validation")
	if diff := cmp.Diff("hostname: sales.data.demo.example.com\nwellKnownCACertificates: System", data); diff != "" {
		t.Error(diff)
	}
	if left := render(t, "--values", exposed, "--set", "gateway.httpRoute.backendTLS.enabled=false").of("gateway").ofKind("BackendTLSPolicy"); len(left) != 0 {
		t.Errorf("%d policies", len(left))
	}
}

// TestCertificatesHaveTheVerifiedName: a certificate of cert-manager has the name that the Gateway verifies, unless the
// values name another one.
func TestCertificatesHaveTheVerifiedName(t *testing.T) {
	all := render(t, "--values", exposed, "--set", "apiserver.aggregation.enabled=false", "--set", "gateway.httpRoute.backendTLS.hostname=",
		"--set", "gateway.httpRoute.backendTLS.wellKnownCACertificates=", "--set", "gateway.httpRoute.backendTLS.caCertificateRefs[0].group=",
		"--set", "gateway.httpRoute.backendTLS.caCertificateRefs[0].kind=ConfigMap,gateway.httpRoute.backendTLS.caCertificateRefs[0].name=company-ca")
	for _, name := range []string{"quoin-apiserver", "quoin-gateway"} {
		verified := field(t, all.the(t, "BackendTLSPolicy", name), "spec", "validation", "hostname")
		if names := strings.Split(field(t, all.the(t, "Certificate", name), "spec", "dnsNames"), "\n"); !slices.Contains(names, "- "+verified) {
			t.Errorf("%s: the Gateway verifies %s, the certificate has\n%s", name, verified, strings.Join(names, "\n"))
		}
	}
}

// TestCertificateHasTheHostOfRepositories: without a URL in the values, the controller and the pods read repositories from the
// Service, so a certificate of cert-manager has its name.
func TestCertificateHasTheHostOfRepositories(t *testing.T) {
	const certManager = "apiserver.tls.certManager.enabled=true,apiserver.tls.certManager.issuerRef.name=company,apiserver.tls.certManager.dnsNames={demo.example.com}"
	for values, want := range map[string]string{
		"": "- demo.example.com\n- quoin-apiserver.quoin-system.svc",
		"apiserver.repositories.url=https://git.example.com": "- demo.example.com",
		"apiserver.database.enabled=false":                   "- demo.example.com",
	} {
		certificate := render(t, "--set", certManager, "--set", values).the(t, "Certificate", "quoin-apiserver")
		if got := field(t, certificate, "spec", "dnsNames"); got != want {
			t.Errorf("%q: the certificate has\n%s\nwant\n%s", values, got, want)
		}
	}
}

// TestCertificatesOfCertManager: the server reads the Secret that cert-manager writes, and cert-manager writes the caBundle.
func TestCertificatesOfCertManager(t *testing.T) {
	all := render(t, "--values", exposed)
	for server, want := range map[string]struct{ secret, issuer, names string }{
		"apiserver": {"quoin-apiserver-certificate", "group: cert-manager.io\nkind: ClusterIssuer\nname: company", "- demo.example.com\n- quoin-apiserver.quoin-system.svc"},
		"gateway":   {"wildcard", "group: cert-manager.io\nkind: Issuer\nname: company", "- '*.data.demo.example.com'\n- '*.sql.data.demo.example.com'"},
	} {
		certificate := all.the(t, "Certificate", "quoin-"+server)
		got := []string{field(t, certificate, "spec", "secretName"), field(t, certificate, "spec", "issuerRef"), field(t, certificate, "spec", "dnsNames")}
		if diff := cmp.Diff([]string{want.secret, want.issuer, want.names}, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", server, diff)
		}
		deployment := deploymentOf(t, all, server)
		if volume := deployment.Spec.Template.Spec.Volumes[0]; volume.Name != "tls" || volume.Secret.SecretName != want.secret {
			t.Errorf("%s: volume %+v", server, volume)
		}
		if got := argument(deployment, "tls-cert-file"); got != "/etc/quoin/tls/tls.crt" {
			t.Errorf("%s: --tls-cert-file=%s", server, got)
		}
	}
	service := all.the(t, "APIService", "v1.api.platform.quoin.dev")
	if got := service.GetAnnotations()["cert-manager.io/inject-ca-from"]; got != "quoin-system/quoin-apiserver" {
		t.Errorf("inject-ca-from is %q", got)
	}
	if got := field(t, service, "spec"); strings.Contains(got, "caBundle") {
		t.Errorf("the chart sets a caBundle:\n%s", got)
	}
	if text := notes(t, "--values", exposed); strings.Contains(text, "-tls") {
		t.Errorf("the notes name the Secrets of generated certificates:\n%s", text)
	}
}
