package chart_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
)

// tenant is an account with a deployment, as the controllers would create its objects.
const tenant = `
apiVersion: platform.quoin.dev/v1alpha1
kind: Account
metadata: {name: NAME}
spec: {host: NAME.example.com, namespace: tenant-NAME}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Deployment
metadata: {name: sales, namespace: tenant-NAME}
spec: {releaseChannel: latest, model: {configMapRef: {name: model}}}
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Environment
metadata: {name: sales-production, namespace: tenant-NAME}
spec: {deploymentRef: {name: sales}, type: production, version: 1.0.0, image: "cube:v1.0.0"}
---
apiVersion: v1
kind: Secret
metadata: {name: sales-production-credentials, namespace: tenant-NAME}
stringData: {apiSecret: secret-of-NAME}
`

// TestGatewayRunsWithItsRole starts the gateway locally with the arguments and the ServiceAccount of the chart. The
// namespace of one account is in accountNamespaces; the RoleBinding of the other one is created later.
func TestGatewayRunsWithItsRole(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace, "monitoring", "tenant-a", "tenant-b")
	c.helm(t, "install", releaseName, chartFolder, "--set", "accountNamespaces={tenant-a},"+readers)
	c.createScrapers(t)
	for _, name := range []string{"a", "b"} {
		file := filepath.Join(t.TempDir(), "tenant.yaml")
		writeFile(t, file, strings.ReplaceAll(tenant, "NAME", name))
		c.kubectl(t, "wait", "crd", "--all", "--for=condition=Established")
		c.kubectl(t, "apply", "-f", file)
	}
	c.createSecrets(t)
	health, address, sql, metrics := freeAddress(t), freeAddress(t), freeAddress(t), freeAddress(t)
	log, stop := c.run(t, "gateway", buildQuoin(t), "--health-probe-bind-address="+health, "--bind-address="+address,
		"--sql-bind-address="+sql, "--metrics-bind-address="+metrics, "--shutdown-delay=0s", "--wait-timeout=0s")
	c.eventually(t, "the gateway is ready", func(ctx context.Context) bool {
		return status(ctx, "http://"+health+"/readyz", "") == http.StatusOK
	})
	c.wantMetrics(t, metrics)
	wantReady(t, "--https="+address+","+metrics, "--sql="+sql)
	certificate := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-gateway-tls"}, certificate); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate.Data["ca.crt"])
	c.wantCertificate(t, roots, address, "quoin-gateway."+releaseNamespace+".svc", "sales.data.a.example.com", "sales.sql.data.a.example.com", "sales.data.b.example.com")

	ask := func(account, secret string, wantStatus int, want string) {
		t.Helper()
		status, body := get(t, roots, address, "https://sales.data."+account+".example.com/cubejs-api/v1/load", signed(t, secret))
		if status != wantStatus || !strings.Contains(body, want) {
			t.Errorf("account %s, %s: %d %s, want %d %s", account, secret, status, body, wantStatus, want)
		}
	}
	ask("a", "secret-of-a", http.StatusServiceUnavailable, "no pod of the environment is ready")
	ask("a", "secret-of-b", http.StatusUnauthorized, "not valid for this environment")
	ask("b", "secret-of-b", http.StatusServiceUnavailable, "an administrator must grant access")
	// The log line may be written after the response.
	c.eventually(t, "the log says where a binding is missing", func(context.Context) bool {
		return log.has(`"namespace":"tenant-b"`, "quoin-account", "RoleBinding")
	})
	if log.has(`"namespace":"tenant-a"`, "RoleBinding") {
		t.Error("the log says that a binding is missing where there is one")
	}

	// As documented for administrators.
	c.kubectl(t, "create", "rolebinding", "quoin-account", "--clusterrole=quoin-account", "--namespace=tenant-b",
		"--serviceaccount=quoin-system:quoin-controller", "--serviceaccount=quoin-system:quoin-gateway")
	c.eventually(t, "the gateway may check tokens", func(context.Context) bool {
		status, _ := get(t, roots, address, "https://sales.data.b.example.com/cubejs-api/v1/load", signed(t, "secret-of-a"))
		return status == http.StatusUnauthorized
	})
	ask("b", "secret-of-b", http.StatusServiceUnavailable, "no pod of the environment is ready")
	stop()
	wantNoForbidden(t, log)
}

// createSecrets creates the empty Secrets of the certificates, as the controller does with its role.
func (c *cluster) createSecrets(t *testing.T) {
	t.Helper()
	if err := (&certificates.EmptySecrets{Reader: c.Client, Writer: c.Client, Namespace: releaseNamespace}).Once(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// signed returns a token of the data API.
func signed(t *testing.T, secret string) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	return token
}
