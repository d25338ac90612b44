// Package agents_test tests the AI API. `quoin apiserver` and `quoin gateway` run in the test process, with a real kube-apiserver; the
// pods of the deployments and the servers of the models are servers of the test, which speak the protocols of real ones.
package agents_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/apiserver/queries"
	"github.com/quoin-dev/quoin/controllers/userattribute"
	"github.com/quoin-dev/quoin/gateway"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

var (
	k8s client.Client
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
	// proxy is the gateway, and scripted the server of the model.
	proxy    *gateways
	scripted *llm
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	k8s = c.Client
	if err := discoveryv1.AddToScheme(k8s.Scheme()); err != nil {
		return 0, err
	}
	if err := inprocess.Control(ctx, c, userattribute.New, userattribute.SetupWithManager); err != nil {
		return 0, err
	}
	address, err := freeport.Address()
	if err != nil {
		return 0, err
	}
	proxy = &gateways{cluster: c, address: address}
	if err := proxy.start(); err != nil {
		return 0, err
	}
	defer proxy.stop()
	caFile := filepath.Join(c.Folder, "gateway-ca.crt")
	if err := writeCA(ctx, caFile); err != nil {
		return 0, err
	}
	scripted = startModel()
	defer scripted.Close()
	if err := endpoints(ctx); err != nil {
		return 0, err
	}
	for _, a := range []*account{acme, globex} {
		if err := a.create(ctx, c); err != nil {
			return 0, fmt.Errorf("account %s: %w", a.name, err)
		}
	}
	server, err := inprocess.Serve(ctx, c, apiserver.Config{Gateway: queries.Gateway{Address: address, CAFile: caFile}})
	if err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: 2 * apiclient.Timeout}
	return server.Run(m)
}

// writeCA writes the certificate authority of the gateway to a file.
func writeCA(ctx context.Context, file string) error {
	secret := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.GatewaySecretName}, secret); err != nil {
		return err
	}
	return os.WriteFile(file, secret.Data["ca.crt"], 0o600)
}

// gateways is `quoin gateway`, which can be stopped and started again at the same address.
type gateways struct {
	cluster *clustertest.Cluster
	address string
	stop    func()
}

func (g *gateways) start() error {
	listening, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	config := gateway.Config{
		Namespace: clustertest.Namespace, Service: "quoin-gateway", HTTPS: serving.Endpoint{Address: g.address},
		OnListen: func(gateway.Addresses) { close(listening) }, RequestsPerSecond: 1e6, Burst: 1e6, MaxInFlight: 1000, MaxRequests: 2000,
		WaitTimeout: 100 * time.Millisecond, MaxWaiting: 100, DrainTimeout: time.Millisecond, Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	}
	go func() { ended <- gateway.Run(ctx, g.cluster.As(clustertest.Gateway), config) }()
	g.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	select {
	case <-listening:
		return nil
	case err := <-ended:
		ended <- err
		return fmt.Errorf("the gateway stopped: %w", err)
	}
}

// account is an account with a deployment, whose number is 1. Its host for data is sales.data.<host>.
type account struct {
	name string
	// admin is a program; scoped is one that is limited to another deployment; reader is a program that only reads. ada is an
	// Explorer and ben a Viewer, who writes no SQL. lost and evaluator are keys of ada that tests delete.
	admin, scoped, reader, ada, ben, lost, evaluator string
}

var acme, globex = &account{name: "acme"}, &account{name: "globex"}

const deployment = "sales"

func (a *account) host() string { return a.name + ".example.com" }

func (a *account) create(ctx context.Context, c *clustertest.Cluster) error {
	owner := func(name string) *v1alpha1.ApiKeyOwner { return &v1alpha1.ApiKeyOwner{ScimUser: name} }
	keys, tokens, err := clustertest.Keys(a.name, map[string]v1alpha1.ApiKeySpec{
		"admin": {}, "ada": {Owner: owner("ada")}, "ben": {Owner: owner("ben")}, "lost": {Owner: owner("ada")}, "evaluator": {Owner: owner("ada")},
		"reader": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead, v1alpha1.PermissionDeploymentAgentRead}}, "scoped": {Deployments: []string{"hr"}},
	})
	if err != nil {
		return err
	}
	a.admin, a.scoped, a.reader, a.ada, a.ben, a.lost, a.evaluator = tokens["admin"], tokens["scoped"], tokens["reader"], tokens["ada"], tokens["ben"], tokens["lost"], tokens["evaluator"]
	person := func(name, country string, role v1alpha1.AccountRoleReference) *v1alpha1.ScimUser {
		return &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name}, Spec: v1alpha1.ScimUserSpec{
			UserName: name + "@example.com", AccountRoles: []v1alpha1.AccountRoleReference{role}, Attributes: []v1alpha1.UserAttributeValue{{
				Name: "country", UserAttributeContent: v1alpha1.UserAttributeContent{String: &country},
			}},
		}}
	}
	country := &v1alpha1.UserAttribute{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: "country"}, Spec: v1alpha1.UserAttributeSpec{Name: "country", Type: v1alpha1.UserAttributeString}}
	objects := append(keys, country, person("ada", "CH", "Explorer"), person("ben", "DE", "Viewer"))
	if err := c.Account(ctx, a.name, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(a.host()), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, objects...); err != nil {
		return err
	}
	if err := c.Deploy(ctx, a.name, deployment, 1); err != nil {
		return err
	}
	if err := a.keepModel(ctx); err != nil {
		return err
	}
	production := &v1alpha1.Environment{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: a.name, Name: v1alpha1.ProductionName(deployment)}, production); err != nil {
		return err
	}
	before := production.DeepCopy()
	production.Status.APICredentials = &v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: "https://" + deployment + ".data." + a.host() + "/cubejs-api"}, SQL: v1alpha1.SQLCredentials{Host: deployment + ".sql.data." + a.host(), Port: 5432},
	}
	if err := k8s.Status().Patch(ctx, production, client.MergeFrom(before)); err != nil {
		return err
	}
	return a.agents(ctx)
}

// keepModel moves the data model of the deployment to a repository that Quoin keeps.
func (a *account) keepModel(ctx context.Context) error {
	d := &v1alpha1.Deployment{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: a.name, Name: deployment}, d); err != nil {
		return err
	}
	d.Spec.Model = v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}
	return k8s.Update(ctx, d)
}

// endpoints creates the model endpoints: one that works, one for globex only, and one whose Secret does not exist.
func endpoints(ctx context.Context) error {
	nowhere, err := freeport.Address()
	if err != nil {
		return err
	}
	endpoint := func(name string, change func(*v1alpha1.ModelEndpointSpec)) client.Object {
		e := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ModelEndpointSpec{
			Protocol: v1alpha1.ModelOpenAI, BaseURL: v1alpha1.ModelBaseURL(scripted.URL + "/v1"), Model: "scripted",
			APIKeySecretRef: &v1alpha1.SecretKeyReference{Name: "model", Key: "key"},
			Limits:          &v1alpha1.ModelLimits{MaxConcurrentRequests: ptr.To(int32(600))},
		}}
		change(&e.Spec)
		return e
	}
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clustertest.Namespace, Name: "model"}, Data: map[string][]byte{"key": []byte(modelKey)}},
		endpoint("scripted", func(*v1alpha1.ModelEndpointSpec) {}),
		endpoint("of-globex", func(s *v1alpha1.ModelEndpointSpec) { s.AllowedAccounts = []string{"globex"} }),
		endpoint("unreachable", func(s *v1alpha1.ModelEndpointSpec) { s.BaseURL = v1alpha1.ModelBaseURL("http://" + nowhere + "/v1") }),
		endpoint("other", func(s *v1alpha1.ModelEndpointSpec) { s.Model = "other" }),
		endpoint("no-secret", func(s *v1alpha1.ModelEndpointSpec) { s.APIKeySecretRef.Name = "missing" }),
	} {
		if err := k8s.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// modelKey is the API key of the model.
const modelKey = "sk-the-key-of-the-model"

// Numbers of agents.
const (
	analyst = iota + 1
	suspended
	ofGlobex
	noSecret
	noEndpoint
	small
	unreachable
)

// agents creates the agents of an account.
func (a *account) agents(ctx context.Context) error {
	for number, spec := range map[int]v1alpha1.AgentSpec{
		analyst:     {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "scripted"}, Instructions: "Be brief."},
		suspended:   {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "scripted"}, Suspended: ptr.To(true)},
		ofGlobex:    {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "of-globex"}},
		noSecret:    {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "no-secret"}},
		noEndpoint:  {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "none"}},
		unreachable: {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "unreachable"}},
		small:       {ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "scripted"}, Limits: &v1alpha1.AgentLimits{ToolCalls: ptr.To(int32(2))}},
	} {
		spec.DeploymentRef.Name = deployment
		o := &v1alpha1.Agent{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: fmt.Sprint("agent-", number), Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(number)}},
			Spec:       spec,
		}
		if err := k8s.Create(ctx, o); err != nil {
			return err
		}
		before := o.DeepCopy()
		o.Status.ID = int64(number)
		if err := k8s.Status().Patch(ctx, o, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}
