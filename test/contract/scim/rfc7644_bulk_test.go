package scim_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const bulkResponseURN = "urn:ietf:params:scim:api:messages:2.0:BulkResponse"

// bulk is the body of a bulk request of operations, as JSON.
func bulk(operations ...string) string {
	return fmt.Sprintf(`{"schemas":[%q],"Operations":[%s]}`, bulkURN, strings.Join(operations, ","))
}

// bulk sends one that is answered with 200, and deletes what it creates with the test.
func (a as) bulk(t *testing.T, body string) *answer {
	t.Helper()
	got := a.call(t, "POST", "/Bulk", body).is(200).want("schemas.0", bulkResponseURN)
	for _, o := range got.list("Operations") {
		if location, _ := o["location"].(string); o["method"] == "POST" && o["status"] == "201" {
			t.Cleanup(func() {
				_, _ = a.try(context.WithoutCancel(t.Context()), "DELETE", strings.TrimPrefix(location, a.base()), nil)
			})
		}
	}
	return got
}

// statuses are those of the operations, in their order.
func (a *answer) statuses() string {
	a.t.Helper()
	var all []string
	for _, o := range a.list("Operations") {
		status, _ := o["status"].(string)
		all = append(all, status)
	}
	return strings.Join(all, " ")
}

// location is the path of what an operation was about.
func (a *answer) location(operation int) string {
	a.t.Helper()
	return strings.TrimPrefix(a.text(fmt.Sprintf("Operations.%d.location", operation)), acme.base())
}

func TestRFC7644Section3_7_Bulk(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("does the operations in their order and tells of each", func(t *testing.T) {
		kept, gone := admin.userOf(t, `"title":"a"`), admin.userOf(t)
		name, renamed := unique("new"), unique("renamed")
		got := admin.bulk(t, bulk(
			`{"method":"POST","path":"/Users","bulkId":"q","data":{"schemas":["`+userURN+`"],"userName":`+quote(name)+`}}`,
			`{"method":"PUT","path":"`+kept+`","data":{"schemas":["`+userURN+`"],"userName":`+quote(renamed)+`}}`,
			`{"method":"PATCH","path":"`+kept+`","bulkId":"mine","data":{"schemas":["`+patchURN+`"],"Operations":[{"op":"add","path":"title","value":"b"}]}}`,
			`{"method":"DELETE","path":"`+gone+`"}`,
		))
		if got.statuses() != "201 200 200 204" {
			t.Fatalf("%s", got.raw)
		}
		got.want("Operations.0.method", "POST").want("Operations.0.bulkId", "q").want("Operations.1.method", "PUT").want("Operations.2.bulkId", "mine").want("Operations.3.method", "DELETE")
		got.want("Operations.1.location", acme.base()+kept).want("Operations.2.location", acme.base()+kept).want("Operations.3.location", acme.base()+gone)
		admin.call(t, "GET", got.location(0), nil).is(200).want("userName", name).want("meta.version", got.at("Operations.0.version"))
		admin.call(t, "GET", kept, nil).is(200).want("userName", renamed).want("title", "b").want("meta.version", got.at("Operations.2.version"))
		admin.call(t, "GET", gone, nil).refused(404, "")
	})
}

func TestRFC7644Section3_7_3_BulkResponses(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("an operation that fails has its error, and the others are done", func(t *testing.T) {
		taken := unique("taken")
		path := "/Users/" + admin.user(t, taken)
		got := admin.bulk(t, bulk(
			`{"method":"POST","path":"/Users","bulkId":"1","data":{"userName":`+quote(strings.ToUpper(taken))+`}}`,
			`{"method":"POST","path":"/Users","bulkId":"2","data":{}}`,
			`{"method":"PATCH","path":"`+path+`","data":{"schemas":["`+patchURN+`"],"Operations":[{"op":"remove","path":"userName"}]}}`,
			`{"method":"PUT","path":"/Users/ghost","data":{"userName":"ghost"}}`,
			`{"method":"DELETE","path":"/Groups/ghost"}`,
			`{"method":"POST","path":"/Users","bulkId":"3","data":{"userName":`+quote(unique("ok"))+`}}`,
		))
		if got.statuses() != "409 400 400 404 404 201" {
			t.Fatalf("%s", got.raw)
		}
		for i, scimType := range []any{"uniqueness", "invalidValue", "mutability", nil, nil} {
			at := fmt.Sprintf("Operations.%d.response.", i)
			got.want(at+"schemas.0", errorURN).want(at+"scimType", scimType).want(at+"status", got.at(fmt.Sprintf("Operations.%d.status", i)))
			if got.text(at+"detail") == "" {
				t.Errorf("operation %d has no detail", i)
			}
		}
		got.want("Operations.0.location", nil).want("Operations.1.location", nil)
		got.want("Operations.2.location", acme.base()+path).want("Operations.3.location", acme.base()+"/Users/ghost").want("Operations.4.location", acme.base()+"/Groups/ghost")
	})
	t.Run("stops when failOnErrors have failed", func(t *testing.T) {
		free := unique("free")
		body := strings.Replace(bulk(
			`{"method":"DELETE","path":"/Users/ghost"}`, `{"method":"POST","path":"/Users","bulkId":"a","data":{"userName":`+quote(unique("u"))+`}}`, `{"method":"DELETE","path":"/Users/ghost"}`,
			`{"method":"POST","path":"/Users","bulkId":"b","data":{"userName":`+quote(free)+`}}`), `"Operations"`, `"failOnErrors":2,"Operations"`, 1)
		if got := admin.bulk(t, body); got.statuses() != "404 201 404" {
			t.Errorf("%s", got.raw)
		}
		admin.find(t, "/Users", `userName eq `+quote(free)).is(200).want("totalResults", 0)
	})
}

func TestRFC7644Section3_7_BulkOperations(t *testing.T) {
	admin := acme.as(acme.rfc)
	t.Run("version is If-Match", func(t *testing.T) {
		path := admin.userOf(t)
		version := quote(admin.call(t, "GET", path, nil).text("meta.version"))
		data := `"data":{"schemas":["` + patchURN + `"],"Operations":[{"op":"add","path":"title","value":"b"}]}`
		got := admin.bulk(t, bulk(
			`{"method":"PATCH","path":"`+path+`","version":`+version+`,`+data+`}`, `{"method":"PUT","path":"`+path+`","version":`+version+`,"data":{"userName":"x"}}`, `{"method":"DELETE","path":"`+path+`","version":`+version+`}`,
		))
		if got.statuses() != "200 412 412" {
			t.Errorf("%s", got.raw)
		}
		admin.call(t, "GET", path, nil).is(200).want("title", "b").want("meta.version", got.at("Operations.0.version"))
	})
	t.Run("names of the body and methods are taken in any case", func(t *testing.T) {
		got := admin.bulk(t, `{"SCHEMAS":["`+strings.ToUpper(bulkURN)+`"],"operations":[{"METHOD":"post","Path":"/Users","bulkid":"x","DATA":{"userName":`+quote(unique("u"))+`}}]}`)
		if got.statuses() != "201" {
			t.Errorf("%s", got.raw)
		}
	})
	t.Run("an operation on what is not a resource fails alone", func(t *testing.T) {
		got := admin.bulk(t, bulk(`{"method":"GET","path":"/Users"}`, `{"method":"POST","path":"/Devices","bulkId":"1","data":{}}`, `{"method":"POST","path":"/Users/x","bulkId":"2","data":{}}`, `{"method":"PUT","path":"/Users","data":{}}`,
			`{"method":"DELETE","path":"/Users/"}`, `{"method":"DELETE","path":"https://evil.example.com/Users/x"}`, `{"method":"DELETE","path":"/Users/x/y"}`, `{"method":"DELETE","path":"/Schemas/x"}`, `{"method":"POST","path":"/Bulk","bulkId":"3","data":{}}`,
			`{"method":"PATCH","path":"/Me","data":{}}`, `{"method":"POST","path":"/Users","bulkId":"4"}`, `{"method":"PUT","path":"/Users/x"}`))
		if got.statuses() != strings.TrimSpace(strings.Repeat("400 ", 12)) {
			t.Errorf("%s", got.raw)
		}
	})
}

// postUser is an operation that creates a user; members are those of its body besides userName,
// each with a comma before it.
func postUser(bulkID, members string) string {
	return fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":%q,"data":{"userName":%q%s}}`, bulkID, unique("u"), members)
}

// postGroup is an operation that creates a group of members.
func postGroup(bulkID string, members ...string) string {
	return fmt.Sprintf(`{"method":"POST","path":"/Groups","bulkId":%q,"data":{"displayName":%q,"members":[%s]}}`, bulkID, unique("g"), strings.Join(members, ","))
}

func TestRFC7644Section3_7_2_BulkIdReferences(t *testing.T) {
	admin, user, group := acme.as(acme.rfc), postUser, postGroup
	t.Run("the figure of the RFC: a user in a group that is created with it", func(t *testing.T) {
		got := admin.bulk(t, bulk(user("qwerty", ""), group("ytrewq", `{"type":"User","value":"bulkId:qwerty"}`)))
		admin.call(t, "GET", got.location(1), nil).is(200).want("members.0.value", strings.TrimPrefix(got.location(0), "/Users/"))
	})
	t.Run("to what comes later", func(t *testing.T) {
		got := admin.bulk(t, bulk(group("g", `{"value":"bulkId:u"}`), user("u", `,"`+enterpriseURN+`":{"manager":{"value":"bulkId:boss"}}`), user("boss", "")))
		if got.statuses() != "201 201 201" {
			t.Fatalf("%s", got.raw)
		}
		got.want("Operations.0.bulkId", "g").want("Operations.1.bulkId", "u").want("Operations.2.bulkId", "boss")
		admin.call(t, "GET", got.location(0), nil).is(200).want("members.0.value", strings.TrimPrefix(got.location(1), "/Users/"))
		admin.call(t, "GET", got.location(1), nil).is(200).want("["+enterpriseURN+"].manager.value", strings.TrimPrefix(got.location(2), "/Users/"))
	})
	t.Run("in a path, and in the value of a PATCH", func(t *testing.T) {
		got := admin.bulk(t, bulk(user("u", ""), group("g"),
			`{"method":"PATCH","path":"/Users/bulkId:u","data":{"schemas":["`+patchURN+`"],"Operations":[{"op":"add","path":"title","value":"T"}]}}`,
			`{"method":"PATCH","path":"/Groups/bulkId:g","data":{"schemas":["`+patchURN+`"],"Operations":[{"op":"add","path":"members","value":[{"value":"bulkId:u"}]}]}}`))
		if got.statuses() != "201 201 200 200" {
			t.Fatalf("%s", got.raw)
		}
		admin.call(t, "GET", got.location(0), nil).is(200).want("title", "T").want("groups.0.value", strings.TrimPrefix(got.location(1), "/Groups/"))
	})
	t.Run("to what was not created is a 409", func(t *testing.T) {
		got := admin.bulk(t, bulk(group("g", `{"value":"bulkId:nobody"}`), `{"method":"POST","path":"/Users","bulkId":"bad","data":{}}`, group("h", `{"value":"bulkId:bad"}`), `{"method":"DELETE","path":"/Users/bulkId:bad"}`, user("fine", "")))
		if got.statuses() != "409 400 409 409 201" {
			t.Errorf("%s", got.raw)
		}
		if detail := got.text("Operations.0.response.detail"); !strings.Contains(detail, "nobody") {
			t.Errorf("detail is %q", detail)
		}
	})
	t.Run("a bulkId is there once, and POST needs one", func(t *testing.T) {
		admin.call(t, "POST", "/Bulk", bulk(user("a", ""), user("a", ""))).refused(400, "invalidValue", "bulkId", "Operations[1]")
		admin.call(t, "POST", "/Bulk", bulk(`{"method":"POST","path":"/Users","data":{"userName":"x"}}`)).refused(400, "invalidSyntax", "bulkId")
	})
}

func TestRFC7644Section3_7_1_CircularReferences(t *testing.T) {
	admin, user, group := acme.as(acme.rfc), postUser, postGroup
	t.Run("in a circle", func(t *testing.T) {
		got := admin.bulk(t, bulk(group("a", `{"value":"bulkId:b","type":"Group"}`), group("b", `{"value":"bulkId:c","type":"Group"}`), group("c", `{"value":"bulkId:a","type":"Group"}`)))
		if got.statuses() != "201 201 201" {
			t.Fatalf("%s", got.raw)
		}
		for i := range 3 {
			read := admin.call(t, "GET", got.location(i), nil).is(200)
			read.want("members.0.value", strings.TrimPrefix(got.location((i+1)%3), "/Groups/")).want("members.1", nil).want("meta.version", got.at(fmt.Sprintf("Operations.%d.version", i)))
		}
	})
	t.Run("two managers of each other", func(t *testing.T) {
		manager := func(id string) string {
			return `,"` + enterpriseURN + `":{"manager":{"value":"bulkId:` + id + `"}}`
		}
		got := admin.bulk(t, bulk(user("a", manager("b")), user("b", manager("a"))))
		for i := range 2 {
			admin.call(t, "GET", got.location(i), nil).is(200).want("["+enterpriseURN+"].manager.value", strings.TrimPrefix(got.location(1-i), "/Users/"))
		}
	})
}

func TestRFC7644Section3_7_4_BulkLimits(t *testing.T) {
	admin := acme.as(acme.rfc)
	many := func(n int) string {
		return bulk(strings.TrimSuffix(strings.Repeat(`{"method":"DELETE","path":"/Users/ghost"},`, n), ","))
	}
	admin.call(t, "GET", "/ServiceProviderConfig", nil).is(200).want("bulk.supported", true).want("bulk.maxOperations", 1000).want("bulk.maxPayloadSize", 1<<20)
	if got := admin.bulk(t, many(1000)); len(got.list("Operations")) != 1000 {
		t.Errorf("%d results", len(got.list("Operations")))
	}
	admin.call(t, "POST", "/Bulk", many(1001)).refused(413, "", "1000")
	admin.call(t, "POST", "/Bulk", bulk(`{"method":"DELETE","path":"/Users/`+strings.Repeat("x", 1<<20)+`"}`)).refused(413, "", "1048576")
	for body, word := range map[string]string{
		`{}`: "schemas", bulk(): "Operations", `{"schemas":["` + patchURN + `"],"Operations":[{"method":"DELETE","path":"/Users/x"}]}`: "schemas", `{"schemas":["` + bulkURN + `"],"Operations":{}}`: "Operations",
		`{"schemas":["` + bulkURN + `"],"Operations":[1]}`: "Operations[0]", bulk(`{"method":1}`): "method", bulk(`{"method":"PUT","path":"/Users/x","data":[]}`): "data", bulk(`{"method":"DELETE","url":"/Users/x"}`): "url",
		`{"schemas":["` + bulkURN + `"],"more":1,"Operations":[]}`: "more",
	} {
		admin.call(t, "POST", "/Bulk", body).refused(400, "invalidSyntax", word)
	}
	for _, n := range []string{"0", "-1", "1.5", `"1"`, "null"} {
		admin.call(t, "POST", "/Bulk", strings.Replace(many(1), `"Operations"`, `"failOnErrors":`+n+`,"Operations"`, 1)).refused(400, "invalidValue", "failOnErrors")
	}
}
