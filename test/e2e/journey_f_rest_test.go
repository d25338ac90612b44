package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restServer is two replicas of bin/quoin apiserver, one of them also an aggregated API server.
type restServer struct {
	replicas  [2]*controller
	addresses [2]string
	roots     *x509.CertPool
	tenant    *tenant
	token     string
}

const aggregated = "/apis/api.platform.quoin.dev/v1/accounts/"

// runRESTServer starts both replicas with their ServiceAccount and additional flags, and registers the first one as an
// aggregated API server.
func runRESTServer(ctx context.Context, t *tenant, flags ...string) *restServer {
	GinkgoHelper()
	f := &restServer{tenant: t, roots: x509.NewCertPool()}
	kubeconfig := filepath.Join(world.dir, "apiserver.kubeconfig")
	token := strings.TrimSpace(kubectl(ctx, "create", "token", "quoin-apiserver", "--namespace", quoinNamespace, "--duration=2h"))
	Expect(world.writeKubeconfig(kubeconfig, token)).To(Succeed())
	for i := range f.replicas {
		f.addresses[i] = freeAddress()
		f.replicas[i] = runQuoin(ctx, "apiserver", append([]string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + quoinNamespace, "--bind-address=" + f.addresses[i], "--shutdown-delay=0s", "--aggregation",
		}, flags...), nil)
	}
	manifest := kubectl(ctx, "kustomize", repository("config", "aggregation"))
	_, port, err := net.SplitHostPort(f.addresses[0])
	Expect(err).NotTo(HaveOccurred())
	Expect(strings.Count(manifest, "    port: 443\n")).To(Equal(1))
	manifest = strings.Replace(manifest, "    port: 443\n", "    port: "+port+"\n", 1)
	apply(ctx, manifest+fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: quoin-apiserver, namespace: %s}\nspec: {type: ExternalName, externalName: localhost}\n", quoinNamespace))
	DeferCleanup(func(ctx SpecContext) {
		// An unavailable APIService blocks the deletion of namespaces.
		kubectl(ctx, "delete", "apiservice/v1.api.platform.quoin.dev")
		for _, replica := range f.replicas {
			replica.stop()
		}
	})
	apply(ctx, fmt.Sprintf("apiVersion: platform.quoin.dev/v1alpha1\nkind: ApiKey\nmetadata: {name: admin, namespace: %s}\nspec: {displayName: Administrator}\n", t.name))
	Eventually(ctx, func(g Gomega) {
		certificate, secret := &corev1.Secret{}, &corev1.Secret{}
		g.Expect(world.api.Get(ctx, client.ObjectKey{Namespace: quoinNamespace, Name: "quoin-apiserver-tls"}, certificate)).To(Succeed())
		g.Expect(world.api.Get(ctx, client.ObjectKey{Namespace: t.name, Name: "admin-token"}, secret)).To(Succeed())
		g.Expect(f.roots.AppendCertsFromPEM(certificate.Data["ca.crt"])).To(BeTrue())
		f.token = string(secret.Data["token"])
		g.Expect(f.ask(ctx, 0, "GET", "/api/v1/users/me", nil)).To(haveStatus(200))
		g.Expect(f.ask(ctx, 1, "GET", "/api/v1/users/me", nil)).To(haveStatus(200))
	}).Should(Succeed())
	kubectl(ctx, "wait", "apiservice/v1.api.platform.quoin.dev", "--for=condition=Available", "--timeout=60s")
	return f
}

// reply is a response; its status is 0 if there was none.
type reply struct {
	status  int
	body    map[string]any
	text    string
	version string // of the data plane that responded
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.text) }

func haveStatus(status int) types.GomegaMatcher {
	return WithTransform(func(r reply) int { return r.status }, Equal(status))
}

// ask sends a request to a replica, with the account's host.
func (f *restServer) ask(ctx context.Context, replica int, method, path string, body any) reply {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		Expect(err).NotTo(HaveOccurred())
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, "https://"+f.tenant.name+".quoin.localhost"+path, reader)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+f.token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: f.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, f.addresses[replica])
		},
	}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		return reply{text: err.Error()}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	r := reply{status: response.StatusCode, text: string(data)}
	_ = json.Unmarshal(data, &r.body) // no fields if the body is not an object
	return r
}

// Journey f: programs use REST and users kubectl on the same cluster.
var _ = Describe("The REST API", Ordered, func() {
	It("creates, updates and deletes a deployment, consistently with kubectl", func(ctx SpecContext) {
		t := newTenant(ctx, "program", "v1.2.2", "v1.2.3")
		f := runRESTServer(ctx, t)
		created := f.ask(ctx, 0, "POST", "/build/api/v1/deployments", map[string]any{
			"name": "Sales", "region": "local", "cloudProvider": "cubecloud", "targetPlatform": "aws", "isManaged": true, "creationStep": "ready",
		})
		Expect(created.status).To(Equal(200), created.String())
		id, _ := created.body["id"].(string)
		path := "/api/v1/deployments/" + id
		// The default channel is the first one by name, which may belong to another journey.
		Expect(f.ask(ctx, 0, "PUT", path, map[string]any{"releaseChannel": t.name})).To(haveStatus(200))
		Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.3"))
		Expect(f.ask(ctx, 1, "GET", path+"/versions", nil).text).To(ContainSubstring(`"version":"1.2.3","releaseChannel":"program","isLatestInChannel":true,"isCurrent":true`))

		By("rolling out a new version, and the previous one again")
		t.push(ctx, "v1.2.4")
		Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.4"))
		switched := f.ask(ctx, 1, "PUT", path, map[string]any{"releaseChannelVersion": "1.2.3"})
		Expect(switched.status).To(Equal(200), switched.String())
		Expect(switched.body).To(HaveKeyWithValue("releaseChannelVersionHold", true))
		Eventually(t.deployment("sales")).WithContext(ctx).Should(run("1.2.3"))
		refused := f.ask(ctx, 0, "PUT", path, map[string]any{"releaseChannelVersion": "9.9.9"})
		Expect(refused.status).To(Equal(400))
		Expect(refused.body["error"]).To(And(ContainSubstring("9.9.9"), ContainSubstring("1.2.4")))

		By("using the aggregated API with a kubeconfig")
		Expect(kubectl(ctx, "get", "--raw", aggregated+t.name+"/proxy"+path)).To(ContainSubstring(`"name":"Sales"`))
		file := filepath.Join(world.dir, "body.json")
		Expect(os.WriteFile(file, []byte(`{"name":"From kubectl","region":"local","cloudProvider":"cubecloud","targetPlatform":"aws","isManaged":true,"creationStep":"ready"}`), 0o600)).To(Succeed())
		Expect(kubectl(ctx, "create", "--raw", aggregated+t.name+"/proxy/build/api/v1/deployments", "-f", file)).To(ContainSubstring(`"name":"From kubectl"`))
		Expect(kubectl(ctx, "get", "accounts.api.platform.quoin.dev")).To(ContainSubstring(t.name))
		_, err := world.kubectl(ctx, "", "get", "--raw", aggregated+t.name+"/proxy"+path, "--as=nobody")
		Expect(err).To(MatchError(ContainSubstring("forbidden")))

		By("killing a replica; the other one serves")
		f.replicas[1].kill()
		Expect(f.ask(ctx, 1, "GET", path, nil).status).To(BeZero())
		Expect(f.ask(ctx, 0, "GET", path, nil)).To(haveStatus(200))

		By("deleting the deployment")
		Expect(f.ask(ctx, 0, "DELETE", path, nil)).To(haveStatus(200))
		Expect(f.ask(ctx, 0, "GET", path, nil)).To(haveStatus(404))
		Eventually(func() string { return kubectl(ctx, "get", "qdep", "-n", t.name, "-o", "name") }).Should(Equal("deployment.platform.quoin.dev/from-kubectl\n"))
	}, SpecTimeout(5*time.Minute))
})
