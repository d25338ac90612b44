// Package roles_test runs `quoin controller`, `quoin apiserver` and `quoin gateway` as processes with their roles through
// what the other suites do not do with them: metrics for authenticated readers, a deployment that shrinks, and the deletion
// of an account. make rbac-check reads the audit logs of all suites.
package roles_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const account = "acme"

// cluster is the API server of the tests, and metrics the addresses of the processes' metrics, by subcommand.
var (
	cluster *clustertest.Cluster
	metrics = map[string]string{}
)

func TestMain(m *testing.M) {
	clustertest.Main(m, func(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		cluster = c
		if err := start(ctx); err != nil {
			return 0, err
		}
		return m.Run(), nil
	})
}

// start starts the processes and creates an account with a channel.
func start(ctx context.Context) error {
	if err := cluster.Build(); err != nil {
		return err
	}
	for command, args := range map[string][]string{
		clustertest.Controller: {"--leader-elect", "--quoin-image=quoin:test"},
		clustertest.APIServer:  {"--bind-address=127.0.0.1:0", "--database-url=sqlite://" + filepath.Join(cluster.Folder, "quoin.db")},
		clustertest.Gateway:    {"--bind-address=127.0.0.1:0", "--sql-bind-address=0"},
	} {
		address, err := freeport.Address()
		if err != nil {
			return err
		}
		metrics[command] = address
		p := cluster.Quoin(filepath.Join(cluster.Folder, command+".log"), command, append(args, "--metrics-bind-address="+address)...)
		if err := p.Start(); err != nil {
			return err
		}
		context.AfterFunc(ctx, p.Kill)
	}
	go clustertest.KeepWorkloadsReady(ctx, cluster.Client, nil)
	if err := createChannel(ctx); err != nil {
		return err
	}
	return cluster.Account(ctx, account, v1alpha1.AccountSpec{Host: "acme.example.com"},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}})
}

// createChannel creates a channel with a version. Its registry cannot be reached, so it keeps that one.
func createChannel(ctx context.Context) error {
	c := &v1alpha1.ReleaseChannel{
		ObjectMeta: metav1.ObjectMeta{Name: "stable"},
		Spec:       v1alpha1.ReleaseChannelSpec{ImageRepository: "127.0.0.1:1/cube", StoreImageRepository: "127.0.0.1:1/store", Suspend: ptr.To(true)},
	}
	if err := cluster.Client.Create(ctx, c); err != nil {
		return err
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	patch := fmt.Sprintf(`{"status":{"versions":[{"version":"1.2.3","image":"127.0.0.1:1/cube:v1.2.3","storeImage":"127.0.0.1:1/store:v1.2.3","digest":%q,"firstSeen":"2026-01-01T00:00:00Z"}]}}`, digest)
	return cluster.Client.Status().Patch(ctx, c, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// token creates a ServiceAccount, which may read metrics if reader is true, and returns a token of it.
func token(t *testing.T, name string, reader bool) string {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if _, err := clientset.CoreV1().ServiceAccounts("default").Create(t.Context(), owner, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if reader {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quoin-metrics-reader"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}
		if _, err := clientset.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	request, err := clientset.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// TestMetricsAreForReaders: each process serves its metrics to ServiceAccounts with the role quoin-metrics-reader only.
func TestMetricsAreForReaders(t *testing.T) {
	reader, other := token(t, "reader", true), token(t, "other", false)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	scraper := &http.Client{Transport: transport, Timeout: apiclient.Timeout}
	for command, address := range metrics {
		for _, test := range []struct {
			name, token string
			status      int
		}{{"reader", reader, 200}, {"without the role", other, 403}, {"without a token", "", 401}} {
			apiclient.Soon(t, func() error { // the process starts, and the authorizer watches bindings
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/metrics", nil)
				if err != nil {
					return err
				}
				if test.token != "" {
					request.Header.Set("Authorization", "Bearer "+test.token)
				}
				response, err := scraper.Do(request)
				if err != nil {
					return err
				}
				defer response.Body.Close()
				body, err := io.ReadAll(response.Body)
				if err != nil {
					return err
				}
				if has := strings.Contains(string(body), "quoin_build_info"); response.StatusCode != test.status || has != (test.status == 200) {
					return fmt.Errorf("%s, %s: status %d, want %d; metrics: %t", command, test.name, response.StatusCode, test.status, has)
				}
				return nil
			})
		}
	}
}

// count waits until there are n objects of a kind in the namespace of the account.
func count(t *testing.T, list client.ObjectList, n int) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := cluster.Client.List(t.Context(), list, client.InNamespace(account)); err != nil {
			return err
		}
		if got := meta.LenList(list); got != n {
			return fmt.Errorf("%d objects in %T, want %d", got, list, n)
		}
		return nil
	})
}

// TestLifeOfAnAccount: a deployment shrinks, and the account is deleted with all of its objects.
func TestLifeOfAnAccount(t *testing.T) {
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "analytics"},
		Spec: v1alpha1.DeploymentSpec{ReleaseChannel: "stable", Size: v1alpha1.SizeDedicated, Model: v1alpha1.ModelSource{
			ConfigMapRef: &v1alpha1.LocalReference{Name: "model"},
		}},
	}
	user := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com"}}
	objects := []client.Object{d, user,
		&v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "staff"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Staff"}},
		&v1alpha1.UserAttribute{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "region"}, Spec: v1alpha1.UserAttributeSpec{Name: "region", Type: "string"}},
		&v1alpha1.OAuthIntegration{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "warehouse"}, Spec: v1alpha1.OAuthIntegrationSpec{
			Type: "warehouse", AuthorizationURL: "https://login.example.com/authorize", TokenURL: "https://login.example.com/token", ClientID: "quoin",
			ClientSecretRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "clientSecret"},
		}},
		&v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "aws"}, Spec: v1alpha1.OidcTokenConfigSpec{AudienceType: v1alpha1.OidcAudienceAWS}},
		&v1alpha1.Folder{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "finance"}, Spec: v1alpha1.FolderSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Name: "Finance",
		}},
		&v1alpha1.Workbook{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "sales"}, Spec: v1alpha1.WorkbookSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Slug: "sales", Definition: &v1alpha1.WorkbookDefinition{}, FolderRef: &v1alpha1.LocalReference{Name: "finance"},
		}},
		&v1alpha1.AccountRole{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "analyst"}, Spec: v1alpha1.AccountRoleSpec{Name: "Analyst"}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "admin"}},
		&v1alpha1.DbtSync{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "one"}, Spec: v1alpha1.DbtSyncSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Source: v1alpha1.DbtSource{Git: &v1alpha1.DbtGitSource{URL: "https://git.example.com/dbt.git"}},
		}},
	}
	for _, o := range objects {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	ready(t, d)
	count(t, &appsv1.StatefulSetList{}, 1)
	count(t, &appsv1.DeploymentList{}, 2)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"size":"Shared","replicas":1}}`))
	if err := cluster.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	count(t, &appsv1.StatefulSetList{}, 0)
	count(t, &appsv1.DeploymentList{}, 1)
	ready(t, d)
	acct := &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: account}}
	if err := cluster.Client.Delete(t.Context(), acct); err != nil {
		t.Fatal(err)
	}
	for _, o := range append(objects, acct) {
		apiclient.Soon(t, func() error {
			switch err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); {
			case err == nil:
				return fmt.Errorf("%T %s exists", o, o.GetName())
			default:
				return client.IgnoreNotFound(err)
			}
		})
	}
}

// ready waits until the deployment is ready in its current generation.
func ready(t *testing.T, d *v1alpha1.Deployment) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != d.Generation {
			return fmt.Errorf("conditions %+v", d.Status.Conditions)
		}
		return nil
	})
}
