package serving_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// madeUp returns a token that looks like a ServiceAccount token of the cluster and has an invalid signature.
func madeUp() string {
	part := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	now := time.Now()
	return part(map[string]any{"alg": "RS256", "kid": "k"}) + "." + part(map[string]any{
		"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:default:robot", "aud": []string{"quoin"},
		"exp": now.Add(time.Hour).Unix(), "iat": now.Unix(), "jti": rand.Text(),
	}) + "." + base64.RawURLEncoding.EncodeToString([]byte(rand.Text()))
}

// serviceAccount creates a ServiceAccount, with verbs on the proxy of all accounts if there are any, and returns a function
// that issues tokens for it.
func serviceAccount(t *testing.T, name string, verbs ...string) (token func() string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ServiceAccounts("default").Create(t.Context(), sa, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(verbs) > 0 {
		rules := []rbacv1.PolicyRule{{APIGroups: []string{"api.platform.quoin.dev"}, Resources: []string{"accounts/proxy"}, Verbs: verbs}}
		if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return func() string {
		t.Helper()
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"quoin"}}}
		issued, err := client.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), name, request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return issued.Status.Token
	}
}

// reviewsOf returns the number of TokenReviews during f.
func reviewsOf(f func()) int64 {
	before := tokenReviews.Load()
	f()
	return tokenReviews.Load() - before
}

// TestMadeUpTokensOnKubernetesPaths: a client without credential sends made-up tokens to the paths of the aggregated API, on
// the host of an account, on that of the Service and without a known host. None of them causes a TokenReview.
func TestMadeUpTokensOnKubernetesPaths(t *testing.T) {
	client := from(t, 4)
	reviews := reviewsOf(func() {
		for _, host := range []string{victim, "quoin-apiserver.quoin-system.svc", "unknown.example.com"} {
			for _, path := range []string{"/apis", "/apis/api.platform.quoin.dev/v1", "/openapi/v2", "/openapi/v3/apis/api.platform.quoin.dev/v1"} {
				for range 25 {
					a, err := apiclient.Request{
						Method: http.MethodGet, URL: "https://" + victim + path, Host: host, Authorization: "Bearer " + rand.Text(),
					}.Send(t.Context(), client)
					if err != nil {
						t.Fatal(err)
					}
					if a.Status != http.StatusUnauthorized {
						t.Fatalf("%s%s: %d %s", host, path, a.Status, a.Body)
					}
				}
			}
		}
	})
	if reviews != 0 {
		t.Errorf("300 requests caused %d TokenReviews", reviews)
	}
}

// TestMadeUpTokensOfOneClient: a client without credential sends made-up tokens that look like those of ServiceAccounts to
// two accounts. They cause few TokenReviews, and ServiceAccounts of both accounts that call for the first time are served.
func TestMadeUpTokensOfOneClient(t *testing.T) {
	token := serviceAccount(t, "newcomer", "get")
	client := from(t, 5)
	const tokens, most = 400, 80
	var mu sync.Mutex
	statuses := map[int]int{}
	reviews := reviewsOf(func() {
		together(tokens, func(i int) {
			a := get(t, client, []string{victim, other}[i%2], "/api/v1/deployments", madeUp())
			mu.Lock()
			defer mu.Unlock()
			statuses[a.Status]++
			if a.Status == http.StatusTooManyRequests && a.Header.Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
		})
	})
	t.Logf("%d made-up tokens: %d TokenReviews, statuses %v", tokens, reviews, statuses)
	if reviews > most || statuses[http.StatusTooManyRequests] < tokens-most {
		t.Errorf("%d made-up tokens of a client caused %d TokenReviews; statuses %v", tokens, reviews, statuses)
	}
	for _, host := range []string{victim, other} {
		if a := get(t, from(t, 1), host, "/api/v1/deployments", token()); a.Status != http.StatusOK {
			t.Errorf("%s: a ServiceAccount after the attack: %d %s", host, a.Status, a.Body)
		}
	}
}

// The limits of the TokenReviews of unknown tokens, those of apiserver/auth: in a second, and at once.
const (
	accountReviews, accountReviewsAtOnce = 10, 40
	totalReviews, totalReviewsAtOnce     = 50, 100
)

// mostReviews returns how many TokenReviews made-up tokens may cause in a number of accounts and a time.
func mostReviews(accounts int, d time.Duration) int64 {
	ofAccounts := float64(accounts) * (accountReviewsAtOnce + accountReviews*d.Seconds())
	return int64(min(ofAccounts, totalReviewsAtOnce+totalReviews*d.Seconds()))
}

// flood is a client with many addresses that sends made-up tokens.
type flood struct {
	clients []*http.Client
	// busy counts the requests that were refused as busy.
	busy, sent atomic.Int64
	ended      atomic.Bool
}

func newFlood(t *testing.T) *flood {
	t.Helper()
	f := &flood{}
	for n := range byte(100) {
		f.clients = append(f.clients, from(t, 100+n))
	}
	return f
}

// attack sends six tokens from each address to accounts, unless the attack is ended before.
func (f *flood) attack(t *testing.T, hosts ...string) {
	together(6*len(f.clients), func(i int) {
		if f.ended.Load() {
			return
		}
		f.sent.Add(1)
		if a := get(t, f.clients[i%len(f.clients)], hosts[i%len(hosts)], "/api/v1/deployments", madeUp()); a.Status == http.StatusServiceUnavailable {
			f.busy.Add(1)
		}
	})
}

// refuses waits until further requests are refused as busy.
func (f *flood) refuses(t *testing.T) {
	t.Helper()
	before := f.busy.Load()
	apiclient.Soon(t, func() error {
		if f.busy.Load() == before {
			return errors.New("no request of the attack is refused as busy: it is too weak for this test")
		}
		return nil
	})
}

// furtherHosts creates accounts and returns their hosts when the server serves them.
func furtherHosts(t *testing.T, n int) []string {
	t.Helper()
	client := from(t, 1)
	var hosts []string
	for i := range n {
		name := fmt.Sprintf("further-%d", i)
		host := name + ".example.com"
		if err := cluster.Account(t.Context(), name, v1alpha1.AccountSpec{Host: v1alpha1.Host(host)}); err != nil {
			t.Fatal(err)
		}
		apiclient.Soon(t, func() error {
			a, err := apiclient.Request{Method: http.MethodGet, URL: "https://" + host + "/api/v1/deployments"}.Send(t.Context(), client)
			if err == nil && a.Status != http.StatusUnauthorized {
				err = fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return err
		})
		hosts = append(hosts, host)
	}
	return hosts
}

// TestMadeUpTokensOfManyClients: a client with many addresses sends made-up tokens to one account, and to so many that their
// limits together exceed that of all. TokenReviews stay within both.
func TestMadeUpTokensOfManyClients(t *testing.T) {
	for name, hosts := range map[string][]string{"one account": {mallory}, "many accounts": furtherHosts(t, 6)} {
		t.Run(name, func(t *testing.T) {
			f, start := newFlood(t), time.Now()
			reviews := reviewsOf(func() { f.attack(t, hosts...) })
			most := mostReviews(len(hosts), time.Since(start))
			t.Logf("%d made-up tokens: %d TokenReviews, at most %d are allowed", f.sent.Load(), reviews, most)
			if reviews == 0 || reviews > most || f.busy.Load() == 0 {
				t.Errorf("%d TokenReviews, want some and at most %d; %d requests were refused as busy", reviews, most, f.busy.Load())
			}
		})
	}
}

// TestRegularClientDuringMadeUpTokens: a client with many addresses sends made-up tokens to all accounts without pause. A
// ServiceAccount that has called before goes on, with the same token after it has to be reviewed again, and with a new one.
func TestRegularClientDuringMadeUpTokens(t *testing.T) {
	token := serviceAccount(t, "regular", "get")
	regular, first := from(t, 1), token()
	apiclient.Soon(t, func() error { // after the attacks of other tests
		if a := get(t, regular, victim, "/api/v1/deployments", first); a.Status != http.StatusOK {
			return fmt.Errorf("before the attack: %d %s", a.Status, a.Body)
		}
		return nil
	})
	time.Sleep(11 * time.Second) // the review of the first token has expired
	f := newFlood(t)
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for !f.ended.Load() {
			f.attack(t, victim, other, mallory)
		}
	})
	defer attacker.Wait()
	defer f.ended.Store(true)
	for name, token := range map[string]string{"the same token": first, "a new token": token()} {
		f.refuses(t)
		if a := get(t, regular, victim, "/api/v1/deployments", token); a.Status != http.StatusOK {
			t.Errorf("%s during the attack: %d %s", name, a.Status, a.Body)
		}
		f.refuses(t)
	}
}

// TestImplausibleTokens: tokens that cannot be ServiceAccount tokens for Quoin, by their unverified content, cause no
// TokenReviews.
func TestImplausibleTokens(t *testing.T) {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	signed, claims := `{"alg":"RS256"}`, `"iss":"https://kubernetes.default.svc","exp":99999999999,`
	client := from(t, 6)
	for name, parts := range map[string][2]string{
		"no signature":     {`{"alg":"none"}`, `{` + claims + `"sub":"system:serviceaccount:a:b","aud":["quoin"]}`},
		"shared secret":    {`{"alg":"HS256"}`, `{` + claims + `"sub":"system:serviceaccount:a:b","aud":["quoin"]}`},
		"no audience":      {signed, `{` + claims + `"sub":"system:serviceaccount:a:b"}`},
		"another audience": {signed, `{` + claims + `"sub":"system:serviceaccount:a:b","aud":["https://kubernetes.default.svc"]}`},
		"a user":           {signed, `{` + claims + `"sub":"ann@example.com","aud":"quoin"}`},
		"expired":          {signed, `{"iss":"i","exp":1,"sub":"system:serviceaccount:a:b","aud":"quoin"}`},
		"no expiry":        {signed, `{"iss":"i","sub":"system:serviceaccount:a:b","aud":"quoin"}`},
		"not JSON":         {signed, `x`},
	} {
		reviews := reviewsOf(func() {
			if a := get(t, client, victim, "/api/v1/deployments", part(parts[0])+"."+part(parts[1])+".eA"); a.Status != http.StatusUnauthorized {
				t.Errorf("%s: %d %s", name, a.Status, a.Body)
			}
		})
		if reviews != 0 {
			t.Errorf("%s: %d TokenReviews", name, reviews)
		}
	}
}
