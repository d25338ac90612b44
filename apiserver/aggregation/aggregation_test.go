package aggregation

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

const demo = accountsPath + "/demo/proxy"

func encode(text []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(text)) }

// TestAggregated sends requests through a real Kubernetes API server and directly to the Server.
func TestAggregated(t *testing.T) {
	c := startCluster(t)
	c.create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "only-demo"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{GroupVersion.Group}, Resources: []string{"accounts/proxy"}, Verbs: []string{"get"}, ResourceNames: []string{"demo"},
		}},
	})
	c.create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "impersonator"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}}},
	})
	c.bind(t, "ada", "quoin-proxy-admin", "")
	c.bind(t, "bob", "quoin-proxy-viewer", "")
	c.bind(t, "carol", "only-demo", "")
	c.bind(t, "dora", "quoin-proxy-admin", "default")
	c.bind(t, "ida", "impersonator", "")
	c.create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{GroupVersion.Group}, Resources: []string{"accounts/proxy"}, Verbs: []string{"get", "update"}}},
	})
	c.create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "only-create"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{GroupVersion.Group}, Resources: []string{"accounts/proxy"}, Verbs: []string{"create"}}},
	})
	c.bind(t, "max", "manager", "")
	c.bind(t, "cleo", "only-create", "")
	for user, method := range map[string]string{"ada": http.MethodGet, "bob": http.MethodGet, "carol": http.MethodGet, "max": http.MethodGet, "cleo": http.MethodPost} {
		config, answer := c.as(t, user), ""
		eventually(t, func() bool {
			var code int
			code, answer = send(t, config, method, demo+"/ready")
			return code == http.StatusAccepted
		}, func() any { return user + ": " + answer })
	}
	c.takeCalls()

	t.Run("proxy", c.testProxy)
	t.Run("authorization", c.testAuthorization)
	t.Run("permissions", c.testPermissions)
	t.Run("front proxy", c.testFrontProxy)
	t.Run("front proxy headers", c.testFrontProxyHeaders)
	t.Run("tokens", c.testTokens)
	t.Run("paths", c.testPaths)
	t.Run("accounts", c.testAccounts)
	t.Run("discovery", c.testDiscovery)
	t.Run("kubectl", c.testKubectl)
	t.Run("reviews", c.testReviews)
}

// testProxy: requests are forwarded unchanged, with the user, and responses are returned unchanged.
func (c *cluster) testProxy(t *testing.T) {
	api := kubernetes.NewForConfigOrDie(c.as(t, "ada")).Discovery().RESTClient()
	body := `{"name":"x"}`
	for method, request := range map[string]*rest.Request{
		http.MethodGet:    api.Get(),
		http.MethodPost:   api.Post().Body([]byte(body)),
		http.MethodPut:    api.Put().Body([]byte(body)),
		http.MethodPatch:  api.Patch("application/merge-patch+json").Body([]byte(body)),
		http.MethodDelete: api.Delete(),
	} {
		t.Run(method, func(t *testing.T) {
			code := 0
			result := request.AbsPath(demo+"/api/v1/deployments").Param("limit", "3").Do(t.Context()).StatusCode(&code)
			answer, err := result.Raw()
			if err != nil || code != http.StatusAccepted || string(answer) != `{"answered":true}` {
				t.Errorf("answer %d %s: %v", code, answer, err)
			}
			want := call{
				Method: method, Path: "/api/v1/deployments", Query: "limit=3", Account: "demo",
				Principal: auth.Principal{
					Kind: auth.KindKubernetes, Account: "demo", ID: "ada", Name: "ada",
					Grants: access.OnAll(v1alpha1.PermissionAdmin),
				},
			}
			if method != http.MethodGet && method != http.MethodDelete {
				want.Body = body
			}
			got := c.takeCalls()
			if len(got) != 1 {
				t.Fatalf("%d calls, want one", len(got))
			}
			for header := range got[0].Header {
				if strings.HasPrefix(header, "X-Remote-") || header == "Authorization" {
					t.Errorf("header %s was forwarded", header)
				}
			}
			got[0].Header = nil
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
		})
	}
}

// testAuthorization: a request without permission for its verb does not reach a documented path.
func (c *cluster) testAuthorization(t *testing.T) {
	impersonated := c.as(t, "ida")
	impersonated.Impersonate.UserName = "ada"
	cases := map[string]struct {
		config *rest.Config
		method string
		path   string
		want   int
	}{
		"viewer, GET":                  {c.as(t, "bob"), http.MethodGet, demo + "/a", 202},
		"viewer, HEAD":                 {c.as(t, "bob"), http.MethodHead, demo + "/a", 202},
		"viewer, POST":                 {c.as(t, "bob"), http.MethodPost, demo + "/a", 403},
		"viewer, PUT":                  {c.as(t, "bob"), http.MethodPut, demo + "/a", 403},
		"viewer, PATCH":                {c.as(t, "bob"), http.MethodPatch, demo + "/a", 403},
		"viewer, DELETE":               {c.as(t, "bob"), http.MethodDelete, demo + "/a", 403},
		"no role":                      {c.as(t, "eve"), http.MethodGet, demo + "/a", 403},
		"role for the account":         {c.as(t, "carol"), http.MethodGet, demo + "/a", 202},
		"role for another account":     {c.as(t, "carol"), http.MethodGet, accountsPath + "/other/proxy/a", 403},
		"unknown account, no role":     {c.as(t, "carol"), http.MethodGet, accountsPath + "/none/proxy/a", 403},
		"unknown account":              {c.as(t, "ada"), http.MethodGet, accountsPath + "/none/proxy/a", 404},
		"account cannot be read":       {c.as(t, "ada"), http.MethodGet, accountsPath + "/broken/proxy/a", 500},
		"RoleBinding only":             {c.as(t, "dora"), http.MethodGet, demo + "/a", 403},
		"RoleBinding, namespaced path": {c.as(t, "dora"), http.MethodGet, "/apis/api.platform.quoin.dev/v1/namespaces/default/accounts/demo/proxy/a", 404},
		"impersonated user":            {impersonated, http.MethodPost, demo + "/a", 202},
		"impersonating user":           {c.as(t, "ida"), http.MethodPost, demo + "/a", 403},
		"group admin":                  {c.as(t, "eve", "admin"), http.MethodGet, demo + "/a", 403},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, answer := send(t, tc.config, tc.method, tc.path)
			if code != tc.want {
				t.Errorf("%d, want %d: %s", code, tc.want, answer)
			}
			if strings.Contains(answer, "secret detail") {
				t.Errorf("the response contains an internal error: %s", answer)
			}
			if calls := c.takeCalls(); (len(calls) == 1) != (tc.want == 202) {
				t.Errorf("%d calls", len(calls))
			}
		})
	}
}

// testPermissions: verbs grant Quoin's permissions; the method of the request does not.
func (c *cluster) testPermissions(t *testing.T) {
	read := []v1alpha1.Permission{"DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead"}
	for user, want := range map[string]struct {
		method string
		grants access.Grants
	}{
		"ada":  {http.MethodGet, access.OnAll(v1alpha1.PermissionAdmin)},
		"bob":  {http.MethodGet, access.OnAll(read...)},
		"max":  {http.MethodPut, access.OnAll("DeploymentsManage", "DeploymentRead", "SchemaRead", "FolderRead", "FolderManage", "WorkbookRead", "WorkbookManage", "ReportRead", "ReportManage", "DeploymentAgentRead")},
		"cleo": {http.MethodPost, nil},
	} {
		code, answer := send(t, c.as(t, user), want.method, demo+"/a")
		calls := c.takeCalls()
		if code != http.StatusAccepted || len(calls) != 1 {
			t.Errorf("%s: %d, %d calls: %s", user, code, len(calls), answer)
			continue
		}
		if diff := cmp.Diff(want.grants, calls[0].Principal.Grants); diff != "" {
			t.Errorf("%s (-want +got):\n%s", user, diff)
		}
	}
}

// testFrontProxy: the X-Remote headers are trusted only with the front proxy's certificate.
func (c *cluster) testFrontProxy(t *testing.T) {
	untrusted := newAuthority(t, "front-proxy-ca")
	frontProxy := c.direct(t, c.frontProxy.issue(t, "front-proxy-client").pair(t))
	cases := map[string]struct {
		client *http.Client
		user   string
		groups []string
		want   int
	}{
		"front proxy":              {frontProxy, "ada", nil, 202},
		"front proxy, not allowed": {frontProxy, "eve", nil, 403},
		"front proxy, masters":     {frontProxy, "root", []string{"system:masters"}, 202},
		"front proxy, anonymous":   {frontProxy, "system:anonymous", []string{"system:unauthenticated"}, 403},
		"front proxy, no user":     {frontProxy, "", []string{"system:masters"}, 401},
		"no certificate":           {c.direct(t), "ada", []string{"system:masters"}, 401},
		"another common name":      {c.direct(t, c.frontProxy.issue(t, "another-client").pair(t)), "ada", []string{"system:masters"}, 401},
		"another authority":        {c.direct(t, untrusted.issue(t, "front-proxy-client").pair(t)), "ada", []string{"system:masters"}, 401},
		"a serving certificate":    {c.direct(t, c.frontProxy.issue(t, "front-proxy-client", "localhost").pair(t)), "ada", nil, 401},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			header := http.Header{"X-Remote-Group": tc.groups, "Authorization": {"Bearer nonsense"}}
			if tc.user != "" {
				header.Set("X-Remote-User", tc.user)
			}
			code, answer := c.sendDirect(t, tc.client, demo+"/a", header)
			if code != tc.want {
				t.Errorf("%d, want %d: %s", code, tc.want, answer)
			}
			if code != 202 {
				wantStatus(t, answer, code)
			}
			calls := c.takeCalls()
			if (len(calls) == 1) != (tc.want == 202) {
				t.Errorf("%d calls", len(calls))
			}
			for _, got := range calls {
				if got.Principal.ID != tc.user || got.Header.Get("Authorization") != "" || got.Header.Get("X-Remote-User") != "" {
					t.Errorf("call is %+v", got)
				}
			}
		})
	}
}

// testFrontProxyHeaders: requests that the Kubernetes API server must have handled itself are rejected.
func (c *cluster) testFrontProxyHeaders(t *testing.T) {
	frontProxy := c.direct(t, c.frontProxy.issue(t, "front-proxy-client").pair(t))
	for name, header := range map[string]http.Header{
		"impersonation": {"Impersonate-User": {"root"}},
		"WebSocket":     {"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
	} {
		header.Set("X-Remote-User", "ada")
		if code, answer := c.sendDirect(t, frontProxy, demo+"/a", header); code != http.StatusBadRequest || len(c.takeCalls()) != 0 {
			t.Errorf("%s: %d, want 400: %s", name, code, answer)
		}
	}
}

// testTokens: a bearer token authenticates no direct request, and causes no TokenReview, with which
// unauthenticated clients could flood the Kubernetes API server.
func (c *cluster) testTokens(t *testing.T) {
	c.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}})
	c.bind(t, "system:serviceaccount:default:robot", "quoin-proxy-viewer", "")
	admin := kubernetes.NewForConfigOrDie(c.environment.Config)
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	before := c.tokenReviews.Load()
	for name, header := range map[string]http.Header{
		"token":                    {"Authorization": {"Bearer " + token.Status.Token}},
		"token and forged headers": {"Authorization": {"Bearer " + token.Status.Token}, "X-Remote-User": {"ada"}, "X-Remote-Group": {"system:masters"}},
		"invalid token":            {"Authorization": {"Bearer nonsense"}},
		"no token":                 {},
	} {
		if code, answer := c.sendDirect(t, c.direct(t), demo+"/a", header); code != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401: %s", name, code, answer)
		}
	}
	if calls, reviews := c.takeCalls(), c.tokenReviews.Load()-before; len(calls) != 0 || reviews != 0 {
		t.Errorf("%d calls, %d TokenReviews", len(calls), reviews)
	}
}

// testPaths: paths are decoded once, and paths that are not clean are rejected.
func (c *cluster) testPaths(t *testing.T) {
	cases := map[string]struct {
		path string
		code int
		want string // the documented path
	}{
		"trailing slash":           {demo + "/api/v1/", 202, "/api/v1/"},
		"encoded":                  {demo + "/api/v1/a%20b", 202, "/api/v1/a b"},
		"encoded slash":            {demo + "/api/v1/a%2Fb", 202, "/api/v1/a/b"},
		"another account, encoded": {demo + "/..%2f..%2fother%2fproxy%2fa", 400, ""},
		"another account, upper":   {demo + "/%2E%2E/%2E%2E/other/proxy/a", 400, ""},
		"another account, plain":   {demo + "/../../other/proxy/a", 400, ""},
		"dot":                      {demo + "/./a", 400, ""},
		"empty segment":            {demo + "//a", 400, ""},
		"encoded twice":            {demo + "/%252e%252e/a", 202, "/%2e%2e/a"},
		"no path":                  {demo, 404, ""},
		"only a slash":             {demo + "/", 404, ""},
		"another subresource":      {accountsPath + "/demo/status", 404, ""},
		"longer subresource":       {accountsPath + "/demo/proxyx/a", 404, ""},
		"another resource":         {"/apis/api.platform.quoin.dev/v1/accountsx/demo/proxy/a", 404, ""},
		"another version":          {"/apis/api.platform.quoin.dev/v2/accounts/demo/proxy/a", 404, ""},
	}
	frontProxy := c.direct(t, c.frontProxy.issue(t, "front-proxy-client").pair(t))
	for name, tc := range cases {
		check := func(t *testing.T, code int, answer string) {
			t.Helper()
			if code != tc.code {
				t.Errorf("%d, want %d: %s", code, tc.code, answer)
			}
			documented := ""
			for _, got := range c.takeCalls() {
				documented += got.Path
				if got.Account != "demo" {
					t.Errorf("reached account %s", got.Account)
				}
			}
			if documented != tc.want {
				t.Errorf("reached %q, want %q", documented, tc.want)
			}
		}
		t.Run(name, func(t *testing.T) {
			code, answer := c.sendDirect(t, frontProxy, tc.path, http.Header{"X-Remote-User": {"root"}, "X-Remote-Group": {"system:masters"}})
			check(t, code, answer)
		})
		if strings.Contains(name, "another account") {
			t.Run(name+", through Kubernetes", func(t *testing.T) {
				code, answer := send(t, c.as(t, "carol"), http.MethodGet, tc.path)
				check(t, code, answer)
			})
		}
	}
}

// testAccounts: accounts are read-only, without watches and selectors.
func (c *cluster) testAccounts(t *testing.T) {
	api := kubernetes.NewForConfigOrDie(c.as(t, "bob")).Discovery().RESTClient()
	list := AccountList{}
	text, err := api.Get().AbsPath(accountsPath).Do(t.Context()).Raw()
	if err != nil || json.Unmarshal(text, &list) != nil {
		t.Fatalf("%s: %v", text, err)
	}
	urls := []string{}
	for _, account := range list.Items {
		urls = append(urls, account.Name+" "+account.Spec.URL)
	}
	if diff := cmp.Diff([]string{"demo https://demo.example.com", "other https://other.example.com"}, urls); diff != "" || list.Kind != "AccountList" {
		t.Errorf("%s (-want +got):\n%s", list.Kind, diff)
	}
	if _, err := api.Get().AbsPath(accountsPath, "none").Do(t.Context()).Raw(); !apierrors.IsNotFound(err) {
		t.Errorf("unknown account: %v", err)
	}
	admin := c.as(t, "root", "system:masters")
	for request, want := range map[string]int{
		"GET /demo":                  200,
		"GET ?watch=true":            405,
		"GET /demo?watch=1":          405,
		"GET ?limit=500&watch=false": 200,
		"GET ?labelSelector=a%3Db":   400,
		"POST ":                      405,
		"DELETE ":                    405,
		"DELETE /demo":               405,
		"PUT /demo":                  405,
		"OPTIONS /demo/proxy/api":    405,
	} {
		method, path, _ := strings.Cut(request, " ")
		if code, answer := send(t, admin, method, accountsPath+path); code != want {
			t.Errorf("%s: %d, want %d: %s", request, code, want, answer)
		}
	}
	if code, _ := send(t, c.as(t, "carol"), http.MethodGet, accountsPath); code != http.StatusForbidden {
		t.Errorf("list as carol: %d", code)
	}
}

// testDiscovery: any authenticated user can read the group, aggregated and unaggregated.
func (c *cluster) testDiscovery(t *testing.T) {
	client := kubernetes.NewForConfigOrDie(c.as(t, "eve")).Discovery()
	want := []string{"accounts Account get,list", "accounts/proxy AccountProxyOptions create,delete,get,patch,update", "admissionreviews AdmissionReview create"}
	var got []string
	// The Kubernetes API server reads the discovery document after the APIService is available.
	eventually(t, func() bool {
		got = nil
		_, lists, err := client.ServerGroupsAndResources()
		if err != nil {
			return false
		}
		for _, list := range lists {
			if list.GroupVersion == GroupVersion.String() {
				for _, resource := range list.APIResources {
					got = append(got, resource.Name+" "+resource.Kind+" "+strings.Join(resource.Verbs, ","))
				}
			}
		}
		return slices.Equal(want, got)
	}, func() any { return got })
	frontProxy := c.direct(t, c.frontProxy.issue(t, "front-proxy-client").pair(t))
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	for _, tc := range []struct {
		path, accept, want string
		code               int
	}{
		{"/apis", "", "APIGroupList", 200},
		{"/apis", aggregated + ",application/json", "APIGroupDiscoveryList", 200},
		{"/apis/api.platform.quoin.dev", "", "APIGroup", 200},
		{"/apis/api.platform.quoin.dev/", aggregated, "APIGroup", 200},
		{"/apis/api.platform.quoin.dev/v1", "application/json", "APIResourceList", 200},
		{"/apis/another", "", "Status", 404},
		{"/openapi/v2", "", "", 200},
		{"/openapi/v3", "", "", 200},
		{"/openapi/v3/apis/api.platform.quoin.dev/v1", "", "", 200},
		{"/openapi/v3/apis/another/v1", "", "Status", 404},
	} {
		code, answer := c.sendDirect(t, frontProxy, tc.path, http.Header{"X-Remote-User": {"eve"}, "Accept": {tc.accept}})
		meta := metav1.TypeMeta{}
		if err := json.Unmarshal([]byte(answer), &meta); err != nil || code != tc.code || meta.Kind != tc.want {
			t.Errorf("%s: %d %s: %v", tc.path, code, answer, err)
		}
		if !Handles(tc.path) {
			t.Errorf("%s is not handled", tc.path)
		}
		if code, answer := c.sendDirect(t, c.direct(t), tc.path, nil); code != http.StatusUnauthorized {
			t.Errorf("%s without a credential: %d %s", tc.path, code, answer)
		}
	}
}

// testKubectl runs the commands of the documentation.
func (c *cluster) testKubectl(t *testing.T) {
	c.create(t, &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "from-crd"},
		Spec:       v1alpha1.AccountSpec{Host: "from-crd.example.com", Namespace: "from-crd"},
	})
	text, err := c.user(t, "root", "system:masters").KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ arguments, input, want string }{
		{"get --raw " + demo + "/api/v1/deployments", "", `{"answered":true}`},
		{"create --raw " + demo + "/api/v1/deployments -f -", `{"name":"x"}`, `{"answered":true}`},
		{"replace --raw " + demo + "/api/v1/deployments/1 -f -", `{"name":"x"}`, `{"answered":true}`},
		{"delete --raw " + demo + "/api/v1/deployments/1", "", `{"answered":true}`},
		{"get accounts.api.platform.quoin.dev", "", "https://demo.example.com"},
		{"get accounts.api.platform.quoin.dev demo -o yaml", "", "url: https://demo.example.com"},
		{"api-resources --api-group=api.platform.quoin.dev -o name", "", "accounts.api.platform.quoin.dev"},
		{"get accounts -o name", "", "account.platform.quoin.dev/from-crd"},
		{"auth can-i create accounts/demo --subresource=proxy", "", "yes"},
		{"explain accounts --api-version=api.platform.quoin.dev/v1", "", "read-only representation"},
		{"explain accounts.spec.url --api-version=api.platform.quoin.dev/v1", "", "outside of the Kubernetes API"},
	} {
		command := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), strings.Fields(tc.arguments)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+filepath.Dir(kubeconfig))
		command.Stdin = strings.NewReader(tc.input)
		errors := &bytes.Buffer{}
		command.Stderr = errors
		output, err := command.Output()
		if err != nil || !strings.Contains(string(output), tc.want) || strings.Contains(errors.String(), "couldn't get resource list") {
			t.Errorf("kubectl %s: %v\n%s%s", tc.arguments, err, output, errors)
		}
	}
	methods := ""
	for _, got := range c.takeCalls() {
		methods += got.Method + " "
	}
	if want := "GET POST PUT DELETE "; methods != want {
		t.Errorf("methods %s, want %s", methods, want)
	}
}

// send sends a request to the Kubernetes API server, without changing the path.
func send(t *testing.T, config *rest.Config, method, path string) (code int, answer string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, strings.TrimSuffix(config.Host, "/")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, client, request)
}

// sendDirect sends a request to the Server itself.
func (c *cluster) sendDirect(t *testing.T, client *http.Client, path string, header http.Header) (code int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Host = header.Get("Host")
	return do(t, client, request)
}

func do(t *testing.T, client *http.Client, request *http.Request) (code int, answer string) {
	t.Helper()
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.ProtoMajor != 2 && request.Header.Get("Upgrade") == "" {
		t.Errorf("%s %s: %s, want HTTP/2", request.Method, request.URL, response.Proto)
	}
	return response.StatusCode, string(text)
}

func wantStatus(t *testing.T, answer string, code int) {
	t.Helper()
	got := metav1.Status{}
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Kind != "Status" || got.APIVersion != "v1" || int(got.Code) != code {
		t.Errorf("not a Status of %d: %s", code, answer)
	}
}
