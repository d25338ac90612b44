package chart_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// argument returns the value of a flag of the component's container, or "".
func argument(deployment *appsv1.Deployment, flag string) string {
	for _, argument := range deployment.Spec.Template.Spec.Containers[0].Args {
		if value, found := strings.CutPrefix(argument, "--"+flag+"="); found {
			return value
		}
	}
	return ""
}

func TestGivenCertificatesAreMounted(t *testing.T) {
	all := render(t, "--values", "testdata/values/everything.yaml")
	for server, secret := range map[string]string{"apiserver": "certificate", "gateway": "wildcard"} {
		deployment := only[appsv1.Deployment](t, all.of(server), "Deployment")
		pod := deployment.Spec.Template.Spec
		if len(pod.Volumes) == 0 || pod.Volumes[0].Secret == nil || pod.Volumes[0].Secret.SecretName != secret {
			t.Errorf("%s: volumes: %v", server, pod.Volumes)
		}
		mounts := pod.Containers[0].VolumeMounts
		if len(mounts) == 0 || mounts[0].Name != pod.Volumes[0].Name || !mounts[0].ReadOnly {
			t.Fatalf("%s: mounts: %v", server, mounts)
		}
		for flag, want := range map[string]string{
			"tls-cert-file": mounts[0].MountPath + "/tls.crt", "tls-key-file": mounts[0].MountPath + "/tls.key",
			"service": "analytics-" + server, "trusted-proxies": "10.0.0.0/8,fd00::/8",
		} {
			if got := argument(deployment, flag); got != want {
				t.Errorf("%s: --%s is %q, want %q", server, flag, got, want)
			}
		}
	}
	if got := argument(only[appsv1.Deployment](t, all.of("apiserver"), "Deployment"), "region-title"); got != `Europe, "Frankfurt"` {
		t.Errorf("--region-title is %q", got)
	}
}

// The key of the GitHub App is mounted from its Secret; without an App there is neither.
func TestKeyOfTheGitHubAppIsMounted(t *testing.T) {
	deployment := only[appsv1.Deployment](t, render(t, "--values", "testdata/values/everything.yaml").of("apiserver"), "Deployment")
	pod := deployment.Spec.Template.Spec
	file, found := "", false
	for _, v := range pod.Volumes {
		if v.Name != "github" {
			continue
		}
		found = v.Secret != nil && v.Secret.SecretName == "github-app" && v.Secret.Items[0].Key == "key.pem"
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.Name == v.Name && m.ReadOnly {
				file = m.MountPath + "/" + v.Secret.Items[0].Path
			}
		}
	}
	requireMountedCA(t, deployment)
	if got := argument(deployment, "github-app-key-file"); !found || got == "" || got != file {
		t.Errorf("--github-app-key-file is %q, mounted is %q: %v", got, file, pod.Volumes)
	}
	for flag, want := range map[string]string{"github-app-id": "12345678", "github-app-slug": "analytics", "github-base-url": "https://github.example.com"} {
		if got := argument(deployment, flag); got != want {
			t.Errorf("--%s is %q, want %q", flag, got, want)
		}
	}
	if got := argument(only[appsv1.Deployment](t, render(t).of("apiserver"), "Deployment"), "github-app-id"); got != "" {
		t.Errorf("without an App: --github-app-id=%s", got)
	}
}

// requireMountedCA checks that the certificate authorities of a GitHub Enterprise Server are mounted from the same Secret.
func requireMountedCA(t *testing.T, deployment *appsv1.Deployment) {
	t.Helper()
	for _, v := range deployment.Spec.Template.Spec.Volumes {
		if v.Name == "github" && len(v.Secret.Items) == 2 && v.Secret.Items[1].Key == "github-ca.pem" {
			if got := argument(deployment, "github-ca-file"); got != "/etc/quoin/github/"+v.Secret.Items[1].Path {
				t.Errorf("--github-ca-file is %q", got)
			}
			return
		}
	}
	t.Error("the certificate authorities are not mounted")
}

// The port that clients connect to for SQL is that of the Service, and the one that the controller shows them.
func TestShownSQLPortIsThatOfTheService(t *testing.T) {
	for values, want := range map[string]string{"": "5432", "gateway.sql.port=6432": "6432"} {
		all := render(t, "--set", values)
		if got := argument(only[appsv1.Deployment](t, all.of("controller"), "Deployment"), "sql-port"); got != want {
			t.Errorf("%q: --sql-port of the controller is %q, want %s", values, got, want)
		}
		found := ""
		for _, port := range only[corev1.Service](t, all.named("quoin-gateway"), "Service").Spec.Ports {
			if port.Name == "sql" {
				found = strconv.Itoa(int(port.Port))
			}
		}
		if found != want {
			t.Errorf("%q: the Service has SQL on port %q, want %s", values, found, want)
		}
	}
}

// The controller reads repositories from the Service of quoin apiserver, or from the URL of the values. Without a
// database there are none.
func TestRepositoryURLIsThatOfTheService(t *testing.T) {
	for values, want := range map[string]string{
		"": "the Service",
		"apiserver.repositories.url=https://q:44": "https://q:44",
		"apiserver.database.enabled=false":        "",
		"apiserver.enabled=false":                 "",
	} {
		all := render(t, "--set", values)
		if want == "the Service" {
			service := only[corev1.Service](t, all.named("quoin-apiserver"), "Service")
			want = "https://" + service.Name + "." + service.Namespace + ".svc"
		}
		if got := argument(only[appsv1.Deployment](t, all.of("controller"), "Deployment"), "repository-url"); got != want {
			t.Errorf("%q: --repository-url of the controller is %q, want %q", values, got, want)
		}
	}
}

// Metrics are served unless they are disabled.
func TestMetricsAreExposedOnlyIfEnabled(t *testing.T) {
	for _, server := range servers {
		for set, want := range map[string]string{"false": "0", "true": ":8080"} {
			all := render(t, "--set", server+".networkPolicy.enabled=true,"+server+".metrics.enabled="+set).of(server)
			deployment := only[appsv1.Deployment](t, all, "Deployment")
			if got := argument(deployment, "metrics-bind-address"); got != want {
				t.Errorf("%s: metrics.enabled=%s: address %q, want %q", server, set, got, want)
			}
			ports := 0
			for _, rule := range only[networkingv1.NetworkPolicy](t, all, "NetworkPolicy").Spec.Ingress {
				ports += len(rule.Ports)
			}
			if want := len(deployment.Spec.Template.Spec.Containers[0].Ports) - 1; ports != want { // all except the probes
				t.Errorf("%s: metrics.enabled=%s: %d ports are allowed, want %d", server, set, ports, want)
			}
		}
	}
}

func TestDisabledServersLeaveNoObjectsAndPermissions(t *testing.T) {
	for _, server := range servers {
		all := render(t, "--set", server+".enabled=false,accountNamespaces={a}")
		for _, object := range all {
			if strings.Contains(object.GetName(), server) {
				t.Errorf("%s.enabled=false: %s %s", server, object.GetKind(), object.GetName())
			}
		}
		for _, object := range append(all.ofKind("RoleBinding"), all.ofKind("ClusterRoleBinding")...) {
			for _, subject := range convert[rbacv1.RoleBinding](t, object).Subjects {
				if strings.Contains(subject.Name, server) {
					t.Errorf("%s.enabled=false: %s %s has it as a subject", server, object.GetKind(), object.GetName())
				}
			}
		}
	}
}

// Ports of Services refer to ports of the container.
func TestServicesReferToContainerPorts(t *testing.T) {
	for _, server := range servers {
		service := only[corev1.Service](t, render(t, "--set", server+".service.type=LoadBalancer").named("quoin-"+server), "Service")
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			t.Errorf("%s: type %s", server, service.Spec.Type)
		}
	}
	eachValues(t, func(t *testing.T, args []string) {
		all := render(t, args...)
		for _, object := range all.ofKind("Service") {
			service := convert[corev1.Service](t, object)
			container := only[appsv1.Deployment](t, all.of(object.GetLabels()["app.kubernetes.io/component"]), "Deployment").Spec.Template.Spec.Containers[0]
			ports := map[string]bool{}
			for _, port := range container.Ports {
				ports[port.Name] = true
			}
			for _, port := range service.Spec.Ports {
				if !ports[port.TargetPort.StrVal] {
					t.Errorf("Service %s has the target port %q, which %s does not have", service.Name, port.TargetPort.StrVal, container.Name)
				}
			}
		}
	})
	withoutSQL := render(t, "--set", "gateway.sql.enabled=false").of("gateway")
	if got := argument(only[appsv1.Deployment](t, withoutSQL, "Deployment"), "sql-bind-address"); got != "0" {
		t.Errorf("gateway.sql.enabled=false: --sql-bind-address is %q", got)
	}
	if ports := only[corev1.Service](t, withoutSQL.named("quoin-gateway"), "Service").Spec.Ports; len(ports) != 1 || ports[0].Port != 443 {
		t.Errorf("gateway.sql.enabled=false: ports %v", ports)
	}
}

// The grace period is longer than shutdown delay and drain timeout.
func TestGracePeriodCoversDraining(t *testing.T) {
	eachValues(t, func(t *testing.T, args []string) {
		all := render(t, args...)
		for _, server := range servers {
			if len(all.of(server)) == 0 {
				continue
			}
			deployment := only[appsv1.Deployment](t, all.of(server), "Deployment")
			needed := time.Duration(0)
			for flag, absent := range map[string]time.Duration{"shutdown-delay": 5 * time.Second, "drain-timeout": 30 * time.Second} {
				if value := argument(deployment, flag); value != "" {
					var err error
					if absent, err = time.ParseDuration(value); err != nil {
						t.Errorf("--%s: %v", flag, err)
					}
				}
				needed += absent
			}
			granted := deployment.Spec.Template.Spec.TerminationGracePeriodSeconds
			if granted == nil || time.Duration(*granted)*time.Second <= needed {
				t.Errorf("%s: terminationGracePeriodSeconds %v, draining takes %s", server, granted, needed)
			}
		}
	})
}

// defaultOf matches a flag and its default in the output of -h.
var defaultOf = regexp.MustCompile(`(?m)^  -(\S+).*\n.*\(default "?(.*?)"?\)$`)

// The defaults of the chart are the defaults of the flags.
func TestChartDefaultsMatchTheFlags(t *testing.T) {
	binary := buildQuoin(t)
	all := render(t)
	for _, component := range components {
		usage, err := exec.CommandContext(t.Context(), binary, component, "-h").CombinedOutput()
		if err != nil {
			t.Fatal(err)
		}
		defaults := map[string]string{}
		for _, match := range defaultOf.FindAllStringSubmatch(string(usage), -1) {
			defaults[match[1]] = match[2]
		}
		args := only[appsv1.Deployment](t, all.of(component), "Deployment").Spec.Template.Spec.Containers[0].Args
		for _, argument := range args[1:] {
			flag, value, _ := strings.Cut(strings.TrimPrefix(argument, "--"), "=")
			if flag == "repository-url" || strings.HasPrefix(flag, "gateway-") { // the Service of the release
				continue
			}
			if defaults[flag] != value {
				t.Errorf("quoin %s: --%s is %q in the chart and %q by default", component, flag, value, defaults[flag])
			}
		}
	}
}

// wantCertificate waits until a server has a certificate for all names.
func (c *cluster) wantCertificate(t *testing.T, roots *x509.CertPool, address string, names ...string) {
	t.Helper()
	for _, name := range names {
		c.eventually(t, "the certificate is valid for", func(ctx context.Context) bool {
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: name}}
			connection, err := dialer.DialContext(ctx, "tcp", address)
			if err != nil {
				return false
			}
			return connection.Close() == nil
		}, name)
	}
}

// get sends a GET request to a server.
func get(t *testing.T, roots *x509.CertPool, address, url, token string) (int, string) {
	t.Helper()
	return call(t, http.MethodGet, roots, address, url, token)
}

// call sends a request to a server at an address, whatever the host in the URL.
func call(t *testing.T, method string, roots *x509.CertPool, address, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
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
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// Reports are run through the gateway of the release, or another one. The certificate authority of a generated certificate is in the
// Secret of the gateway, which is empty until it starts, and of which the pods see nothing else.
func TestAPIServerReachesTheGateway(t *testing.T) {
	for name, tc := range map[string]struct {
		values             []string
		address, secret    string
		key, file          string
		mounted, canBeLate bool
	}{
		"of the release": {nil, "quoin-gateway.quoin-system.svc:443", "quoin-gateway-tls", "ca.crt", "/etc/quoin/gateway/ca.crt", true, true},
		"another": {
			[]string{"--values", "testdata/values/everything.yaml"}, "gateway.example.com:8443", "gateway-ca", "bundle.pem", "/etc/quoin/gateway/ca.crt", true, true,
		},
		"with a certificate of its own": {[]string{"--set", "gateway.tls.secretName=given"}, "quoin-gateway.quoin-system.svc:443", "", "", "", false, false},
		"none":                          {[]string{"--set", "gateway.enabled=false"}, "", "", "", "", false, false},
	} {
		deployment := only[appsv1.Deployment](t, render(t, tc.values...).of("apiserver"), "Deployment")
		if address, file := argument(deployment, "gateway-address"), argument(deployment, "gateway-ca-file"); address != tc.address || file != tc.file {
			t.Errorf("%s: --gateway-address=%s --gateway-ca-file=%s", name, address, file)
		}
		mounted := false
		for _, v := range deployment.Spec.Template.Spec.Volumes {
			if v.Name != "gateway" {
				continue
			}
			mounted = true
			if s := v.Secret; s.SecretName != tc.secret || len(s.Items) != 1 || s.Items[0].Key != tc.key || s.Items[0].Path != "ca.crt" || (s.Optional != nil && *s.Optional) != tc.canBeLate {
				t.Errorf("%s: the volume is %v", name, v)
			}
		}
		if mounted != tc.mounted {
			t.Errorf("%s: mounted is %t", name, mounted)
		}
	}
}
