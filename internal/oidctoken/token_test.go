package oidctoken

import (
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

var workload = Workload{
	Account:    &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: v1alpha1.AccountSpec{Host: "acme.example.com:8443", CustomDomains: []v1alpha1.Host{"analytics.example.com"}}},
	Deployment: "sales", ID: "12", Component: engine.ComponentAPI, Region: "eu",
}

// config returns a configuration that was created in a second.
func config(name string, second int64, edits ...func(*v1alpha1.OidcTokenConfigSpec)) *v1alpha1.OidcTokenConfig {
	c := &v1alpha1.OidcTokenConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}, Spec: v1alpha1.OidcTokenConfigSpec{AudienceType: v1alpha1.OidcAudienceAWS},
	}
	for _, edit := range edits {
		edit(&c.Spec)
	}
	return c
}

func claim(name, value string) func(*v1alpha1.OidcTokenConfigSpec) {
	return func(s *v1alpha1.OidcTokenConfigSpec) {
		s.CustomClaims = append(s.CustomClaims, v1alpha1.OidcClaim{Name: name, Value: apiextensionsv1.JSON{Raw: []byte(value)}})
	}
}

func variable(name string) func(*v1alpha1.OidcTokenConfigSpec) {
	return func(s *v1alpha1.OidcTokenConfigSpec) { s.TargetEnvVar = name }
}

func named(name string) func(*v1alpha1.OidcTokenConfigSpec) {
	return func(s *v1alpha1.OidcTokenConfigSpec) { s.Name = name }
}

func only(deployments ...string) func(*v1alpha1.OidcTokenConfigSpec) {
	return func(s *v1alpha1.OidcTokenConfigSpec) {
		for _, d := range deployments {
			s.Deployments = append(s.Deployments, v1alpha1.LocalReference{Name: d})
		}
	}
}

func suspended(s *v1alpha1.OidcTokenConfigSpec) { s.Suspend = ptr.To(true) }

func TestAudienceAndSubject(t *testing.T) {
	const issuer = "https://acme.example.com:8443/oidc"
	if got := Issuer(workload.Account); got != issuer {
		t.Errorf("issuer %q", got)
	}
	for kind, want := range map[v1alpha1.OidcAudienceType]string{
		v1alpha1.OidcAudienceAWS: "sts.amazonaws.com", v1alpha1.OidcAudienceAzure: "api://AzureADTokenExchange",
		v1alpha1.OidcAudienceGCP: issuer, v1alpha1.OidcAudienceSnowflake: "snowflakecomputing.com",
	} {
		c := config("c", 1)
		c.Spec.AudienceType = kind
		if got := Audience(c, issuer); got != want {
			t.Errorf("%s: %q, want %q", kind, got, want)
		}
		c.Spec.Audience = "mine"
		if got := Audience(c, issuer); got != "mine" {
			t.Errorf("%s: %q", kind, got)
		}
	}
	for format, want := range map[string]string{
		"": "deployment:12", "a": "a", "{region}:{component}:{deployment_id}-{deployment_id}": "eu:api:12-12",
	} {
		c := config("c", 1)
		c.Spec.SubjectFormat = format
		if got := Subject(c, workload); got != want {
			t.Errorf("%q: %q, want %q", format, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	c := config("aws", 1, claim("https://aws.amazon.com/tags", `{"principal_tags": {"team": ["sales"]}, "big": 12345678901234567890}`), claim("flag", "true"))
	claims, err := Claims(c, workload)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	signed, err := Sign(claims, key, start)
	if err != nil {
		t.Fatal(err)
	}
	got := jwt.MapClaims{}
	parsed, err := jwt.NewParser(jwt.WithTimeFunc(func() time.Time { return start }), jwt.WithValidMethods([]string{"RS256"}), jwt.WithJSONNumber()).
		ParseWithClaims(signed, got, func(*jwt.Token) (any, error) { return &key.private.PublicKey, nil })
	if err != nil || parsed.Header["kid"] != key.ID {
		t.Fatalf("%v, %v", err, parsed.Header)
	}
	if id, _ := got["jti"].(string); len(id) < 20 {
		t.Errorf("jti %q", id)
	}
	delete(got, "jti")
	want := `{"aud":"sts.amazonaws.com","exp":1767229200,"flag":true,` +
		`"https://aws.amazon.com/tags":{"big":12345678901234567890,"principal_tags":{"team":["sales"]}},"iat":1767225600,"iss":"https://acme.example.com:8443/oidc","nbf":1767225600,` +
		`"platform.quoin.dev":{"account":"acme","component":"api","deployment":"sales","deployment_id":"12","region":"eu"},"sub":"deployment:12"}`
	if diff := cmp.Diff(want, string(mustJSON(t, got))); diff != "" {
		t.Error(diff)
	}

	issued, ok := Read(signed)
	keys := []v1alpha1.OidcTokenKey{key.Public(1, start)}
	if !ok || !issued.Expiry.Equal(start.Add(Lifetime)) || issued.KeyID != key.ID {
		t.Fatalf("%+v", issued)
	}
	renewal := issued.RenewalTime("a")
	if left := issued.Expiry.Sub(renewal); left < renewBefore || left > renewBefore+spread {
		t.Errorf("renewed %s before the expiry", left)
	}
	changed, err := Claims(c, Workload{Account: workload.Account, Deployment: "sales", ID: "13", Component: engine.ComponentAPI, Region: "eu"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		claims map[string]any
		keys   []v1alpha1.OidcTokenKey
		now    time.Time
		want   bool
	}{
		"new":               {claims, keys, start, true},
		"before renewal":    {claims, keys, renewal.Add(-batch - time.Second), true},
		"renewal":           {claims, keys, renewal.Add(-batch), false},
		"expired":           {claims, keys, start.Add(2 * Lifetime), false},
		"other claims":      {changed, keys, start, false},
		"key not published": {claims, published(0), start, false},
	} {
		if got := issued.IsCurrent(c.claims, c.keys, "a", c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (Issued{}).IsCurrent(claims, keys, "a", start) {
		t.Error("no token is current")
	}
}

func TestReadRejectsOther(t *testing.T) {
	key := newKey(t)
	for _, text := range []string{"", "a.b.c", "e30.e30.", strings.Repeat("a", 1000)} {
		if issued, ok := Read(text); ok {
			t.Errorf("%q: %+v", text, issued)
		}
	}
	unbounded, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"iss": "x"}).SignedString(key.private)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := Read(unbounded); ok {
		t.Error("a token without expiry")
	}
}

func FuzzRead(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.eyJleHAiOjF9.")
	f.Fuzz(func(t *testing.T, text string) {
		if issued, ok := Read(text); ok && issued.IsCurrent(map[string]any{"iss": "x"}, nil, "a", start) {
			t.Errorf("%q is current without keys", text)
		}
	})
}
