package serving_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// frontProxy returns a client with a certificate of the Kubernetes API server, whose authority it publishes as that does.
func frontProxy(t *testing.T) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// Its own authority.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "front-proxy"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	published := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(published), published); err != nil {
		t.Fatal(err)
	}
	before := published.DeepCopy()
	published.Data["requestheader-client-ca-file"] = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	published.Data["requestheader-username-headers"] = `["X-Remote-User"]`
	published.Data["requestheader-group-headers"] = `["X-Remote-Group"]`
	published.Data["requestheader-extra-headers-prefix"] = `["X-Remote-Extra-"]`
	published.Data["requestheader-allowed-names"] = `["front-proxy"]`
	if err := cluster.Client.Patch(t.Context(), published, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after := published.DeepCopy()
		after.Data = before.Data
		_ = cluster.Client.Patch(context.WithoutCancel(t.Context()), after, client.MergeFrom(published)) // the cluster ends with the tests
	})
	c := from(t, 1)
	transport, _ := c.Transport.(*http.Transport)
	transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, nil
	}
	return c
}

// TestDiscoveryWithoutDatabase: the database of `quoin apiserver` is not available. The Kubernetes API server still reads the
// discovery and OpenAPI documents of the aggregated API: otherwise the APIService would be unavailable, and no namespace of
// the cluster could be deleted. Requests that need the database get 503, all others are served.
func TestDiscoveryWithoutDatabase(t *testing.T) {
	kubernetes := frontProxy(t)
	for _, path := range []string{"/apis", "/apis/api.platform.quoin.dev/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/api.platform.quoin.dev/v1"} {
		apiclient.Soon(t, func() error { // the authority is read within seconds
			a, err := apiclient.Request{
				Method: http.MethodGet, URL: "https://" + victim + path, Host: "quoin-apiserver.quoin-system.svc",
				Header: []string{"X-Remote-User", "system:kube-aggregator", "X-Remote-Group", "system:masters"},
			}.Send(t.Context(), kubernetes)
			if err == nil && a.Status != http.StatusOK {
				err = fmt.Errorf("%s: %d %s", path, a.Status, a.Body)
			}
			return err
		})
	}
	works(t, map[string]string{victim: "victim-1", other: "other-1"})
	a := get(t, from(t, 1), other, "/api/v1/audit-logs/export", keys["other-1"])
	if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), `"error"`) {
		t.Errorf("the audit log: %d %s", a.Status, a.Body)
	}
}
