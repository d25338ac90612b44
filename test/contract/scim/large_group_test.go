package scim_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// largeGroup returns the body of a group with members as responses contain them.
func largeGroup(name string, members int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"schemas":[%q],"displayName":%q,"members":[`, scimtest.GroupURN, name)
	for i := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"value":"%036d","$ref":"%s/Users/%036d","type":"User","display":"Member %d"}`, i, acme.BaseURL(), i, i)
	}
	return b.String() + "]}"
}

func zipped(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(body)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAGroupIsPutBackAsItWasRead checks that the server accepts what it returns, up to 50,000 members.
func TestAGroupIsPutBackAsItWasRead(t *testing.T) {
	const members = 50_000
	admin, name := acme.WithToken(acme.RFC), scimtest.UniqueName("large")
	id := admin.Create(t, "/Groups", largeGroup(name, members))
	user := admin.CreateUser(t, scimtest.UniqueName("large"))
	admin.Call(t, "PATCH", "/Groups/"+id+"?attributes=id", scimtest.PatchBody(`{"op":"remove","path":"members[value eq \"`+fmt.Sprintf("%036d", 0)+`\"]"}`, `{"op":"add","path":"members","value":[{"value":"`+user+`"}]}`)).WantStatus(200)
	read := admin.Call(t, "GET", "/Groups/"+id, nil).WantStatus(200)
	if scimtest.InMemory && len(read.List("members")) != members {
		t.Fatalf("%d members", len(read.List("members")))
	}
	if scimtest.InMemory { // in a cluster only the members that exist are visible: TestAGroupOfUsersIsPutBackAsItWasRead
		admin.Call(t, "PUT", "/Groups/"+id, string(read.Raw)).WantStatus(200).Want("meta.version", read.Text("meta.version"))
	}
	got := admin.Call(t, "PUT", "/Groups/"+id+"?excludedAttributes=members", zipped(t, largeGroup(name, members)), "Content-Encoding", "gzip").WantStatus(200)
	admin.Find(t, "/Groups", `id eq "`+id+`" and members.value eq "`+user+`"`).WantStatus(200).Want("totalResults", 0)
	if got.Text("meta.version") == read.Text("meta.version") {
		t.Errorf("the version is still %s", got.Text("meta.version"))
	}
	t.Run("limits", func(t *testing.T) {
		admin.Call(t, "PUT", "/Groups/"+id, zipped(t, largeGroup(name, members+1)), "Content-Encoding", "gzip").WantError(400, "invalidValue", "members", "50000")
		admin.Call(t, "PUT", "/Groups/"+id, `{"displayName":"`+strings.Repeat("x", 2<<20)+`"}`).WantError(413, "", "1048576")
		admin.Call(t, "PUT", "/Groups/"+id, `{"displayName":"x","members":[{"value":"`+strings.Repeat("x", 2<<20)+`"}]}`).WantError(413, "", "1048576")
		admin.Call(t, "PATCH", "/Groups/"+id, scimtest.PatchBody(`{"op":"replace","path":"displayName","value":"`+strings.Repeat("x", 2<<20)+`"}`)).WantError(413, "")
		admin.Call(t, "PUT", "/Users/"+user, `{"userName":"`+strings.Repeat("x", 2<<20)+`"}`).WantError(413, "")
		admin.Call(t, "PUT", "/Groups/"+id, zipped(t, strings.Repeat(" ", 33<<20)), "Content-Encoding", "gzip").WantError(413, "")
		admin.Call(t, "POST", "/Users", zipped(t, strings.Repeat(" ", 2<<20)), "Content-Encoding", "gzip").WantError(413, "")
		admin.Call(t, "POST", "/Users", "{}", "Content-Encoding", "br").WantError(415, "", "gzip")
		admin.Call(t, "POST", "/Users", "{}", "Content-Encoding", "gzip").WantError(400, "invalidSyntax")
	})
}

// TestStreamedMembersAreCheckedLikeOthers checks that members in the body of a group follow the client profile.
func TestStreamedMembersAreCheckedLikeOthers(t *testing.T) {
	rfc, entra, auto := acme.WithToken(acme.RFC), acme.WithToken(acme.Entra), acme.WithToken(acme.Auto)
	user := rfc.CreateUser(t, scimtest.UniqueName("member"))
	for _, members := range []string{`[{"value":"` + user + `","displayName":"M"}]`, `["` + user + `"]`} {
		body := `"displayName":"` + scimtest.UniqueName("streamed") + `","members":` + members + `}`
		rfc.Post(t, "/Groups", `{`+body).WantStatus(400)
		rfc.Post(t, "/Groups", `{"`+scimtest.GroupURN+`":{`+body+`}`).WantStatus(400)
		entra.Post(t, "/Groups", `{`+body).WantStatus(201).Want("members.0.value", user)
		auto.Post(t, "/Groups", `{`+strings.Replace(body[:len(body)-1], "streamed", "detected", 1)+`,"schemas":["`+scimtest.GroupURN+`","http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"]}`).WantStatus(201).Want("members.0.value", user)
	}
	rfc.Post(t, "/Groups", `{"displayName":"x","members":[{"value":"a"},{}]}`).WantStatus(201)
	rfc.Post(t, "/Groups", `{"displayName":"y","members":[{"type":"User"}]}`).WantError(400, "invalidValue", "members", "value")
}

// TestResponsesAreCompressed checks that large responses are compressed for clients that accept it.
func TestResponsesAreCompressed(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	plain := admin.Call(t, "GET", "/Schemas", nil, "Accept-Encoding", "identity").WantStatus(200)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, acme.BaseURL()+"/Schemas", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	got, err := scimtest.Clients[0].Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	reader, err := gzip.NewReader(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(reader)
	if err != nil || got.Header.Get("Vary") != "Accept-Encoding" || len(body) < len(plain.Raw)/2 {
		t.Errorf("%v, %v, %d bytes instead of %d", err, got.Header, len(body), len(plain.Raw))
	}
}
