package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving"
)

// countGets counts the Gets of a client, and returns *fail for them unless it is nil.
func countGets(c client.WithWatch, n *int, fail *error) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if *n++; *fail != nil {
				return *fail
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// TestGitHookLookupsAreLimited: the Kubernetes API server gets one read a second for each deployment,
// and a limited number for all.
func TestGitHookLookupsAreLimited(t *testing.T) {
	n, fail := 0, error(nil)
	c := indexed(t, sales(), shared("sales", hookSecret))
	clock := clocktesting.NewFakePassiveClock(now)
	hooks := NewGitHooks(hookRoute, c, countGets(c, &n, &fail), clock)
	authenticate := func(number, secret string) error {
		_, err := hooks.Authenticate(t.Context(), acme(), signed(number, secret))
		return err
	}
	for range 200 {
		if err := authenticate("7", hookSecret); err != nil {
			t.Fatal(err)
		}
		if err := authenticate("7", "wrong"); !errors.Is(err, ErrNoCredential) {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d lookups in a second", n)
	}
	s := shared("sales", "another secret of bytes")
	if err := c.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(now.Add(hookSecretFor))
	if err := authenticate("7", hookSecret); !errors.Is(err, ErrNoCredential) {
		t.Errorf("the old secret after a second: %v", err)
	}
	if err := authenticate("7", "another secret of bytes"); err != nil || n != 2 {
		t.Errorf("the new one: %v, %d lookups", err, n)
	}
	busy := 0
	for i := range 1000 {
		switch err := authenticate(fmt.Sprint(1000+i), hookSecret); {
		case errors.Is(err, ErrBusy) && !errors.Is(err, ErrNoCredential):
			busy++
		case !errors.Is(err, ErrNoCredential):
			t.Fatal(err)
		}
	}
	if busy < 500 || n+busy != 1002 {
		t.Errorf("%d of 1000 were rejected as busy, %d lookups", busy, n)
	}
	if err := authenticate("7", "another secret of bytes"); err != nil {
		t.Errorf("a cached secret while others are rejected: %v", err)
	}
}

func TestGitHooksReturnReadErrors(t *testing.T) {
	broken := errors.New("connection refused")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "hooks", errors.New("rbac"))
	for name, tc := range map[string]struct {
		number string
		fail   error
		text   string
	}{
		"unavailable":                     {"7", broken, "read the webhook secret: connection refused"},
		"forbidden":                       {"7", forbidden, `bind ClusterRole quoin-account-apiserver to quoin apiserver with a RoleBinding in namespace "acme-ns"`},
		"forbidden, unknown deployment":   {"9", forbidden, `bind ClusterRole quoin-account-apiserver`},
		"unavailable, unknown deployment": {"9", broken, "read the webhook secret: connection refused"},
	} {
		n, fail := 0, tc.fail
		c := indexed(t, sales(), shared("sales", hookSecret))
		hooks := NewGitHooks(hookRoute, c, countGets(c, &n, &fail), clocktesting.NewFakePassiveClock(now))
		for range 2 { // errors are not cached
			_, err := hooks.Authenticate(t.Context(), acme(), signed(tc.number, hookSecret))
			if !errors.Is(err, tc.fail) || errors.Is(err, ErrNoCredential) || errors.Is(err, ErrBody) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s: %v", name, err)
			}
		}
		fail = nil
		if _, err := hooks.Authenticate(t.Context(), acme(), signed("7", hookSecret)); err != nil {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
	t.Run("cache", func(t *testing.T) {
		n := 0
		_, err := NewGitHooks(hookRoute, counted(indexed(t), &n, broken), nil, clocktesting.NewFakePassiveClock(now)).Authenticate(t.Context(), acme(), signed("7", hookSecret))
		if !errors.Is(err, broken) || errors.Is(err, ErrNoCredential) {
			t.Error(err)
		}
	})
	t.Run("body", func(t *testing.T) {
		for _, number := range []string{"7", "9"} {
			r := signed(number, hookSecret)
			r.Body = http.MaxBytesReader(httptest.NewRecorder(), r.Body, int64(len(hookBody)-1))
			_, err := gitHooks(t, sales(), shared("sales", hookSecret)).Authenticate(t.Context(), acme(), r)
			var tooLarge *http.MaxBytesError
			if !errors.Is(err, ErrBody) || !errors.As(err, &tooLarge) || errors.Is(err, ErrNoCredential) {
				t.Errorf("%s: %v", number, err)
			}
		}
	})
}

// TestConcurrentGitHooksAreLimited: only hooksAtOnce bodies are read at a time. Of more, the one that is awaited longest is
// ended; a hook whose body arrives is authenticated.
func TestConcurrentGitHooksAreLimited(t *testing.T) {
	hooks := gitHooks(t, sales(), shared("sales", hookSecret))
	ended := make(chan error, 2*hooksAtOnce)
	server := httptest.NewServer(serving.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := hooks.Authenticate(r.Context(), acme(), r); err != nil {
			ended <- err
			serving.WriteError(w, http.StatusUnauthorized, "rejected")
		}
	}), serving.WrapOptions{Log: slog.New(slog.DiscardHandler), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}))
	defer server.Close()
	post := func(i int, body io.Reader) (int, error) {
		r := hook("7", signed("7", hookSecret).Header, body)
		r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.2.%d", i))
		r.RequestURI, r.URL.Scheme, r.URL.Host = "", "http", server.Listener.Addr().String()
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	var group sync.WaitGroup
	for i := range hooksAtOnce + 1 {
		body, rest := io.Pipe()
		defer rest.Close()
		group.Go(func() { _, _ = post(i, body) })
		if _, err := rest.Write([]byte(hookBody[:1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-ended; !errors.Is(err, serving.ErrSlowBody) || !errors.Is(err, ErrBody) {
		t.Errorf("the hook that is awaited longest: %v", err)
	}
	if status, err := post(hooksAtOnce+1, strings.NewReader(hookBody)); status != http.StatusOK || err != nil {
		t.Errorf("a hook beside %d slow ones: %d %v", hooksAtOnce, status, err)
	}
}

// TestInvalidHookSecretsAreLogged once for each deployment, without the value.
func TestInvalidHookSecretsAreLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		objs []client.Object
		want string
	}{
		"no Secret":      {[]client.Object{sales()}, `"found"=false`},
		"short":          {[]client.Object{sales(), shared("sales", "hunter2hunter2")}, `"found"=true`},
		"valid":          {[]client.Object{sales(), shared("sales", "hunter2hunter2hunter2")}, ""},
		"hooks disabled": {[]client.Object{shared("sales", "hunter2hunter2")}, ""},
		"other account":  {[]client.Object{sales(func(d *v1alpha1.Deployment) { d.Namespace = "globex-ns" })}, ""},
	} {
		var lines bytes.Buffer
		ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}))
		hooks := gitHooks(t, tc.objs...)
		for range 3 {
			if _, err := hooks.Authenticate(ctx, acme(), signed("7", "something else")); !errors.Is(err, ErrNoCredential) {
				t.Errorf("%s: %v", name, err)
			}
		}
		text := lines.String()
		if tc.want == "" && text != "" || tc.want != "" && (strings.Count(text, "\n") != 1 || !strings.Contains(text, tc.want)) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: log %q", name, text)
		}
	}
}

// TestGitHookSecretsAreCachedByReference: a new reference does not use the cached value of the old one.
func TestGitHookSecretsAreCachedByReference(t *testing.T) {
	d := sales()
	c := indexed(t, d, shared("sales", hookSecret, "new", "the new secret of sales"))
	hooks := NewGitHooks(hookRoute, c, c, clocktesting.NewFakePassiveClock(now.Add(time.Minute)))
	if _, err := hooks.Authenticate(t.Context(), acme(), signed("7", hookSecret)); err != nil {
		t.Fatal(err)
	}
	d.Spec.Model.Git.WebhookSecretRef.Key = "new"
	if err := c.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := hooks.Authenticate(t.Context(), acme(), signed("7", hookSecret)); !errors.Is(err, ErrNoCredential) {
		t.Errorf("the old key: %v", err)
	}
	if _, err := hooks.Authenticate(t.Context(), acme(), signed("7", "the new secret of sales")); err != nil {
		t.Errorf("the new key: %v", err)
	}
}
