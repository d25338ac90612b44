package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

// The accounts, whose namespaces and Kubernetes users have the same names.
const (
	attackerName = "mallory"
	victimName   = "victim"
	// deployment is the deployment of each account.
	deployment = "sales"
	// victimUsers is the number of users in the directory of the victim.
	victimUsers = 200
)

// tenant is an account with what its users need.
type tenant struct {
	Name string
	// Host serves the REST and SCIM API, DataHost the data API of the deployment.
	Host, DataHost string
	// Key is an API key, Token a token for the data API.
	Key, Token string
	// Kubeconfig has the credentials of a user who may change Quoin's objects in the namespace.
	Kubeconfig string
}

// world is a kube-apiserver, the processes of Quoin, and two accounts.
type world struct {
	server *controlplane.APIServer
	quoin  *controlplane.Quoin
	// gateway and sql are addresses of the gateway. trust trusts its certificate.
	gateway, sql string
	trust        *tls.Config

	attacker, victim *tenant
	// attackerCommand is the command that runs a program of the attacker.
	attackerCommand []string
	// serviceAccount is a token of a ServiceAccount of the victim.
	serviceAccount string
	// objects changes objects of the victim, as its user.
	objects client.WithWatch
	git     *gitServer
}

func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (*world, error) {
	w := &world{server: server, attackerCommand: o.attackerCommand()}
	measure.Progress("creating the accounts")
	if err := server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "tenant"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		}},
	); err != nil {
		return nil, err
	}
	for name, to := range map[string]**tenant{attackerName: &w.attacker, victimName: &w.victim} {
		var err error
		if *to, err = w.newTenant(ctx, name); err != nil {
			return nil, fmt.Errorf("account %s: %w", name, err)
		}
	}
	if err := w.createServiceAccount(ctx); err != nil {
		return nil, err
	}
	for name, n := range map[string]int{attackerName: o.users, victimName: victimUsers} {
		if err := w.createUsers(ctx, name, n); err != nil {
			return nil, err
		}
	}
	var err error
	if w.git, err = newGitServer(ctx); err != nil {
		return nil, err
	}
	return w, w.startQuoin(ctx, o)
}

// startPods starts the pods of a tenant's deployments, and returns their addresses by the names of their ports. Those of the
// attacker run as the attacker does.
func (w *world) startPods(ctx context.Context, name string) (map[string]string, error) {
	var by []string
	if name == attackerName {
		by = w.attackerCommand
	}
	_, addresses, err := dataplane.StartBackend(ctx, w.server, podsCommand, by...)
	api, sql, _ := strings.Cut(addresses, " ")
	return map[string]string{engine.PortNameHTTP: api, engine.PortNameSQL: sql}, err
}

func (w *world) newTenant(ctx context.Context, name string) (*tenant, error) {
	pods, err := w.startPods(ctx, name)
	if err != nil {
		return nil, err
	}
	t := &tenant{Name: name, Host: name + ".example.com", DataHost: deployment + ".data." + name + ".example.com"}
	key, err := apikey.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	hash := key.Hash()
	t.Key = key.Reveal()
	config, kubeconfig, err := w.server.AddUser(name)
	if err != nil {
		return nil, err
	}
	t.Kubeconfig = kubeconfig
	if name == victimName {
		if w.objects, err = client.NewWithWatch(config, client.Options{Scheme: w.server.Scheme()}); err != nil {
			return nil, err
		}
	}
	if err := w.server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "tenant"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
		},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AccountSpec{Host: v1alpha1.Host(t.Host), Namespace: name}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: &hash}},
	); err != nil {
		return nil, err
	}
	t.Token, err = dataplane.Deployment{Namespace: name, Name: deployment, Ports: pods}.Create(ctx, w.server)
	return t, err
}

// createServiceAccount creates a ServiceAccount that may use the accounts, and its token.
func (w *world) createServiceAccount(ctx context.Context) error {
	const name = "robot"
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: victimName, Name: name}}
	if err := w.server.CreateAll(ctx, account,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"api." + v1alpha1.GroupVersion.Group}, Resources: []string{"accounts/proxy"}, Verbs: []string{"get"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: victimName, Name: name}},
		},
	); err != nil {
		return err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{auth.Audience}}}
	err := w.server.SubResource("token").Create(ctx, account, request)
	w.serviceAccount = request.Status.Token
	return err
}

// createUsers creates users in the directory of an account.
func (w *world) createUsers(ctx context.Context, account string, n int) error {
	const callers = 16
	measure.Progress("creating %d users of %s", n, account)
	_, err := measure.Spread(ctx, n, callers, func(ctx context.Context, i int) (time.Duration, error) {
		return 0, w.server.Create(ctx, &v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: fmt.Sprintf("user-%d", i)},
			Spec: v1alpha1.ScimUserSpec{
				UserName: fmt.Sprintf("user-%d@%s.example.com", i, account), DisplayName: fmt.Sprintf("User %d of the directory", i), Title: "Analyst",
			},
		})
	})
	return err
}

// startQuoin starts the processes of Quoin with their default limits, and waits until they serve the victim.
func (w *world) startQuoin(ctx context.Context, o options) (err error) {
	measure.Progress("starting quoin")
	if _, err := w.server.Start(ctx, "controller", o.quoin, "controller", "--kubeconfig", w.server.Kubeconfig, "--quoin-image=quoin:bench", "--allow-insecure-git",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--leader-elect=false", "--log-level=warn"); err != nil {
		return err
	}
	flags := []string{"--aggregation", "--database-url=sqlite://" + filepath.Join(w.server.Dir, "content.db")}
	if w.quoin, err = w.server.StartQuoin(ctx, o.quoin, flags, func(q *controlplane.Quoin) error {
		w.quoin = q
		return w.call(ctx, q.HTTP, http.MethodGet, q.URL+"/api/v1/deployments", w.victim.Host, "Bearer "+w.victim.Key)
	}); err != nil {
		return err
	}
	for _, address := range []*string{&w.gateway, &w.sql} {
		if *address, err = freeport.Address(); err != nil {
			return err
		}
	}
	if _, err := dataplane.StartGateway(ctx, w.server, o.quoin, w.gateway, "--sql-bind-address", w.sql, "--log-level=warn"); err != nil {
		return err
	}
	return dataplane.AwaitCertificate(ctx, w.server, w.victim.DataHost, func(trust *tls.Config) error {
		w.trust = trust
		return w.query(false).request(ctx)
	})
}

// orders tell an attacker what to attack, as JSON.
type orders struct {
	Attack string
	// Gateway, SQL and API are addresses.
	Gateway, SQL, API string
	Victim, Attacker  *tenant
	// Result is the file for the outcomes.
	Result string
}

func (w *world) orders(attack string) ([]byte, error) {
	victim := *w.victim
	victim.Key, victim.Token, victim.Kubeconfig = "", "", "" // secrets of the victim
	return json.Marshal(orders{
		Attack: attack, Gateway: w.gateway, SQL: w.sql, API: strings.TrimPrefix(w.quoin.URL, "https://"),
		Victim: &victim, Attacker: w.attacker, Result: w.resultFile(),
	})
}

func (w *world) resultFile() string { return filepath.Join(w.server.Dir, "attacker.json") }
