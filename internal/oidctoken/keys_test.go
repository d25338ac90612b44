package oidctoken

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// published returns keys that were published at times after start.
func published(at ...time.Duration) []v1alpha1.OidcTokenKey {
	var keys []v1alpha1.OidcTokenKey
	for i, d := range at {
		keys = append(keys, v1alpha1.OidcTokenKey{Number: int64(i + 1), ID: fmt.Sprint("key ", i+1), PublishTime: metav1.NewTime(start.Add(d))})
	}
	return keys
}

func numbers(keys []v1alpha1.OidcTokenKey) string {
	var all []string
	for _, k := range keys {
		all = append(all, fmt.Sprint(k.Number))
	}
	return strings.Join(all, " ")
}

func TestPlanKeys(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		keys    []v1alpha1.OidcTokenKey
		lost    bool
		at      time.Duration
		create  int64
		remove  string
		signers string
		next    time.Duration
	}{
		"no key":                            {create: 1, next: CheckInterval},
		"the first key signs at once":       {keys: published(0), signers: "1", next: CheckInterval},
		"before the rotation":               {keys: published(0), at: RotationPeriod - time.Minute, signers: "1", next: time.Minute},
		"rotation":                          {keys: published(0), at: RotationPeriod, create: 2, signers: "1", next: CheckInterval},
		"the next key is published":         {keys: published(0, 30*day), at: 30 * day, signers: "1 2", next: CheckInterval},
		"the next key is about to sign":     {keys: published(0, 30*day), at: 31*day - time.Second, signers: "1 2", next: time.Second},
		"the next key signs":                {keys: published(0, 30*day), at: 31 * day, signers: "2", next: CheckInterval},
		"the first key is kept":             {keys: published(0, 30*day), at: 31*day + retention - time.Second, signers: "2", next: time.Second},
		"the first key is removed":          {keys: published(0, 30*day), at: 31*day + retention, remove: "1", signers: "2", next: CheckInterval},
		"after a long time":                 {keys: published(0, 30*day), at: 300 * day, create: 3, remove: "1", signers: "2", next: CheckInterval},
		"a lost key is replaced":            {keys: published(0), lost: true, at: time.Hour, create: 2, signers: "1", next: CheckInterval},
		"the clock was set back":            {keys: published(day), at: 0, signers: "1", next: CheckInterval},
		"the number of keys is bounded":     {keys: published(0, 1, 2, 3, 4, 5, 6, 7), lost: true, at: time.Minute, create: 9, remove: "1", signers: "1 2 3 4 5 6 7 8", next: CheckInterval},
		"several keys are removed together": {keys: published(0, 1, 2, 30*day), at: 32 * day, remove: "1 2 3", signers: "4", next: CheckInterval},
	} {
		t.Run(name, func(t *testing.T) {
			now := start.Add(c.at)
			p := PlanKeys(c.keys, c.lost, now)
			if p.Create != c.create || numbers(p.Remove) != c.remove || p.Next.Sub(now) != c.next {
				t.Errorf("create %d, remove %q, next in %s; want %d, %q, %s", p.Create, numbers(p.Remove), p.Next.Sub(now), c.create, c.remove, c.next)
			}
			if got := numbers(Signers(c.keys, now)); got != c.signers {
				t.Errorf("signers %q, want %q", got, c.signers)
			}
		})
	}
}

// TestRotation follows the plan for a year, minute by minute where it says so: every token that has not expired is signed with a
// published key, a new key signs a day after it was published, and there are never more than two keys.
func TestRotation(t *testing.T) {
	type token struct {
		key    string
		expiry time.Time
	}
	var keys []v1alpha1.OidcTokenKey
	var tokens []token
	for now := start; now.Before(start.Add(365 * 24 * time.Hour)); {
		p := PlanKeys(keys, false, now)
		keys = slices.DeleteFunc(keys, func(k v1alpha1.OidcTokenKey) bool {
			return strings.Contains(" "+numbers(p.Remove)+" ", fmt.Sprint(" ", k.Number, " "))
		})
		if p.Create > 0 {
			keys = append(keys, v1alpha1.OidcTokenKey{Number: p.Create, ID: fmt.Sprint("key ", p.Create), PublishTime: metav1.NewTime(now)})
		}
		if len(keys) > 2 {
			t.Fatalf("%s: keys %s", now, numbers(keys))
		}
		signer := Signers(keys, now)[0]
		if age := now.Sub(signer.PublishTime.Time); age < ActivationDelay && signer.Number > 1 {
			t.Fatalf("%s: key %d signs after %s", now, signer.Number, age)
		}
		tokens = append(slices.DeleteFunc(tokens, func(issued token) bool { return now.After(issued.expiry) }), token{signer.ID, now.Add(Lifetime)})
		for _, issued := range tokens {
			if !slices.ContainsFunc(keys, func(k v1alpha1.OidcTokenKey) bool { return k.ID == issued.key }) {
				t.Fatalf("%s: a token of %s is valid until %s; keys %s", now, issued.key, issued.expiry, numbers(keys))
			}
		}
		now = p.Next
	}
	if last := keys[len(keys)-1].Number; last != 13 {
		t.Errorf("%d keys in a year, want 13", last)
	}
}

func newKey(t *testing.T) *PrivateKey {
	t.Helper()
	key, err := Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestKeysAreEncoded(t *testing.T) {
	key := newKey(t)
	encoded, err := key.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := Decode(encoded)
	if err != nil || decoded.ID != key.ID || !decoded.private.Equal(key.private) {
		t.Errorf("%v, %+v", err, decoded)
	}
	for name, data := range map[string]string{
		"empty": "", "no PEM": "MIIE", "another type": strings.ReplaceAll(string(encoded), "PRIVATE KEY", "RSA PRIVATE KEY"),
		"not DER": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"not RSA": "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n",
	} {
		if _, err := Decode([]byte(data)); err == nil || err.Error() != errNoKey.Error() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeySet(t *testing.T) {
	first, second := newKey(t), newKey(t)
	text, err := KeySet([]v1alpha1.OidcTokenKey{first.Public(1, start), second.Public(2, start.Add(time.Millisecond))})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), `"d"`) || !strings.Contains(string(text), `"e":"AQAB"`) {
		t.Errorf("%s", text)
	}
	set := jose.JSONWebKeySet{}
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	for i, want := range []*PrivateKey{first, second} {
		got := set.Keys[i]
		if got.KeyID != want.ID || got.Algorithm != "RS256" || got.Use != "sig" || !want.private.PublicKey.Equal(got.Key) {
			t.Errorf("key %d: %+v", i, got)
		}
	}
	if _, err := KeySet([]v1alpha1.OidcTokenKey{{Number: 3, Modulus: "?"}}); err == nil || !strings.Contains(err.Error(), "key 3") {
		t.Error(err)
	}
	if text, err := KeySet(nil); err != nil || string(text) != `{"keys":[]}` {
		t.Errorf("%s, %v", text, err)
	}
	if diff := cmp.Diff(start, second.Public(2, start.Add(time.Millisecond)).PublishTime.Time); diff != "" {
		t.Error(diff) // the schema has seconds
	}
}
