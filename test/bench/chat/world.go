package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/bench/internal/controlplane"
	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const (
	host    = "bench.example.com"
	account = "bench"
	agentID = 1
)

// world has the targets.
type world struct {
	apiserver  *controlplane.Quoin
	chat, bare *target
}

// newWorld starts the model, the bare proxy and quoin apiserver.
func newWorld(ctx context.Context, o options, server *controlplane.APIServer) (*world, error) {
	model, err := start(ctx, server, modelCommand, strconv.Itoa(o.rate), o.time.String())
	if err != nil {
		return nil, err
	}
	proxy, err := start(ctx, server, proxyCommand, model)
	if err != nil {
		return nil, err
	}
	token, err := createObjects(ctx, server, model)
	if err != nil {
		return nil, err
	}
	w := &world{bare: &target{
		// The certificate of the bare proxy is self-signed.
		client: controlplane.NewHTTPClient(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}),
		build: func(ctx context.Context, _ int) (*http.Request, error) {
			return http.NewRequestWithContext(ctx, http.MethodPost, "https://"+proxy+"/", http.NoBody)
		},
	}}
	// Nothing is queried, so the address of the gateway is one where none is.
	gateway, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	flags := append([]string{"--database-url=sqlite://" + filepath.Join(server.Dir, "quoin.db"), "--gateway-address=" + gateway}, controlplane.Unlimited...)
	w.apiserver, err = server.StartQuoin(ctx, o.quoin, flags, func(q *controlplane.Quoin) error {
		w.chat = &target{q.HTTP, func(ctx context.Context, n int) (*http.Request, error) { return message(ctx, q.URL, token, n) }}
		return ready(ctx, w.chat)
	})
	return w, err
}

// start starts this program again, and returns its address.
func start(ctx context.Context, server *controlplane.APIServer, args ...string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	p, address, err := process.StartListener(args[0], exec.CommandContext(ctx, self, args...))
	if err == nil {
		server.Programs = append(server.Programs, p)
	}
	return address, err
}

// ready returns an error unless a stream begins.
func ready(ctx context.Context, t *target) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the first line is enough
	r, err := t.build(ctx, -1)
	if err != nil {
		return err
	}
	response, err := t.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}

// message returns the request of an external person with a number, in a new thread.
func message(ctx context.Context, address, token string, n int) (*http.Request, error) {
	body, err := json.Marshal(map[string]any{
		"input": "What time is it?", "messageId": fmt.Sprintf("%d-message", time.Now().UnixMilli()),
		"sessionSettings": map[string]any{"externalId": fmt.Sprintf("person-%d", n)},
	})
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("%s/api/v1/public/%s/agents/%d/chat/stream-chat-state", address, account, agentID)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err == nil {
		r.Host = host
		r.Header.Set("Authorization", "Api-Key "+token)
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// createObjects creates an account with a key, a deployment, and an agent of the model at an address. It returns the token of the
// key.
func createObjects(ctx context.Context, server *controlplane.APIServer, model string) (string, error) {
	token, err := apikey.New(rand.Reader)
	if err != nil {
		return "", err
	}
	deployment := dataplane.Deployment{Namespace: account, Name: "sales"}
	endpoint := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "scripted"}, Spec: v1alpha1.ModelEndpointSpec{
		Protocol: v1alpha1.ModelOpenAI, BaseURL: v1alpha1.ModelBaseURL("http://" + model + "/v1"), Model: "bench",
		Limits: &v1alpha1.ModelLimits{MaxConcurrentRequests: ptr.To(int32(1000))},
	}}
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "clock", Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(agentID)}}, Spec: v1alpha1.AgentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: deployment.Name}, ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: endpoint.Name},
	}}
	if err := server.CreateAll(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controlplane.SystemNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: account}},
		&v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: account}, Spec: v1alpha1.AccountSpec{Host: host, Namespace: account}},
		&v1alpha1.ApiKey{ObjectMeta: metav1.ObjectMeta{Namespace: account, Name: "key"}, Spec: v1alpha1.ApiKeySpec{Token: ptr.To(token.Hash())}},
		endpoint, agent,
	); err != nil {
		return "", err
	}
	agent.Status.ID = agentID
	if err := server.Status().Update(ctx, agent); err != nil {
		return "", err
	}
	if _, err := deployment.Create(ctx, server); err != nil {
		return "", err
	}
	return token.Reveal(), settle(ctx, server, deployment)
}

// settle writes the status that the controllers would write.
func settle(ctx context.Context, server *controlplane.APIServer, of dataplane.Deployment) error {
	d := &v1alpha1.Deployment{}
	key := client.ObjectKey{Namespace: of.Namespace, Name: of.Name}
	if err := server.Get(ctx, key, d); err != nil {
		return err
	}
	d.Labels = map[string]string{v1alpha1.LabelID: "1"}
	if err := server.Update(ctx, d); err != nil {
		return err
	}
	d.Status.ID = "1"
	if err := server.Status().Update(ctx, d); err != nil {
		return err
	}
	e := &v1alpha1.Environment{}
	if err := server.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: v1alpha1.ProductionName(of.Name)}, e); err != nil {
		return err
	}
	e.Status.CredentialsSecret = engine.CredentialsName(e.Name)
	e.Status.APICredentials = &v1alpha1.APICredentials{
		REST: v1alpha1.RESTCredentials{URL: "https://sales.data." + host + "/cubejs-api"}, SQL: v1alpha1.SQLCredentials{Host: "sales.sql.data." + host, Port: 5432},
	}
	return server.Status().Update(ctx, e)
}
