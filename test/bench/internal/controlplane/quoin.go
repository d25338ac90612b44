package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// awaitInterval is the time between two checks whether a program is ready.
const awaitInterval = 100 * time.Millisecond

// SystemNamespace is the namespace of Quoin itself.
const SystemNamespace = "quoin-system"

// Unlimited are the flags of `quoin apiserver` and `quoin gateway` for no effective rate limits.
var Unlimited = []string{"--requests-per-second=1000000", "--burst=1000000"}

// Quoin is a `quoin apiserver` process.
type Quoin struct {
	*process.Process
	// URL is its address. HTTP trusts its certificate.
	URL     string
	HTTP    *http.Client
	metrics string
	token   string // for the metrics
}

// StartQuoin starts `quoin apiserver` with its defaults, except for the given flags. It is ready when check succeeds.
func (s *APIServer) StartQuoin(ctx context.Context, quoin string, flags []string, check func(*Quoin) error) (*Quoin, error) {
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	metrics, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	token, err := s.metricsToken(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.Start(ctx, "apiserver", quoin, append([]string{"apiserver", "--kubeconfig", s.Kubeconfig,
		"--bind-address", address, "--metrics-bind-address", metrics, "--health-probe-bind-address=0",
		"--log-level=warn", "--shutdown-delay=0s"}, flags...)...)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	q := &Quoin{
		Process: p, URL: "https://" + address, metrics: "https://" + metrics + "/metrics", token: token,
		HTTP: NewHTTPClient(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}),
	}
	return q, process.Await(ctx, "quoin apiserver", int(s.StartTimeout/awaitInterval), awaitInterval, func() error {
		secret := &corev1.Secret{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: SystemNamespace, Name: certificates.SecretName}, secret); err != nil {
			return err
		}
		roots.AppendCertsFromPEM(secret.Data["ca.crt"])
		return check(q)
	})
}

// Metric returns the value of a metric without labels, or 0 if it cannot be read.
func (q *Quoin) Metric(name string) float64 {
	request, err := http.NewRequest(http.MethodGet, q.metrics, nil)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+q.token)
	response, err := q.HTTP.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return measure.Metric(string(text), name)
}

// metricsToken returns a token that may read the metrics.
func (s *APIServer) metricsToken(ctx context.Context) (string, error) {
	const reader = "bench-metrics"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: SystemNamespace, Name: reader}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: reader}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reader},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: SystemNamespace, Name: reader}}}
	for _, o := range []client.Object{account, role, binding} {
		if err := s.Client.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return "", err
		}
	}
	request := &authenticationv1.TokenRequest{}
	if err := s.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return "", err
	}
	return request.Status.Token, nil
}
