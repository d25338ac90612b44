package directory

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

// TestResourcesOfAPageOneByOne: resources that are used one after the other, in the same memory, are those of the page. They
// differ in what they have, so that values of the previous one would show.
func TestResourcesOfAPageOneByOne(t *testing.T) {
	m := newMemory(t)
	tenant := m.Of(accountOf("acme"))
	object := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "acme", Name: name, UID: types.UID(name + "-12345678"), Generation: 1, CreationTimestamp: metav1.Unix(1_700_000_000, 0)}
	}
	full := v1alpha1.ScimUserSpec{
		UserName: "full@example.com", ExternalID: "1", DisplayName: "Full", Title: "Engineer", Active: new(false),
		Name:         &v1alpha1.ScimName{GivenName: "Given", FamilyName: "Family", MiddleName: "M"},
		Emails:       []v1alpha1.ScimMultiValue{{Value: "full@example.com", Type: "work", Primary: new(true)}, {Value: "other@example.com", Display: "Other"}},
		Addresses:    []v1alpha1.ScimAddress{{Country: "GB", Locality: "London"}},
		PhoneNumbers: []v1alpha1.ScimMultiValue{{Value: "+44 20", Type: "work"}},
		Enterprise:   &v1alpha1.ScimEnterprise{EmployeeNumber: "7", Manager: &v1alpha1.ScimManager{Value: "u2"}},
	}
	for i, spec := range []v1alpha1.ScimUserSpec{
		full,
		{UserName: "bare@example.com"},
		{UserName: "named@example.com", DisplayName: "Named", Name: &v1alpha1.ScimName{GivenName: "Only"}, Emails: []v1alpha1.ScimMultiValue{{Type: "home"}}},
		{UserName: "employee@example.com", Enterprise: &v1alpha1.ScimEnterprise{Department: "Tours"}},
	} {
		m.put(&v1alpha1.ScimUser{ObjectMeta: object(fmt.Sprint("u", i)), Spec: spec})
	}
	for i, members := range [][]v1alpha1.ScimMember{{{Value: "u0"}, {Value: "u1"}}, nil, {{Value: "u0"}, {Value: "g0", Type: "Group"}}} {
		m.put(&v1alpha1.ScimGroup{ObjectMeta: object(fmt.Sprint("g", i)), Spec: v1alpha1.ScimGroupSpec{DisplayName: fmt.Sprint("Group ", i), Members: members}})
	}
	locate := func(kind, id string) string { return "/" + kind + "s/" + id }
	for _, rt := range []*schema.ResourceType{tenant.user, tenant.group} {
		for _, q := range []scim.Query{{Count: 100}, {Start: 1, Count: 2}, {Count: 100, Filter: query(t, rt, "id pr").Filter}} {
			together, err := tenant.ListResources(t.Context(), rt, &q)
			if err != nil || len(together.Resources) < 2 {
				t.Fatal(together, err)
			}
			var want, got []string
			for _, r := range together.Resources {
				want = append(want, r.ETag()+string(r.Render(nil, nil, locate)))
			}
			q.Use = func(r *schema.Resource) error {
				got = append(got, r.ETag()+string(r.Render(nil, nil, locate)))
				return nil
			}
			oneByOne, err := tenant.ListResources(t.Context(), rt, &q)
			if diff := cmp.Diff(want, got); diff != "" || err != nil || len(oneByOne.Resources) > 0 {
				t.Errorf("%s: %v (-together +one by one):\n%s", rt.Name, err, diff)
			}
			together.Resources = nil
			if diff := cmp.Diff(together, oneByOne); diff != "" {
				t.Errorf("%s: (-together +one by one):\n%s", rt.Name, diff)
			}
		}
	}
}
