package oidctokenconfig_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/oidctoken"
)

const day = 24 * time.Hour

// TestTokensAreIssuedAndRenewed: pods mount the tokens once they exist; renewals and rotations of keys do not change pod templates,
// and between them nothing is written.
func TestTokensAreIssuedAndRenewed(t *testing.T) {
	w := newWorld(t)
	w.run()
	if keys := w.privateKeys(); len(keys) > 0 || len(w.keys()) > 0 {
		t.Errorf("keys without a configuration: %s", keys)
	}
	without := w.templates()
	w.config("aws", func(c *v1alpha1.OidcTokenConfig) {
		c.Spec.TargetEnvVar, c.Spec.SubjectFormat = "AWS_WEB_IDENTITY_TOKEN_FILE", "{region}:{deployment_id}:{component}"
	})
	w.run()
	w.ready("aws", "Succeeded", "Tokens are issued")
	claims := w.verified("sales", "aws.api", "aws.refresh-worker")
	if claims["aws.api"]["sub"] != "eu:1:api" || claims["aws.refresh-worker"]["sub"] != "eu:1:refresh-worker" || claims["aws.api"]["aud"] != "sts.amazonaws.com" ||
		claims["aws.api"]["iss"] != "https://"+w.namespace+".example.com/oidc" {
		t.Errorf("%v", claims)
	}
	mounted := w.templates()
	for name, component := range map[string]string{"sales-production-api": "api", "sales-production-refresh": "refresh-worker"} {
		if strings.Contains(without[name], "oidc") {
			t.Errorf("%s mounts tokens before they exist", name)
		}
		for _, want := range []string{
			`{"name":"oidc-tokens","secret":{"secretName":"sales-oidc-tokens","items":[{"key":"aws.` + component + `","path":"aws"}],"defaultMode":288}}`,
			`{"name":"AWS_WEB_IDENTITY_TOKEN_FILE","value":"/var/run/secrets/quoin/oidc/aws"}`,
			`{"name":"oidc-tokens","readOnly":true,"mountPath":"/var/run/secrets/quoin/oidc"}`,
		} {
			if !strings.Contains(mounted[name], want) {
				t.Errorf("%s has no %s:\n%s", name, want, mounted[name])
			}
		}
	}
	start, before := w.now, w.tokens("sales")
	for _, c := range []struct {
		after  time.Duration
		writes bool
		keys   string
	}{
		{20 * time.Minute, false, "key-1"}, {41 * time.Minute, true, "key-1"}, {60 * time.Minute, false, "key-1"}, {30 * day, true, "key-1 key-2"},
		{30*day + 23*time.Hour, true, "key-1 key-2"}, {31*day + 10*time.Minute, true, "key-1 key-2"}, {31*day + 3*time.Hour, true, "key-2"},
	} {
		w.now = start.Add(c.after)
		w.run()
		if (w.writes > 0) != c.writes {
			t.Errorf("after %s: %d writes", c.after, w.writes)
		}
		if got := strings.Join(w.privateKeys(), " "); got != c.keys {
			t.Errorf("after %s: private keys %s, want %s", c.after, got, c.keys)
		}
		w.verified("sales", "aws.api", "aws.refresh-worker")
		if diff := cmp.Diff(mounted, w.templates()); diff != "" {
			t.Errorf("after %s: the pod templates changed:\n%s", c.after, diff)
		}
	}
	if w.tokens("sales")["aws.api"] == before["aws.api"] {
		t.Error("the token was not renewed")
	}
	if _, key, _ := w.verify(w.tokens("sales")["aws.api"]); key != w.keys()[0].ID || w.keys()[0].Number != 2 {
		t.Errorf("the token is signed with key %s; published: %+v", key, w.keys())
	}
}

// TestKilledBetweenWrites kills the controllers before and after each write of the issuance, the renewal and the rotation. At each
// time, the tokens of the deployment can be verified with the published keys, and after a restart all is completed.
func TestKilledBetweenWrites(t *testing.T) {
	for name, after := range map[string]bool{"before the write": false, "after the write": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run()
			w.config("aws")
			w.killAfter = after
			start := w.now
			var templates map[string]string
			kills := 0
			for _, at := range []time.Duration{0, 41 * time.Minute, 30 * day, 31*day + 10*time.Minute, 31*day + 3*time.Hour} {
				w.now = start.Add(at)
				for w.killAt = 1; ; {
					w.restart()
					if !w.run() {
						break
					}
					kills++
					w.killAt++ // a number that was allocated for a killed controller is not used again: one write more each time
					w.unexpiredAreVerified()
					w.publishedBeforeSigning()
				}
				w.verified("sales", "aws.api", "aws.refresh-worker")
				if templates == nil {
					templates = w.templates()
				}
				if diff := cmp.Diff(templates, w.templates()); diff != "" {
					t.Errorf("after %s: the pod templates changed:\n%s", at, diff)
				}
				w.killAt = 0
				if w.restart(); w.run() || w.writes > 0 {
					t.Errorf("after %s: %d writes at steady state", at, w.writes)
				}
			}
			if diff := cmp.Diff([]string{"key-2"}, w.privateKeys()); diff != "" || len(w.keys()) != 1 {
				t.Errorf("keys: %s, %+v", diff, w.keys())
			}
			if kills < 8 {
				t.Errorf("only %d kills", kills)
			}
		})
	}
}

// unexpiredAreVerified checks all tokens that have not expired.
func (w *world) unexpiredAreVerified() {
	w.t.Helper()
	for key, token := range w.tokens("sales") {
		if issued, ok := oidctoken.Read(token); ok && w.now.After(issued.Expiry) {
			continue
		}
		if _, _, err := w.verify(token); err != nil {
			w.t.Errorf("killed at write %d: %s: %v", w.killAt, key, err)
		}
	}
}

// publishedBeforeSigning checks that tokens are signed with keys that have been published for long enough, or with the first one.
func (w *world) publishedBeforeSigning() {
	w.t.Helper()
	for key, token := range w.tokens("sales") {
		issued, _ := oidctoken.Read(token)
		for _, public := range w.keys() {
			age := issued.Expiry.Add(-oidctoken.Lifetime).Sub(public.PublishTime.Time)
			if public.ID == issued.KeyID && public.Number > 1 && age < oidctoken.ActivationDelay {
				w.t.Errorf("%s is signed with key %d %s after its publication", key, public.Number, age)
			}
		}
	}
}

// TestLostKeys: a private key that was deleted is replaced at once, and tokens of the lost one remain valid.
func TestLostKeys(t *testing.T) {
	w := newWorld(t)
	w.config("aws")
	w.run()
	old := w.tokens("sales")["aws.api"]
	lost := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.quoin, Name: w.namespace + "-oidc-key-1"}}
	if err := w.api.Delete(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(45 * time.Minute)
	w.run()
	_, key, err := w.verify(w.tokens("sales")["aws.api"])
	if err != nil || key != w.keys()[1].ID {
		t.Errorf("%v: signed with %s, keys: %+v", err, key, w.keys())
	}
	if _, _, err := w.verify(old); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"key-2"}, w.privateKeys()); diff != "" {
		t.Error(diff)
	}
}

// TestForeignKeys: a Secret of another owner with the name of a key is not used, and its content is in no message.
func TestForeignKeys(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.quoin, Name: w.namespace + "-oidc-key-1"}, Data: map[string][]byte{"privateKey": []byte("confidential")},
	})
	w.config("aws")
	for range 3 { // the first failures are not shown
		w.run()
	}
	if len(w.keys()) > 0 || len(w.tokens("sales")) > 0 {
		t.Error("the key is used")
	}
	a := get(w, &v1alpha1.Account{}, "", w.namespace)
	message := ""
	for _, c := range a.Status.Conditions {
		message += c.Message
	}
	if !strings.Contains(message, "is not that of this account's key; delete it") || strings.Contains(message, "confidential") {
		t.Errorf("%+v", a.Status.Conditions)
	}
}
