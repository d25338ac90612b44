package oidctokenconfig_test

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/golang-jwt/jwt/v5"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/account"
	"github.com/quoin-dev/quoin/controllers/environment"
	"github.com/quoin-dev/quoin/controllers/oidctokenconfig"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/ids"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/oidctoken"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// errKilled is the error of the write at which the controller is killed, and of all requests after it.
var errKilled = errors.New("the controller was killed")

// world is an account with a deployment and its production environment on a real Kubernetes API server, with the controllers of
// accounts, environments and OidcTokenConfigs, which run one after the other.
type world struct {
	t   *testing.T
	api client.WithWatch
	// namespace is that of the account, which has the same name; quoin that of Quoin.
	namespace, quoin string
	now              time.Time
	// writes counts the writes of the controllers. The controller is killed at write killAt, before or after it takes effect;
	// 0 for never.
	writes, killAt int
	killAfter      bool
	// forbidden is the verb that is forbidden for Secrets of the account.
	forbidden string
	reconcilers
}

type reconcilers struct {
	clock                         *clocktesting.FakePassiveClock
	accounts, configs, production reconcile.Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api, namespace := apitest.Direct(t)
	w := &world{t: t, api: api, namespace: namespace, quoin: namespace + "-quoin", now: time.Now().UTC().Truncate(time.Second).Add(time.Minute)}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.quoin}})
	w.create(&v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: v1alpha1.AccountSpec{Host: v1alpha1.Host(namespace + ".example.com"), Namespace: namespace},
	})
	w.deployment("sales", "1")
	w.create(&v1alpha1.Environment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "sales-production"},
		Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Type: v1alpha1.EnvironmentProduction, Version: "1.2.3",
			Image: "cube@sha256:" + strings.Repeat("1", 64), StoreImage: "cubestore@sha256:" + strings.Repeat("2", 64), ModelCommit: strings.Repeat("a", 40),
		},
	})
	w.restart()
	return w
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	if err := w.api.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

// deployment creates a Dedicated deployment, which has all components; without a number if id is empty.
func (w *world) deployment(name, id string) *v1alpha1.Deployment {
	w.t.Helper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: "stable", Size: v1alpha1.SizeDedicated,
			Model: v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/model.git"}},
		},
	}
	if id != "" {
		d.Labels = map[string]string{v1alpha1.LabelID: id}
	}
	w.create(d)
	return d
}

// config creates a configuration for AWS.
func (w *world) config(name string, edits ...func(*v1alpha1.OidcTokenConfig)) {
	w.t.Helper()
	c := &v1alpha1.OidcTokenConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}, Spec: v1alpha1.OidcTokenConfigSpec{AudienceType: v1alpha1.OidcAudienceAWS},
	}
	for _, edit := range edits {
		edit(c)
	}
	w.create(c)
}

// change changes an object with a merge patch.
func (w *world) change(obj client.Object, patch string) {
	w.t.Helper()
	if err := w.api.Patch(w.t.Context(), obj, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) configNamed(name string) *v1alpha1.OidcTokenConfig {
	return &v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
}

// restart replaces the controllers by new ones, without the memory of the old ones.
func (w *world) restart() {
	api := interceptor.NewClient(w.api, w.faults())
	k := kube.NewClient(api, api, "quoin-controller")
	recorder := events.NewFakeRecorder(10_000)
	w.clock = clocktesting.NewFakePassiveClock(w.now)
	w.accounts = account.New(k, recorder, w.clock, account.Options{Hosts: claims.Hosts{Namespace: w.quoin}})
	w.configs = oidctokenconfig.New(k, recorder, w.clock, oidctokenconfig.Options{Namespace: w.quoin, Region: "eu", IDs: ids.New(k)})
	w.production = environment.New(k, recorder, w.clock, environment.Options{Engine: engine.Options{QuoinImage: "quoin:v1", GatewayNamespace: w.quoin}, SQLPort: 5432})
}

// write counts a write, and performs it unless the controller is killed before.
func (w *world) write(perform func() error) error {
	w.writes++
	if w.killAt > 0 && w.writes > w.killAt || w.writes == w.killAt && !w.killAfter {
		return errKilled
	}
	if err := perform(); err != nil {
		w.writes-- // such as a creation of what exists
		return err
	}
	if w.writes == w.killAt {
		return errKilled
	}
	return nil
}

// secretForbidden returns the error of a forbidden request for a Secret of the account.
func (w *world) secretForbidden(verb string, obj client.Object, namespace string) error {
	if _, ok := obj.(*corev1.Secret); ok && verb == w.forbidden && namespace == w.namespace {
		return apierrors.NewForbidden(corev1.Resource("secrets"), obj.GetName(), errors.New("no RoleBinding"))
	}
	return nil
}

func (w *world) faults() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := w.secretForbidden("get", obj, key.Namespace); err != nil {
				return err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return w.write(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return w.write(func() error { return c.Update(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := w.secretForbidden("patch", obj, obj.GetNamespace()); err != nil {
				return err
			}
			return w.write(func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return w.write(func() error { return c.Apply(ctx, obj, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.write(func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := obj.(*v1alpha1.Environment); ok { // reports the progress of pods over time
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			}
			return w.write(func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	}
}

// run reconciles the account, all configurations and the environment, as often as it takes for one round to write nothing. It
// reports whether the controller was killed.
func (w *world) run() (killed bool) {
	w.t.Helper()
	w.clock.SetTime(w.now)
	w.writes = 0
	for range 20 {
		before := w.writes
		for _, step := range w.round() {
			_, err := step.reconciler.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: step.key})
			if w.killAt > 0 && w.writes >= w.killAt {
				return true
			}
			if err != nil {
				w.t.Logf("%s: %v", step.key, err)
			}
		}
		if w.writes == before {
			return false
		}
	}
	w.t.Fatal("the controllers do not stop writing")
	return false
}

type step struct {
	reconciler reconcile.Reconciler
	key        client.ObjectKey
}

func (w *world) round() []step {
	w.t.Helper()
	steps := []step{{w.accounts, client.ObjectKey{Name: w.namespace}}}
	list := &v1alpha1.OidcTokenConfigList{}
	if err := w.api.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	for i := range list.Items {
		steps = append(steps, step{w.configs, client.ObjectKeyFromObject(&list.Items[i])})
	}
	return append(steps, step{w.production, client.ObjectKey{Namespace: w.namespace, Name: "sales-production"}})
}

// get reads an object, which is nil if it does not exist.
func get[T client.Object](w *world, obj T, namespace, name string) T {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		var none T
		return none
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return obj
}

// keys returns the published keys.
func (w *world) keys() []v1alpha1.OidcTokenKey {
	w.t.Helper()
	return get(w, &v1alpha1.Account{}, "", w.namespace).Status.OidcTokenKeys
}

// privateKeys returns the names of the Secrets with private keys.
func (w *world) privateKeys() []string {
	w.t.Helper()
	list := &corev1.SecretList{}
	if err := w.api.List(w.t.Context(), list, client.InNamespace(w.quoin)); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, strings.TrimPrefix(list.Items[i].Name, w.namespace+"-oidc-"))
	}
	slices.Sort(names)
	return names
}

// tokens returns the tokens of a deployment by key.
func (w *world) tokens(deployment string) map[string]string {
	w.t.Helper()
	tokens := map[string]string{}
	if secret := get(w, &corev1.Secret{}, w.namespace, deployment+"-oidc-tokens"); secret != nil {
		for key, token := range secret.Data {
			tokens[key] = string(token)
		}
	}
	return tokens
}

// verify verifies a token with the published keys, as of now, and returns its claims and the key's ID.
func (w *world) verify(token string) (jwt.MapClaims, string, error) {
	text, err := oidctoken.KeySet(w.keys())
	if err != nil {
		return nil, "", err
	}
	set := jose.JSONWebKeySet{}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, "", err
	}
	keyID, claims := "", jwt.MapClaims{}
	_, err = jwt.NewParser(jwt.WithValidMethods([]string{"RS256"}), jwt.WithTimeFunc(func() time.Time { return w.now }), jwt.WithExpirationRequired()).
		ParseWithClaims(token, claims, func(parsed *jwt.Token) (any, error) {
			keyID, _ = parsed.Header["kid"].(string)
			found := set.Key(keyID)
			if len(found) != 1 {
				return nil, fmt.Errorf("key %q is not published", keyID)
			}
			public, _ := found[0].Key.(*rsa.PublicKey)
			return public, nil
		})
	return claims, keyID, err
}

// verified checks that the deployment has these tokens, all valid, and returns the claims by key.
func (w *world) verified(deployment string, keys ...string) map[string]jwt.MapClaims {
	w.t.Helper()
	all := map[string]jwt.MapClaims{}
	for key, token := range w.tokens(deployment) {
		claims, _, err := w.verify(token)
		if err != nil {
			w.t.Errorf("%s: %s: %v", deployment, key, err)
		}
		all[key] = claims
	}
	found := []string{}
	for key := range all {
		found = append(found, key)
	}
	slices.Sort(found)
	if !slices.Equal(found, append([]string{}, keys...)) {
		w.t.Errorf("%s: tokens %q, want %q", deployment, found, keys)
	}
	return all
}

// templates returns the pod templates of the environment as JSON, by workload.
func (w *world) templates() map[string]string {
	w.t.Helper()
	list := &appsv1.DeploymentList{}
	if err := w.api.List(w.t.Context(), list, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	templates := map[string]string{}
	for i := range list.Items {
		text, err := json.Marshal(list.Items[i].Spec.Template)
		if err != nil {
			w.t.Fatal(err)
		}
		templates[list.Items[i].Name] = string(text)
	}
	return templates
}

// ready checks the Ready condition of a configuration.
func (w *world) ready(name, reason, message string) {
	w.t.Helper()
	c := get(w, &v1alpha1.OidcTokenConfig{}, w.namespace, name)
	condition := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, message) {
		w.t.Errorf("%s: Ready is %+v, want %s: %s", name, condition, reason, message)
	}
}

func requestFor(w *world, config string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: w.namespace, Name: config}}
}
