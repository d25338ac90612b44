package auth

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
)

const (
	hookRoute = "/build/api/v1/deployments/{deploymentId}/git-hook"
	hookBody  = `{"ref":"refs/heads/main","after":"0123456789abcdef0123456789abcdef01234567"}`
)

// sales returns a Deployment of acme with ID 7 that accepts hooks.
func sales(change ...func(*v1alpha1.Deployment)) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "sales", Labels: map[string]string{v1alpha1.LabelID: "7"}}}
	d.Spec.Model.Git = &v1alpha1.GitSource{URL: "https://git.example.com/sales.git", WebhookSecretRef: &v1alpha1.SecretKeyReference{Name: "hooks", Key: "sales"}}
	for _, f := range change {
		f(d)
	}
	return d
}

// shared returns the Secret of acme's hooks.
func shared(values ...string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme-ns", Name: "hooks"}, Data: map[string][]byte{}}
	for i := 0; i+1 < len(values); i += 2 {
		s.Data[values[i]] = []byte(values[i+1])
	}
	return s
}

// hook returns a request to the hook route of the deployment with an ID.
func hook(number string, header http.Header, body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, strings.Replace("https://acme.example.com"+hookRoute, "{deploymentId}", number, 1), body)
	r.Header = header
	return r
}

// signed returns a hook with GitHub's signature.
func signed(number, secret string) *http.Request {
	return hook(number, headersOf("X-Hub-Signature-256", "sha256="+sha256Of(secret, hookBody)), strings.NewReader(hookBody))
}

func gitHooks(t *testing.T, objs ...client.Object) *GitHooks {
	t.Helper()
	c := indexed(t, objs...)
	return NewGitHooks(hookRoute, c, c, clocktesting.NewFakePassiveClock(now))
}

func TestGitHooks(t *testing.T) {
	want := &Principal{Kind: KindGitHook, Account: "acme", ID: "git-hook/sales", Name: "sales", Grants: access.On([]string{"sales"}, "SchemaUpdate")}
	for host, header := range hosts(hookSecret, hookBody) {
		got, err := gitHooks(t, sales(), shared("sales", hookSecret)).Authenticate(t.Context(), acme(), hook("7", header, strings.NewReader(hookBody)))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", host, err, diff)
		}
	}
	elsewhere := sales(func(d *v1alpha1.Deployment) { d.Namespace = "globex-ns" })
	if _, err := gitHooks(t, elsewhere, sales(), shared("sales", hookSecret)).Authenticate(t.Context(), acme(), signed("7", hookSecret)); err != nil {
		t.Errorf("the same ID in another account: %v", err)
	}
	for name, value := range map[string]string{"newline": hookSecret + "\n", "carriage return and newline": hookSecret + "\r\n"} {
		if _, err := gitHooks(t, sales(), shared("sales", value)).Authenticate(t.Context(), acme(), signed("7", hookSecret)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := gitHooks(t, sales(), shared("sales", hookSecret[:16])).Authenticate(t.Context(), acme(), signed("7", hookSecret[:16])); err != nil {
		t.Errorf("a secret of 16 bytes: %v", err)
	}
}

// TestInvalidGitHooksAreRejectedAlike: the error and the number of reads do not depend on the reason.
func TestInvalidGitHooksAreRejectedAlike(t *testing.T) {
	other := func(d *v1alpha1.Deployment) {
		d.Name, d.Labels[v1alpha1.LabelID], d.Spec.Model.Git.WebhookSecretRef.Key = "other", "8", "other"
	}
	elsewhere := func(d *v1alpha1.Deployment) { d.Namespace = "globex-ns" }
	theirs := shared("sales", strings.Repeat("globex", 4))
	theirs.Namespace = "globex-ns"
	type objects = []client.Object
	both := objects{sales(), sales(other), shared("sales", hookSecret, "other", strings.Repeat("other", 4))}
	for name, tc := range map[string]struct {
		objs objects
		r    *http.Request
	}{
		"no such deployment":            {both, signed("9", hookSecret)},
		"no deployments":                {nil, signed("7", hookSecret)},
		"leading zero":                  {both, signed("07", hookSecret)},
		"wrong secret":                  {both, signed("7", hookSecret+"x")},
		"another deployment's":          {both, signed("7", strings.Repeat("other", 4))},
		"to another deployment":         {both, signed("8", hookSecret)},
		"another account's":             {append(objects{sales(elsewhere), theirs}, both...), signed("7", strings.Repeat("globex", 4))},
		"only in another account":       {objects{sales(elsewhere), theirs}, signed("7", strings.Repeat("globex", 4))},
		"deployment of another account": {objects{sales(elsewhere), shared("sales", hookSecret)}, signed("7", hookSecret)},
		"Secret of another account": {objects{sales(), theirs},
			signed("7", strings.Repeat("globex", 4))},
		"hooks disabled": {objects{sales(func(d *v1alpha1.Deployment) { d.Spec.Model.Git.WebhookSecretRef = nil }), shared("sales", hookSecret)}, signed("7", hookSecret)},
		"not in Git":     {objects{sales(func(d *v1alpha1.Deployment) { d.Spec.Model.Git = nil }), shared("sales", hookSecret)}, signed("7", hookSecret)},
		"duplicate ID": {objects{sales(), sales(func(d *v1alpha1.Deployment) { d.Name = "copy" }), shared("sales", hookSecret)},
			signed("7", hookSecret)},
		"no Secret":      {objects{sales()}, signed("7", hookSecret)},
		"no key":         {objects{sales(), shared("other", hookSecret)}, signed("7", hookSecret)},
		"empty secret":   {objects{sales(), shared("sales", "")}, signed("7", "")},
		"only a newline": {objects{sales(), shared("sales", "\n")}, signed("7", "")},
		"short secret":   {objects{sales(), shared("sales", hookSecret[:15])}, signed("7", hookSecret[:15])},
		"short token":    {objects{sales(), shared("sales", hookSecret[:15])}, hook("7", headersOf("X-Gitlab-Token", hookSecret[:15]), strings.NewReader(hookBody))},
		"other body":     {both, hook("7", signed("7", hookSecret).Header, strings.NewReader(hookBody+" "))},
		"shortened body": {both, hook("7", signed("7", hookSecret).Header, strings.NewReader(hookBody[:20]))},
		"no body":        {both, hook("7", signed("7", hookSecret).Header, http.NoBody)},
		"wrong token":    {both, hook("7", headersOf("X-Gitlab-Token", hookSecret+"x"), strings.NewReader(hookBody))},
	} {
		t.Run(name, func(t *testing.T) {
			lists, gets := 0, 0
			c := countReads(t, indexed(t, tc.objs...), &lists, &gets)
			p, err := NewGitHooks(hookRoute, c, c, clocktesting.NewFakePassiveClock(now)).Authenticate(t.Context(), acme(), tc.r)
			if p != nil || !errors.Is(err, ErrNoCredential) || err.Error() != errHook.Error() {
				t.Errorf("%v, %v", p, err)
			}
			if left, _ := io.ReadAll(tc.r.Body); lists != 1 || gets != 1 || len(left) > 0 && tc.r.Header.Get("X-Gitlab-Token") == "" {
				t.Errorf("%d lists, %d gets, %d bytes left", lists, gets, len(left))
			}
		})
	}
}

// countReads counts the lists and gets of a client, and fails on reads of other namespaces than acme's.
func countReads(t *testing.T, c client.WithWatch, lists, gets *int) client.WithWatch {
	t.Helper()
	return interceptor.NewClient(c, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			*lists++
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if *gets++; key.Namespace != "acme-ns" {
				t.Errorf("%s was read", key)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

func TestGitHooksWithoutSignatureReadNothing(t *testing.T) {
	for name, header := range map[string]http.Header{"none": {}, "malformed": headersOf("X-Hub-Signature-256", "sha256=0"), "SHA-1": headersOf("X-Hub-Signature", "sha1=0")} {
		if _, err := NewGitHooks(hookRoute, nil, nil, nil).Authenticate(t.Context(), acme(), hook("7", header, strings.NewReader(hookBody))); err == nil || err.Error() != errHook.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestGitHooksIgnoreOtherRequests: a signature is used on the hook route only, and not in a request
// with an Authorization header.
func TestGitHooksIgnoreOtherRequests(t *testing.T) {
	hooks := gitHooks(t, sales(), shared("sales", hookSecret))
	of := func(change func(*http.Request)) *http.Request {
		r := signed("7", hookSecret)
		change(r)
		return r
	}
	requests := map[string]*http.Request{
		"Authorization":       of(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+hookSecret) }),
		"empty Authorization": of(func(r *http.Request) { r.Header.Set("Authorization", "") }),
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", ""} {
		requests["method "+method] = of(func(r *http.Request) { r.Method = method })
	}
	for _, path := range []string{
		"/build/api/v1/deployments/7/pull", "/build/api/v1/deployments/7", "/api/v1/deployments/7", "/build/api/v1/deployments", "/api/v1/deployments/7/git-hook",
		"/build/api/v1/deployments/7/git-hook/x", "/build/api/v1/deployments/7/git-hooks", "/build/api/v1/deployments//git-hook", "/build/api/v1/deployments/git-hook",
		"/build/api/v1/deployments/7/x/git-hook", "/build/api/v1/deployments/7/branches/git-hook", "/Build/api/v1/deployments/7/git-hook", "/x/build/api/v1/deployments/7/git-hook",
		"/build/api/v1/deployments/-7/git-hook", "/build/api/v1/deployments/7 /git-hook", "/build/api/v1/deployments/sales/git-hook", "/build/api/v1/deployments/7;x/git-hook",
		"/build/api/v1/deployments/" + strings.Repeat("7", 17) + "/git-hook", "/build/api/v1/deployments/٧/git-hook", "/build/api/v1/deployments/7\n/git-hook",
		"/api/scim/v2/Users", "/", "",
	} {
		requests["path "+path] = of(func(r *http.Request) { r.URL.Path = path })
	}
	var other otherCredential
	for name, r := range requests {
		if p, err := hooks.Authenticate(t.Context(), acme(), r); p != nil || !errors.As(err, &other) {
			t.Errorf("%s: %v, %v", name, p, err)
		}
		if left, _ := io.ReadAll(r.Body); string(left) != hookBody {
			t.Errorf("%s: the body was read", name)
		}
	}
	if _, err := hooks.Authenticate(t.Context(), acme(), signed("7", hookSecret)); err != nil {
		t.Errorf("without the change: %v", err)
	}
}

// TestGitHooksPermissions: a hook has only the permissions of its route, on its deployment.
func TestGitHooksPermissions(t *testing.T) {
	p, err := gitHooks(t, sales(), shared("sales", hookSecret)).Authenticate(t.Context(), acme(), signed("7", hookSecret))
	if err != nil {
		t.Fatal(err)
	}
	for _, permission := range []v1alpha1.Permission{"Admin", "DeploymentsManage", "DeploymentCreate", "DeploymentRead", "DeploymentUpdate", "DeploymentDelete", "SecretsManage", "AuditLogManage", "SqlRunnerRead", "ScimManage"} {
		if p.May(permission) {
			t.Errorf("has permission %s", permission)
		}
	}
	if !p.May("SchemaUpdate") || !p.Reaches("sales") || p.Reaches("other") || p.Reaches("") {
		t.Errorf("%+v", p)
	}
}

// TestDbtHooks: hooks of a dbt project have a route, a secret and a principal of their own, and the handler reads
// the body.
func TestDbtHooks(t *testing.T) {
	const route = "/build/api/v1/deployments/{deploymentId}/dbt-hook"
	d := sales(func(d *v1alpha1.Deployment) {
		d.Spec.Dbt = &v1alpha1.DbtSettings{WebhookSecretRef: &v1alpha1.SecretKeyReference{Name: "hooks", Key: "dbt"}}
	})
	other := sales(func(d *v1alpha1.Deployment) { d.Name, d.Labels[v1alpha1.LabelID] = "other", "8" })
	const dbtKey = "the secret of the dbt project"
	c := indexed(t, d, other, shared("sales", hookSecret, "dbt", dbtKey))
	hooks := NewDbtHooks(route, c, c, clocktesting.NewFakePassiveClock(now))
	to := func(number, route string, header http.Header) *http.Request {
		r := hook(number, header, strings.NewReader(hookBody))
		r.URL.Path = strings.Replace(route, "{deploymentId}", number, 1)
		return r
	}
	for host, header := range hosts(dbtKey, hookBody) {
		r := to("7", route, header)
		p, err := hooks.Authenticate(t.Context(), acme(), r)
		if err != nil || p.ID != "dbt-hook/sales" || p.Kind != KindGitHook || !p.May("SchemaUpdate") || p.May("DeploymentUpdate") || p.Reaches("other") {
			t.Errorf("%s: %+v %v", host, p, err)
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != hookBody {
			t.Errorf("%s: the handler reads %q, %v", host, body, err)
		}
	}
	signature := func(secret string) http.Header {
		return headersOf("X-Hub-Signature-256", "sha256="+sha256Of(secret, hookBody))
	}
	for name, r := range map[string]*http.Request{
		"the secret of the model": to("7", route, signature(hookSecret)),
		"no dbt project":          to("8", route, signature(hookSecret)),
		"no such deployment":      to("9", route, signature(dbtKey)),
		"no signature":            to("7", route, http.Header{}),
	} {
		if p, err := hooks.Authenticate(t.Context(), acme(), r); p != nil || !errors.Is(err, ErrNoCredential) || err.Error() != errHook.Error() {
			t.Errorf("%s: %v %v", name, p, err)
		}
	}
	var passed otherCredential
	if _, err := hooks.Authenticate(t.Context(), acme(), to("7", hookRoute, signature(dbtKey))); !errors.As(err, &passed) {
		t.Errorf("on the route of the other hooks: %v", err)
	}
	git := NewGitHooks(hookRoute, c, c, clocktesting.NewFakePassiveClock(now))
	if _, err := git.Authenticate(t.Context(), acme(), to("7", hookRoute, signature(dbtKey))); err == nil || err.Error() != errHook.Error() {
		t.Errorf("the secret of the dbt project triggers a fetch of the model: %v", err)
	}
}
