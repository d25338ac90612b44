package scim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

const bulkResponseURN = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"

// bulk returns the body of a bulk request with operations.
func bulk(operations ...string) string {
	return fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, scimtest.BulkURN, strings.Join(operations, ","))
}

// sendBulk sends a bulk request that succeeds. Created resources are deleted after the test.
func sendBulk(t *testing.T, a scimtest.Caller, body string) *scimtest.Response {
	t.Helper()
	got := a.Call(t, "POST", "/Bulk", body).WantStatus(200).Want("schemas.0", bulkResponseURN)
	for _, o := range got.List("Operations") {
		if location, _ := o["location"].(string); o["method"] == "POST" && o["status"] == "201" {
			t.Cleanup(func() {
				_, _ = a.Try(context.WithoutCancel(t.Context()), "DELETE", strings.TrimPrefix(location, a.BaseURL()), nil)
			})
		}
	}
	return got
}

// statuses returns the statuses of the operations.
func statuses(a *scimtest.Response) string {
	a.T.Helper()
	var all []string
	for _, o := range a.List("Operations") {
		status, _ := o["status"].(string)
		all = append(all, status)
	}
	return strings.Join(all, " ")
}

// operationPath returns the path of the resource of an operation.
func operationPath(a *scimtest.Response, operation int) string {
	a.T.Helper()
	return strings.TrimPrefix(a.Text(fmt.Sprintf("Operations.%d.location", operation)), acme.BaseURL())
}

func TestRFC7644Section3_7_Bulk(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("performs the operations in order", func(t *testing.T) {
		kept, gone := admin.CreateUserPath(t, `"title":"a"`), admin.CreateUserPath(t)
		name, renamed := scimtest.UniqueName("new"), scimtest.UniqueName("renamed")
		got := sendBulk(t, admin, bulk(
			`{"method":"POST","path":"/Users","bulkId":"q","data":{"schemas":["`+scimtest.UserURN+`"],"userName":`+scimtest.Quote(name)+`}}`,
			`{"method":"PUT","path":"`+kept+`","data":{"schemas":["`+scimtest.UserURN+`"],"userName":`+scimtest.Quote(renamed)+`}}`,
			`{"method":"PATCH","path":"`+kept+`","bulkId":"mine","data":{"schemas":["`+scimtest.PatchURN+`"],"Operations":[{"op":"add","path":"title","value":"b"}]}}`,
			`{"method":"DELETE","path":"`+gone+`"}`,
		))
		if statuses(got) != "201 200 200 204" {
			t.Fatalf("%s", got.Raw)
		}
		got.Want("Operations.0.method", "POST").Want("Operations.0.bulkId", "q").Want("Operations.1.method", "PUT").Want("Operations.2.bulkId", "mine").Want("Operations.3.method", "DELETE")
		got.Want("Operations.1.location", acme.BaseURL()+kept).Want("Operations.2.location", acme.BaseURL()+kept).Want("Operations.3.location", acme.BaseURL()+gone)
		admin.Call(t, "GET", operationPath(got, 0), nil).WantStatus(200).Want("userName", name).Want("meta.version", got.Value("Operations.0.version"))
		admin.Call(t, "GET", kept, nil).WantStatus(200).Want("userName", renamed).Want("title", "b").Want("meta.version", got.Value("Operations.2.version"))
		admin.Call(t, "GET", gone, nil).WantError(404, "")
	})
}

func TestRFC7644Section3_7_3_BulkResponses(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("a failed operation has an error, the others are performed", func(t *testing.T) {
		taken := scimtest.UniqueName("taken")
		path := "/Users/" + admin.CreateUser(t, taken)
		got := sendBulk(t, admin, bulk(
			`{"method":"POST","path":"/Users","bulkId":"1","data":{"userName":`+scimtest.Quote(strings.ToUpper(taken))+`}}`,
			`{"method":"POST","path":"/Users","bulkId":"2","data":{}}`,
			`{"method":"PATCH","path":"`+path+`","data":{"schemas":["`+scimtest.PatchURN+`"],"Operations":[{"op":"remove","path":"userName"}]}}`,
			`{"method":"PUT","path":"/Users/ghost","data":{"userName":"ghost"}}`,
			`{"method":"DELETE","path":"/Groups/ghost"}`,
			`{"method":"POST","path":"/Users","bulkId":"3","data":{"userName":`+scimtest.Quote(scimtest.UniqueName("ok"))+`}}`,
		))
		if statuses(got) != "409 400 400 404 404 201" {
			t.Fatalf("%s", got.Raw)
		}
		for i, scimType := range []any{"uniqueness", "invalidValue", "mutability", nil, nil} {
			at := fmt.Sprintf("Operations.%d.response.", i)
			got.Want(at+"schemas.0", scimtest.ErrorURN).Want(at+"scimType", scimType).Want(at+"status", got.Value(fmt.Sprintf("Operations.%d.status", i)))
			if got.Text(at+"detail") == "" {
				t.Errorf("operation %d has no detail", i)
			}
		}
		got.Want("Operations.0.location", nil).Want("Operations.1.location", nil)
		got.Want("Operations.2.location", acme.BaseURL()+path).Want("Operations.3.location", acme.BaseURL()+"/Users/ghost").Want("Operations.4.location", acme.BaseURL()+"/Groups/ghost")
	})
	t.Run("stops after failOnErrors errors", func(t *testing.T) {
		free := scimtest.UniqueName("free")
		body := strings.Replace(bulk(
			`{"method":"DELETE","path":"/Users/ghost"}`, `{"method":"POST","path":"/Users","bulkId":"a","data":{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`}}`, `{"method":"DELETE","path":"/Users/ghost"}`,
			`{"method":"POST","path":"/Users","bulkId":"b","data":{"userName":`+scimtest.Quote(free)+`}}`), `"Operations"`, `"failOnErrors":2,"Operations"`, 1)
		if got := sendBulk(t, admin, body); statuses(got) != "404 201 404" {
			t.Errorf("%s", got.Raw)
		}
		admin.Find(t, "/Users", `userName eq `+scimtest.Quote(free)).WantStatus(200).Want("totalResults", 0)
	})
}

func TestRFC7644Section3_7_BulkOperations(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	t.Run("version is If-Match", func(t *testing.T) {
		path := admin.CreateUserPath(t)
		version := scimtest.Quote(admin.Call(t, "GET", path, nil).Text("meta.version"))
		data := `"data":{"schemas":["` + scimtest.PatchURN + `"],"Operations":[{"op":"add","path":"title","value":"b"}]}`
		got := sendBulk(t, admin, bulk(
			`{"method":"PATCH","path":"`+path+`","version":`+version+`,`+data+`}`, `{"method":"PUT","path":"`+path+`","version":`+version+`,"data":{"userName":"x"}}`, `{"method":"DELETE","path":"`+path+`","version":`+version+`}`,
		))
		if statuses(got) != "200 412 412" {
			t.Errorf("%s", got.Raw)
		}
		admin.Call(t, "GET", path, nil).WantStatus(200).Want("title", "b").Want("meta.version", got.Value("Operations.0.version"))
	})
	t.Run("names and methods are case-insensitive", func(t *testing.T) {
		got := sendBulk(t, admin, `{"SCHEMAS":["`+strings.ToUpper(scimtest.BulkURN)+`"],"operations":[{"METHOD":"post","Path":"/Users","bulkid":"x","DATA":{"userName":`+scimtest.Quote(scimtest.UniqueName("u"))+`}}]}`)
		if statuses(got) != "201" {
			t.Errorf("%s", got.Raw)
		}
	})
	t.Run("an invalid operation does not affect the others", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(`{"method":"GET","path":"/Users"}`, `{"method":"POST","path":"/Devices","bulkId":"1","data":{}}`, `{"method":"POST","path":"/Users/x","bulkId":"2","data":{}}`, `{"method":"PUT","path":"/Users","data":{}}`,
			`{"method":"DELETE","path":"/Users/"}`, `{"method":"DELETE","path":"https://evil.example.com/Users/x"}`, `{"method":"DELETE","path":"/Users/x/y"}`, `{"method":"DELETE","path":"/Schemas/x"}`, `{"method":"POST","path":"/Bulk","bulkId":"3","data":{}}`,
			`{"method":"PATCH","path":"/Me","data":{}}`, `{"method":"POST","path":"/Users","bulkId":"4"}`, `{"method":"PUT","path":"/Users/x"}`))
		if statuses(got) != strings.TrimSpace(strings.Repeat("400 ", 12)) {
			t.Errorf("%s", got.Raw)
		}
	})
}

// postUser returns an operation that creates a user. members are additional members of its body, each after a
// comma.
func postUser(bulkID, members string) string {
	return fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":%q,"data":{"userName":%q%s}}`, bulkID, scimtest.UniqueName("u"), members)
}

// postGroup returns an operation that creates a group with members.
func postGroup(bulkID string, members ...string) string {
	return fmt.Sprintf(`{"method":"POST","path":"/Groups","bulkId":%q,"data":{"displayName":%q,"members":[%s]}}`, bulkID, scimtest.UniqueName("g"), strings.Join(members, ","))
}

func TestRFC7644Section3_7_2_BulkIdReferences(t *testing.T) {
	admin, user, group := acme.WithToken(acme.RFC), postUser, postGroup
	t.Run("the example of the RFC", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(user("qwerty", ""), group("ytrewq", `{"type":"User","value":"bulkId:qwerty"}`)))
		admin.Call(t, "GET", operationPath(got, 1), nil).WantStatus(200).Want("members.0.value", strings.TrimPrefix(operationPath(got, 0), "/Users/"))
	})
	t.Run("to a later operation", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(group("g", `{"value":"bulkId:u"}`), user("u", `,"`+scimtest.EnterpriseURN+`":{"manager":{"value":"bulkId:boss"}}`), user("boss", "")))
		if statuses(got) != "201 201 201" {
			t.Fatalf("%s", got.Raw)
		}
		got.Want("Operations.0.bulkId", "g").Want("Operations.1.bulkId", "u").Want("Operations.2.bulkId", "boss")
		admin.Call(t, "GET", operationPath(got, 0), nil).WantStatus(200).Want("members.0.value", strings.TrimPrefix(operationPath(got, 1), "/Users/"))
		admin.Call(t, "GET", operationPath(got, 1), nil).WantStatus(200).Want("["+scimtest.EnterpriseURN+"].manager.value", strings.TrimPrefix(operationPath(got, 2), "/Users/"))
	})
	t.Run("in a path, and in the value of a PATCH", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(user("u", ""), group("g"),
			`{"method":"PATCH","path":"/Users/bulkId:u","data":{"schemas":["`+scimtest.PatchURN+`"],"Operations":[{"op":"add","path":"title","value":"T"}]}}`,
			`{"method":"PATCH","path":"/Groups/bulkId:g","data":{"schemas":["`+scimtest.PatchURN+`"],"Operations":[{"op":"add","path":"members","value":[{"value":"bulkId:u"}]}]}}`))
		if statuses(got) != "201 201 200 200" {
			t.Fatalf("%s", got.Raw)
		}
		admin.Call(t, "GET", operationPath(got, 0), nil).WantStatus(200).Want("title", "T").Want("groups.0.value", strings.TrimPrefix(operationPath(got, 1), "/Groups/"))
	})
	t.Run("to a failed operation is a 409", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(group("g", `{"value":"bulkId:nobody"}`), `{"method":"POST","path":"/Users","bulkId":"bad","data":{}}`, group("h", `{"value":"bulkId:bad"}`), `{"method":"DELETE","path":"/Users/bulkId:bad"}`, user("fine", "")))
		if statuses(got) != "409 400 409 409 201" {
			t.Errorf("%s", got.Raw)
		}
		if detail := got.Text("Operations.0.response.detail"); !strings.Contains(detail, "nobody") {
			t.Errorf("detail is %q", detail)
		}
	})
	t.Run("bulkId is unique and required for POST", func(t *testing.T) {
		admin.Call(t, "POST", "/Bulk", bulk(user("a", ""), user("a", ""))).WantError(400, "invalidValue", "bulkId", "Operations[1]")
		admin.Call(t, "POST", "/Bulk", bulk(`{"method":"POST","path":"/Users","data":{"userName":"x"}}`)).WantError(400, "invalidSyntax", "bulkId")
	})
}

func TestRFC7644Section3_7_1_CircularReferences(t *testing.T) {
	admin, user, group := acme.WithToken(acme.RFC), postUser, postGroup
	t.Run("of three groups", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(group("a", `{"value":"bulkId:b","type":"Group"}`), group("b", `{"value":"bulkId:c","type":"Group"}`), group("c", `{"value":"bulkId:a","type":"Group"}`)))
		if statuses(got) != "201 201 201" {
			t.Fatalf("%s", got.Raw)
		}
		for i := range 3 {
			read := admin.Call(t, "GET", operationPath(got, i), nil).WantStatus(200)
			read.Want("members.0.value", strings.TrimPrefix(operationPath(got, (i+1)%3), "/Groups/")).Want("members.1", nil).Want("meta.version", got.Value(fmt.Sprintf("Operations.%d.version", i)))
		}
	})
	t.Run("a change of a group that still lacks a member", func(t *testing.T) {
		got := sendBulk(t, admin, bulk(user("u", ""), group("a", `{"value":"bulkId:b","type":"Group"}`),
			`{"method":"PATCH","path":"/Groups/bulkId:a","data":{"schemas":["`+scimtest.PatchURN+`"],"Operations":[{"op":"add","path":"members","value":[{"value":"bulkId:u"}]}]}}`,
			group("b", `{"value":"bulkId:a","type":"Group"}`)))
		if statuses(got) != "201 201 200 201" {
			t.Fatalf("%s", got.Raw)
		}
		members := admin.Call(t, "GET", operationPath(got, 1), nil).WantStatus(200)
		for _, id := range []string{strings.TrimPrefix(operationPath(got, 0), "/Users/"), strings.TrimPrefix(operationPath(got, 3), "/Groups/")} {
			if !strings.Contains(string(members.Raw), `"value":"`+id+`"`) {
				t.Errorf("%s is no member: %s", id, members.Raw)
			}
		}
	})
	t.Run("of two managers", func(t *testing.T) {
		manager := func(id string) string {
			return `,"` + scimtest.EnterpriseURN + `":{"manager":{"value":"bulkId:` + id + `"}}`
		}
		got := sendBulk(t, admin, bulk(user("a", manager("b")), user("b", manager("a"))))
		for i := range 2 {
			admin.Call(t, "GET", operationPath(got, i), nil).WantStatus(200).Want("["+scimtest.EnterpriseURN+"].manager.value", strings.TrimPrefix(operationPath(got, 1-i), "/Users/"))
		}
	})
}

func TestRFC7644Section3_7_4_BulkLimits(t *testing.T) {
	admin := acme.WithToken(acme.RFC)
	many := func(n int) string {
		return bulk(strings.TrimSuffix(strings.Repeat(`{"method":"DELETE","path":"/Users/ghost"},`, n), ","))
	}
	admin.Call(t, "GET", "/ServiceProviderConfig", nil).WantStatus(200).Want("bulk.supported", true).Want("bulk.maxOperations", 1000).Want("bulk.maxPayloadSize", 1<<20)
	if got := sendBulk(t, admin, many(1000)); len(got.List("Operations")) != 1000 {
		t.Errorf("%d results", len(got.List("Operations")))
	}
	admin.Call(t, "POST", "/Bulk", many(1001)).WantError(413, "", "1000")
	admin.Call(t, "POST", "/Bulk", bulk(`{"method":"DELETE","path":"/Users/`+strings.Repeat("x", 1<<20)+`"}`)).WantError(413, "", "1048576")
	for body, word := range map[string]string{
		`{}`: "Operations", bulk(): "Operations", `{"schemas":["` + scimtest.PatchURN + `"],"Operations":[{"method":"DELETE","path":"/Users/x"}]}`: "schemas", `{"schemas":["` + scimtest.BulkURN + `"],"Operations":{}}`: "Operations",
		`{"schemas":["` + scimtest.BulkURN + `"],"Operations":[1]}`: "Operations[0]", bulk(`{"method":1}`): "method", bulk(`{"method":"PUT","path":"/Users/x","data":[]}`): "data", bulk(`{"method":"DELETE","url":"/Users/x"}`): "url",
		`{"schemas":["` + scimtest.BulkURN + `"],"more":1,"Operations":[]}`: "more",
	} {
		admin.Call(t, "POST", "/Bulk", body).WantError(400, "invalidSyntax", word)
	}
	for _, n := range []string{"0", "-1", "1.5", `"1"`, "null"} {
		admin.Call(t, "POST", "/Bulk", strings.Replace(many(1), `"Operations"`, `"failOnErrors":`+n+`,"Operations"`, 1)).WantError(400, "invalidValue", "failOnErrors")
	}
}
