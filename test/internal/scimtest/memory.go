//go:build memory

package scimtest

import (
	"cmp"
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

// InMemory reports whether the protocol is tested without Kubernetes: go test -tags memory takes seconds and
// omits the tests that require a cluster.
const InMemory = true

// Main is the TestMain of a package: it serves the protocol with an in-memory store and runs the tests.
func Main(m *testing.M) {
	server := scim.NewServer(time.Now, nil)
	stores := map[*Account]*scimtest.Memory{Acme: {}, Globex: {LastID: 500_000}} // distinct ids
	extension := schema.Extension{Schema: &schema.Schema{ID: AttributesURN, Name: "UserAttribute", Attributes: []*schema.Attribute{
		attribute("team", schema.String), attribute("level", schema.Integer),
		{Name: "tags", Type: schema.String, MultiValued: true, Mutability: schema.ReadWrite, Returned: schema.Default, Uniqueness: "none"},
		{Name: "badge", Type: schema.String, CaseExact: true, Mutability: schema.Immutable, Returned: schema.Default, Uniqueness: "none"},
		attribute("since", schema.DateTime), attribute("score", schema.Decimal), attribute("remote", schema.Boolean),
	}}}
	for _, a := range Accounts {
		a.RFC, a.Okta, a.Entra, a.Auto, a.Reader, a.Scoped = "rfc-"+a.Name, "okta-"+a.Name, "entra-"+a.Name, "auto-"+a.Name, "reader-"+a.Name, "scoped-"+a.Name
	}
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, a := range Accounts {
			if r.Host != a.Host {
				continue
			}
			tenant := &scim.Tenant{Name: a.Name, BaseURL: a.BaseURL(), Types: []*schema.ResourceType{schema.User, schema.Group}, Store: stores[a]}
			_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			kind, ok := strings.CutSuffix(token, "-"+a.Name)
			switch {
			case token == "" && server.IsPublic(r):
			case !ok:
				w.Header().Set("WWW-Authenticate", `Bearer realm="quoin"`)
				scim.WriteStatus(w, scimerror.New(http.StatusUnauthorized, "not authenticated"))
				return
			case a == Acme:
				tenant.Types = []*schema.ResourceType{schema.User.With(extension), schema.Group}
			}
			profile := map[string]string{"rfc": "RFC", "okta": "Okta", "entra": "EntraID"}[kind]
			limit := cmp.Or(scim.BodyLimit(r), 1<<20)
			if r.ContentLength > limit {
				scim.WriteStatus(w, scimerror.New(http.StatusRequestEntityTooLarge, "larger than %d bytes", limit))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			server.ServeHTTP(w, r, tenant, scim.Caller{Manages: ok && kind != "reader" && kind != "scoped", Profile: profile})
		}
	}))
	Replicas = [2]string{front.Listener.Addr().String(), front.Listener.Addr().String()}
	setRoots(&x509.CertPool{})
	for _, c := range Clients {
		transport, _ := c.Transport.(*http.Transport)
		transport.TLSClientConfig.InsecureSkipVerify = true
	}
	os.Exit(m.Run())
}

func attribute(name string, kind schema.Type) *schema.Attribute {
	return &schema.Attribute{Name: name, Type: kind, Mutability: schema.ReadWrite, Returned: schema.Default, Uniqueness: "none"}
}
