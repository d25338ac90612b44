package aggregation

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/fake"
)

// TestAuthorityChanges: the front proxy's authority can be replaced without a restart, the
// listener asks for the new one's certificates, and the old one counts for nothing.
func TestAuthorityChanges(t *testing.T) {
	older, newer, serving := newAuthority(t, "older"), newAuthority(t, "newer"), newAuthority(t, "serving")
	api := fake.NewClientset()
	address := startServer(t, api, serving, func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	ask := func(authority *authority) (code int, named bool) {
		pair := authority.issue(t, "front-proxy-client").pair(t)
		client := clientOf(t, serving)
		transport, _ := client.Transport.(*http.Transport)
		transport.TLSClientConfig.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, acceptable := range request.AcceptableCAs {
				named = named || bytes.Equal(acceptable, authority.certificate.RawSubject)
			}
			return &pair, nil
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+accountsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "ada")
		code, _ = do(t, client, request)
		return code, named
	}
	if code, named := ask(older); code != http.StatusUnauthorized || named {
		t.Errorf("before any authority is known: %d, named %t", code, named)
	}

	configMap := frontProxyConfigMap(older)
	if _, err := api.CoreV1().ConfigMaps(configMap.Namespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { code, named := ask(older); return code == http.StatusOK && named }, func() any { return "older" })
	if code, named := ask(newer); code != http.StatusUnauthorized || named {
		t.Errorf("the newer one, too early: %d, named %t", code, named)
	}

	configMap = frontProxyConfigMap(newer)
	if _, err := api.CoreV1().ConfigMaps(configMap.Namespace).Update(t.Context(), configMap, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { code, named := ask(newer); return code == http.StatusOK && named }, func() any { return "newer" })
	if code, named := ask(older); code != http.StatusUnauthorized || named {
		t.Errorf("the older one, too late: %d, named %t", code, named)
	}
}

// TestAuthorizationFails: when Kubernetes does not answer, nobody may do anything, and the caller
// does not learn why.
func TestAuthorizationFails(t *testing.T) {
	frontProxy, serving := newAuthority(t, "front-proxy-ca"), newAuthority(t, "serving")
	api := fake.NewClientset(frontProxyConfigMap(frontProxy))
	address := startServer(t, api, serving, func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionNoOpinion, "", errors.New("connection refused")
	})
	client := clientOf(t, serving, frontProxy.issue(t, "front-proxy-client").pair(t))
	var answer string
	eventually(t, func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+demo+"/a", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "ada")
		var code int
		code, answer = do(t, client, request)
		return code == http.StatusInternalServerError
	}, func() any { return answer })
	wantStatus(t, answer, http.StatusInternalServerError)
	if strings.Contains(answer, "connection refused") {
		t.Errorf("the answer tells too much: %s", answer)
	}
}

// TestAttempts: what Kubernetes is asked, by method and path.
func TestAttempts(t *testing.T) {
	server, err := New(testOptions(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	who := &user.DefaultInfo{Name: "ada"}
	server.authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: who}, true, nil
	})
	var got []authorizer.Attributes
	server.authorizer = authorizer.AuthorizerFunc(func(_ context.Context, attempt authorizer.Attributes) (authorizer.Decision, string, error) {
		got = append(got, attempt)
		return authorizer.DecisionDeny, "", nil
	})
	resource := func(verb, name, subresource string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			User: who, Verb: verb, APIGroup: "api.platform.quoin.dev", APIVersion: "v1", Resource: "accounts",
			Subresource: subresource, Name: name, ResourceRequest: true,
		}
	}
	for request, want := range map[string]authorizer.Attributes{
		"GET " + accountsPath:                  resource("list", "", ""),
		"HEAD " + accountsPath + "/":           resource("list", "", ""),
		"GET " + accountsPath + "/demo":        resource("get", "demo", ""),
		"GET " + demo + "/a":                   resource("get", "demo", "proxy"),
		"HEAD " + demo + "/a":                  resource("get", "demo", "proxy"),
		"POST " + demo + "/a":                  resource("create", "demo", "proxy"),
		"PUT " + demo + "/a":                   resource("update", "demo", "proxy"),
		"PATCH " + demo + "/a":                 resource("patch", "demo", "proxy"),
		"DELETE " + demo + "/a":                resource("delete", "demo", "proxy"),
		"GET " + accountsPath + "/a%2Fproxy/b": resource("get", "a", "proxy"),
		"OPTIONS " + demo + "/a":               nil,
		"POST " + accountsPath:                 nil,
		"GET /apis":                            authorizer.AttributesRecord{User: who, Verb: "get", Path: "/apis"},
		"POST /apis/another":                   authorizer.AttributesRecord{User: who, Verb: "post", Path: "/apis/another"},
	} {
		method, path, _ := strings.Cut(request, " ")
		got = nil
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		if want == nil {
			if len(got) != 0 || answer.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d, asked %+v", request, answer.Code, got)
			}
			continue
		}
		if diff := cmp.Diff([]authorizer.Attributes{want}, got); diff != "" || answer.Code != http.StatusForbidden {
			t.Errorf("%s: %d (-want +got):\n%s", request, answer.Code, diff)
		}
	}
}

func TestNewNeedsEverything(t *testing.T) {
	complete := testOptions(fake.NewClientset())
	for name, remove := range map[string]func(*Options){
		"client":   func(o *Options) { o.Client = nil },
		"account":  func(o *Options) { o.Account = nil },
		"accounts": func(o *Options) { o.Accounts = nil },
		"next":     func(o *Options) { o.Next = nil },
	} {
		options := complete
		remove(&options)
		if _, err := New(options); err == nil {
			t.Errorf("made without %s", name)
		}
	}
}

func TestHandles(t *testing.T) {
	for path, want := range map[string]bool{
		"/apis": true, "/apis/": true, accountsPath: true, "/openapi/v2": true, "/openapi/v3": true, "/openapi/v3/apis/x/v1": true,
		"/": false, "/api/v1/deployments": false, "/apisx": false, "/api/scim/v2/Users": false, "/openapi.json": false, "/version": false,
	} {
		if got := Handles(path); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
}

// startServer serves until the test is over, with an authorizer of the test's: fake clients have no
// SubjectAccessReviews.
func startServer(t *testing.T, api *fake.Clientset, serving *authority, decide authorizer.AuthorizerFunc) (address string) {
	t.Helper()
	server, err := New(testOptions(api))
	if err != nil {
		t.Fatal(err)
	}
	server.authorizer = decide
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Start(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return listen(t, server, serving.issue(t, "quoin-apiserver", serviceHost))
}

// frontProxyConfigMap is what the Kubernetes API server writes.
func frontProxyConfigMap(a *authority) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data: map[string]string{
			"requestheader-client-ca-file":       string(a.pem),
			"requestheader-username-headers":     `["X-Remote-User"]`,
			"requestheader-uid-headers":          `["X-Remote-Uid"]`,
			"requestheader-group-headers":        `["X-Remote-Group"]`,
			"requestheader-extra-headers-prefix": `["X-Remote-Extra-"]`,
			"requestheader-allowed-names":        `["front-proxy-client"]`,
		},
	}
}
