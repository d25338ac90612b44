//go:build memory

package scim_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/apiserver/scim/scimtest"
)

// inMemory tells that the protocol is tested without Kubernetes: go test -tags memory takes a
// second, and skips what needs a cluster.
const inMemory = true

func TestMain(m *testing.M) {
	server := scim.NewServer(time.Now, nil)
	stores := map[*account]*scimtest.Memory{acme: {}, globex: {LastID: 500_000}} // distinct ids
	extension := schema.Extension{Schema: &schema.Schema{ID: attributesURN, Name: "UserAttribute", Attributes: []*schema.Attribute{
		attribute("team", schema.String), attribute("level", schema.Integer),
		{Name: "tags", Type: schema.String, MultiValued: true, Mutability: schema.ReadWrite, Returned: schema.Default, Uniqueness: "none"},
		{Name: "badge", Type: schema.String, CaseExact: true, Mutability: schema.Immutable, Returned: schema.Default, Uniqueness: "none"},
		attribute("since", schema.DateTime), attribute("score", schema.Decimal), attribute("remote", schema.Boolean),
	}}}
	for _, a := range accounts {
		a.rfc, a.okta, a.entra, a.auto, a.reader, a.scoped = "rfc-"+a.name, "okta-"+a.name, "entra-"+a.name, "auto-"+a.name, "reader-"+a.name, "scoped-"+a.name
	}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, a := range accounts {
			if r.Host != a.host {
				continue
			}
			tenant := &scim.Tenant{Name: a.name, BaseURL: a.base(), Types: []*schema.ResourceType{schema.User, schema.Group}, Store: stores[a]}
			_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			kind, ok := strings.CutSuffix(token, "-"+a.name)
			switch {
			case token == "" && server.IsPublic(r):
			case !ok:
				w.Header().Set("WWW-Authenticate", `Bearer realm="quoin"`)
				scim.WriteStatus(w, scimerror.New(http.StatusUnauthorized, "not authenticated"))
				return
			case a == acme:
				tenant.Types = []*schema.ResourceType{schema.User.With(extension), schema.Group}
			}
			profile := map[string]string{"rfc": "RFC", "okta": "Okta", "entra": "EntraID"}[kind]
			r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
			server.ServeHTTP(w, r, tenant, scim.Caller{Manages: ok && kind != "reader" && kind != "scoped", Profile: profile})
		}
	}))
	replicas = [2]string{front.Listener.Addr().String(), front.Listener.Addr().String()}
	setRoots(&x509.CertPool{})
	for _, c := range clients {
		transport, _ := c.Transport.(*http.Transport)
		transport.TLSClientConfig.InsecureSkipVerify = true
	}
	os.Exit(m.Run())
}

func attribute(name string, kind schema.Type) *schema.Attribute {
	return &schema.Attribute{Name: name, Type: kind, Mutability: schema.ReadWrite, Returned: schema.Default, Uniqueness: "none"}
}
