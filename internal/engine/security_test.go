package engine_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// TestPodSecurityStandard checks every pod against the Pod Security Standard "restricted".
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func TestPodSecurityStandard(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		for _, w := range templates(engine.Render(f.inputs(t))) {
			for _, violation := range violations(w.pod.Spec) {
				t.Errorf("%s: %s", w.name, violation)
			}
		}
	})
}

func violations(pod corev1.PodSpec) []string {
	var found []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Sprintf(format, args...))
		}
	}
	check(!pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "host namespaces")
	s := pod.SecurityContext
	check(s != nil && s.RunAsNonRoot != nil && *s.RunAsNonRoot, "runAsNonRoot")
	check(s.RunAsUser != nil && *s.RunAsUser != 0, "runAsUser")
	check(s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault, "seccomp profile")
	check(s.SELinuxOptions == nil && s.AppArmorProfile == nil && len(s.Sysctls) == 0 && s.WindowsOptions == nil, "SELinux, AppArmor, sysctls")
	for _, v := range pod.Volumes {
		check(v.ConfigMap != nil || v.EmptyDir != nil || v.PersistentVolumeClaim != nil || v.Secret != nil, "type of volume %q", v.Name)
	}
	for _, c := range append(slices.Clone(pod.InitContainers), pod.Containers...) {
		s := c.SecurityContext
		check(s != nil && s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation, "%s: allowPrivilegeEscalation", c.Name)
		check(s.Capabilities != nil && slices.Contains(s.Capabilities.Drop, "ALL") && len(s.Capabilities.Add) == 0, "%s: capabilities", c.Name)
		check(s.Privileged == nil && s.ProcMount == nil && s.RunAsUser == nil && s.RunAsNonRoot == nil && s.SeccompProfile == nil, "%s: overrides", c.Name)
		for _, p := range c.Ports {
			check(p.HostPort == 0, "%s: host port %d", c.Name, p.HostPort)
		}
		for _, handler := range probeHandlers(c) {
			check(handler.HTTPGet == nil || handler.HTTPGet.Host == "", "%s: host of a probe", c.Name)
			check(handler.TCPSocket == nil || handler.TCPSocket.Host == "", "%s: host of a probe", c.Name)
		}
		// Beyond the standard.
		check(s.ReadOnlyRootFilesystem != nil && *s.ReadOnlyRootFilesystem, "%s: root file system can be written", c.Name)
		check(len(c.Resources.Requests) > 0, "%s: no requests", c.Name)
		check(!c.Resources.Limits.Memory().IsZero(), "%s: no limit of memory", c.Name)
	}
	check(pod.AutomountServiceAccountToken != nil && !*pod.AutomountServiceAccountToken, "token of the service account")
	return found
}

func probeHandlers(c corev1.Container) []corev1.ProbeHandler {
	var out []corev1.ProbeHandler
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil {
			out = append(out, p.ProbeHandler)
		}
	}
	return out
}

// No probe of the server depends on the warehouse.
func TestProbesDoNotDependOnTheWarehouse(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		for component, pod := range podTemplates(f.inputs(t)) {
			if !strings.HasPrefix(component, "store-") {
				for _, handler := range probeHandlers(pod.Spec.Containers[0]) {
					if handler.TCPSocket == nil {
						t.Errorf("%s: probe %+v", component, handler)
					}
				}
			}
		}
	})
}

func TestNewCredentials(t *testing.T) {
	in := shared().inputs(t)
	random := bytes.NewReader(append(bytes.Repeat([]byte{0xab}, 32), append(bytes.Repeat([]byte{0xcd}, 32), bytes.Repeat([]byte{0xef}, 32)...)...))
	secrets, err := engine.NewCredentials(in, random)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]string{}
	for _, s := range secrets {
		got[s.Name] = map[string]string{}
		for key, value := range s.Data {
			got[s.Name][key] = string(value)
		}
		if s.Type != corev1.SecretTypeOpaque || s.Immutable != nil || s.Namespace != "acme" || s.Labels["app.kubernetes.io/instance"] != "sales-production" {
			t.Errorf("secret %+v", s)
		}
	}
	want := map[string]map[string]string{
		"sales-production-credentials": {"apiSecret": strings.Repeat("ab", 32), "sqlPassword": strings.Repeat("cd", 32)},
		"sales-production-gateway":     {"metadataKey": strings.Repeat("ef", 32)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := engine.NewCredentials(in, bytes.NewReader(make([]byte, 95))); err == nil {
		t.Error("no error for too little randomness")
	}
}

func TestPodsDoNotUseTheMetadataKey(t *testing.T) {
	eachCase(t, func(t *testing.T, f fixture) {
		text := string(document(t, engine.Render(f.inputs(t))))
		for _, secret := range []string{engine.GatewayCredentialsName(f.environment.Name), engine.KeyMetadata} {
			if strings.Contains(text, secret) {
				t.Errorf("the objects contain %q", secret)
			}
		}
	})
}

// The server does not start without the type of a data source. Secrets of spec.envFrom may have the type,
// which a variable of the platform would override.
func TestDefaultDataSource(t *testing.T) {
	f := shared()
	f.deployment.Spec.Env = nil
	if got := variable(t, podTemplates(f.inputs(t))["api"].Spec.Containers[0], "CUBEJS_DB_TYPE").Value; got != "postgres" {
		t.Errorf("CUBEJS_DB_TYPE = %q, want a default", got)
	}
	f.deployment.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", Value: ptr.To("mysql")}}
	if got := variable(t, podTemplates(f.inputs(t))["api"].Spec.Containers[0], "CUBEJS_DB_TYPE").Value; got != "mysql" {
		t.Errorf("CUBEJS_DB_TYPE = %q, want the user's", got)
	}
	f.deployment.Spec.Env, f.deployment.Spec.EnvFrom = nil, []v1alpha1.LocalReference{{Name: "warehouse"}}
	for _, v := range podTemplates(f.inputs(t))["api"].Spec.Containers[0].Env {
		if v.Name == "CUBEJS_DB_TYPE" {
			t.Errorf("CUBEJS_DB_TYPE = %q overrides the Secret", v.Value)
		}
	}
}

// Values of users are not expanded.
func TestValuesAreLiteral(t *testing.T) {
	container := podTemplates(overrides().inputs(t))["api"].Spec.Containers[0]
	if got, want := variable(t, container, "CUBEJS_DB_NAME").Value, "a$$(HOME)b$$$$c"; got != want {
		t.Errorf("CUBEJS_DB_NAME = %q, want %q", got, want)
	}
	if got := variable(t, container, "CUBEJS_TELEMETRY").Value; got != "true" {
		t.Errorf("CUBEJS_TELEMETRY = %q, want the user's", got)
	}
}
