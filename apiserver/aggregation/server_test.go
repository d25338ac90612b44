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

// TestAuthorityRotation: the front proxy's certificate authority can be replaced without a restart.
// The listener requests certificates of the new one, and those of the old one are rejected.
func TestAuthorityRotation(t *testing.T) {
	older, newer, serving := newAuthority(t, "older"), newAuthority(t, "newer"), newAuthority(t, "serving")
	api := fake.NewClientset()
	address := startServer(t, api, serving, func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	request := func(authority *authority) (code int, requested bool) {
		pair := authority.issue(t, "front-proxy-client").pair(t)
		client := clientOf(t, serving)
		transport, _ := client.Transport.(*http.Transport)
		transport.TLSClientConfig.GetClientCertificate = func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			for _, acceptable := range request.AcceptableCAs {
				requested = requested || bytes.Equal(acceptable, authority.certificate.RawSubject)
			}
			return &pair, nil
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+accountsPath, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-Remote-User", "ada")
		code, _ = do(t, client, request)
		return code, requested
	}
	if code, requested := request(older); code != http.StatusUnauthorized || requested {
		t.Errorf("without an authority: %d, requested %t", code, requested)
	}

	configMap := frontProxyConfigMap(older)
	if _, err := api.CoreV1().ConfigMaps(configMap.Namespace).Create(t.Context(), configMap, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { code, requested := request(older); return code == http.StatusOK && requested }, func() any { return "older" })
	if code, requested := request(newer); code != http.StatusUnauthorized || requested {
		t.Errorf("the new one before the rotation: %d, requested %t", code, requested)
	}

	configMap = frontProxyConfigMap(newer)
	if _, err := api.CoreV1().ConfigMaps(configMap.Namespace).Update(t.Context(), configMap, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { code, requested := request(newer); return code == http.StatusOK && requested }, func() any { return "newer" })
	if code, requested := request(older); code != http.StatusUnauthorized || requested {
		t.Errorf("the old one after the rotation: %d, requested %t", code, requested)
	}
}

// TestAuthorizationErrors: requests fail if the authorizer does, and the response omits the cause.
func TestAuthorizationErrors(t *testing.T) {
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
		t.Errorf("the response contains the cause: %s", answer)
	}
}

// TestAuthorizerAttributes by method and path.
func TestAuthorizerAttributes(t *testing.T) {
	server, err := New(testOptions(fake.NewClientset()))
	if err != nil {
		t.Fatal(err)
	}
	ada := &user.DefaultInfo{Name: "ada"}
	server.authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: ada}, true, nil
	})
	var got []authorizer.Attributes
	server.authorizer = authorizer.AuthorizerFunc(func(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		got = append(got, attributes)
		return authorizer.DecisionDeny, "", nil
	})
	resource := func(verb, name, subresource string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			User: ada, Verb: verb, APIGroup: "api.platform.quoin.dev", APIVersion: "v1", Resource: "accounts",
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
		"GET /apis":                            authorizer.AttributesRecord{User: ada, Verb: "get", Path: "/apis"},
		"POST /apis/another":                   authorizer.AttributesRecord{User: ada, Verb: "post", Path: "/apis/another"},
	} {
		method, path, _ := strings.Cut(request, " ")
		got = nil
		answer := httptest.NewRecorder()
		server.ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		if want == nil {
			if len(got) != 0 || answer.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d, attributes %+v", request, answer.Code, got)
			}
			continue
		}
		if diff := cmp.Diff([]authorizer.Attributes{want}, got); diff != "" || answer.Code != http.StatusForbidden {
			t.Errorf("%s: %d (-want +got):\n%s", request, answer.Code, diff)
		}
	}
}

func TestNewRequiresAllOptions(t *testing.T) {
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
			t.Errorf("no error without %s", name)
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

// startServer serves until the test ends, with the authorizer decide: fake clients do not answer
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

// frontProxyConfigMap returns the ConfigMap that the Kubernetes API server writes.
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
