package directory

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/apiserver/scim/scimerror"
	"github.com/quoin-dev/quoin/internal/claims"
)

func TestUserLifecycle(t *testing.T) {
	r := newFixture(t)
	ctx := t.Context()
	full := r.d.users.resource(r.d.view(ctx, r.namespace, r.Tenant.user, nil), validUser()).Document
	delete(full, AttributeRoles) // read-only
	created, err := r.CreateResource(ctx, r.Tenant.user, full)
	r.must(err)
	if len(created.ID) != 36 || !strings.HasPrefix(created.Version, "1-") || created.Created.IsZero() || created.LastModified.Before(created.Created) || created.Location != "" {
		t.Errorf("created %+v", created)
	}
	got, err := r.GetResource(ctx, r.Tenant.user, created.ID, nil)
	r.must(err)
	if diff := cmp.Diff(created, got); diff != "" {
		t.Errorf("read (-created +got):\n%s", diff)
	}
	if diff := cmp.Diff(full, got.Document); diff != "" {
		t.Errorf("document (-sent +got):\n%s", diff)
	}

	same, err := r.ReplaceResource(ctx, r.Tenant.user, created.ID, func(u *schema.Resource) (schema.Document, error) { return u.Document, nil })
	r.must(err)
	if same.Version != created.Version {
		t.Errorf("an update without a change: version %s, was %s", same.Version, created.Version)
	}
	changed, err := r.ReplaceResource(ctx, r.Tenant.user, created.ID, func(u *schema.Resource) (schema.Document, error) {
		u.Document["active"], u.Document["title"] = false, "Boss"
		delete(u.Document, "emails")
		return u.Document, nil
	})
	r.must(err)
	if changed.Version[0] != '2' || changed.Document["active"] != false || changed.Document["title"] != "Boss" || changed.Document["emails"] != nil {
		t.Errorf("changed to %+v", changed)
	}
	if got := r.find(r.Tenant, r.Tenant.user, `title eq "boss"`); !slices.Equal(got, []string{created.ID}) {
		t.Errorf("a list does not have the change: %v", got)
	}
	halt := errors.New("halt")
	if _, err := r.ReplaceResource(ctx, r.Tenant.user, created.ID, func(*schema.Resource) (schema.Document, error) { return nil, halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	if err := r.DeleteResource(ctx, r.Tenant.user, created.ID, func(*schema.Resource) error { return halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	r.must(r.DeleteResource(ctx, r.Tenant.user, created.ID, pass))
	if got := r.find(r.Tenant, r.Tenant.user, ""); len(got) != 0 {
		t.Errorf("a list has the deleted user: %v", got)
	}
	r.wantNotFound(r.Tenant.user, created.ID)
	again, err := r.CreateResource(ctx, r.Tenant.user, full)
	r.must(err)
	if again.ID == created.ID {
		t.Error("an id was reused")
	}
}

// validUser returns a user with all fields that conforms to the CRD.
func validUser() *v1alpha1.ScimUser {
	u := fullUser()
	u.Spec.Extensions = u.Spec.Extensions[1:]
	for _, list := range []*[]v1alpha1.ScimMultiValue{&u.Spec.Emails, &u.Spec.PhoneNumbers, &u.Spec.IMs, &u.Spec.Photos, &u.Spec.Entitlements, &u.Spec.Roles, &u.Spec.X509Certificates} {
		(*list)[1].Primary = nil
	}
	u.Spec.Addresses[1].Primary = nil
	u.Spec.Enterprise.Manager.DisplayName = ""
	return u
}

func pass(*schema.Resource) error { return nil }

// wantNotFound checks that all operations on an id return 404.
func (r *fixture) wantNotFound(rt *schema.ResourceType, id string) {
	r.t.Helper()
	_, err := r.GetResource(r.t.Context(), rt, id, nil)
	wantError(r.t, err, http.StatusNotFound, "")
	_, err = r.ReplaceResource(r.t.Context(), rt, id, func(u *schema.Resource) (schema.Document, error) { return u.Document, nil })
	wantError(r.t, err, http.StatusNotFound, "")
	wantError(r.t, r.DeleteResource(r.t.Context(), rt, id, pass), http.StatusNotFound, "")
	if len(id) < 64 && !strings.ContainsAny(id, `"\`) {
		if got := r.find(r.Tenant, rt, `id eq "`+id+`"`); len(got) != 0 {
			r.t.Errorf("id eq finds %v", got)
		}
	}
}

func TestInvalidIDs(t *testing.T) {
	r := newFixture(t)
	for _, id := range []string{"", ".", "..", "a/b", "%2e", "UPPER", "a b", strings.Repeat("x", 300), "00919288221112222"} {
		r.wantNotFound(r.Tenant.user, id)
		r.wantNotFound(r.Tenant.group, id)
	}
}

// TestUniqueNames checks that names are unique, ignoring case, for creates and renames.
func TestUniqueNames(t *testing.T) {
	r := newFixture(t)
	ctx := t.Context()
	first, second := r.user("Bjensen@example.com"), r.user("other")
	_, err := r.CreateResource(ctx, r.Tenant.user, schema.Document{"userName": "bJENSEN@example.com"})
	wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
	rename := func(id, to string) error {
		_, err := r.ReplaceResource(ctx, r.Tenant.user, id, func(u *schema.Resource) (schema.Document, error) {
			u.Document["userName"] = to
			return u.Document, nil
		})
		return err
	}
	wantError(t, rename(second.ID, "BJENSEN@EXAMPLE.COM"), http.StatusConflict, scimerror.Uniqueness)
	r.must(rename(first.ID, "BJENSEN@example.com")) // the same name in another case
	r.must(rename(first.ID, "new"))
	r.must(rename(second.ID, "bjensen@example.com"))
	if got := r.find(r.Tenant, r.Tenant.user, `userName eq "BJENSEN@EXAMPLE.com"`); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("found %v, want %v", got, second.ID)
	}
	r.group("bjensen@example.com") // names of groups are separate
	if got := r.find(r.Tenant, r.Tenant.group, `displayName eq "Bjensen@example.COM"`); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	r.wantClaims(map[string]string{"new": first.ID, "bjensen@example.com": second.ID})
}

// wantClaims checks the claims on user names.
func (r *fixture) wantClaims(want map[string]string) {
	r.t.Helper()
	list := &v1alpha1.ClaimList{}
	r.must(r.api.List(r.t.Context(), list, client.InNamespace(r.namespace)))
	got, wantNames := map[string]string{}, map[string]string{}
	for _, c := range list.Items {
		if c.Spec.Attribute == "ScimUser.userName" {
			got[c.Name] = c.Spec.Holder.Name
		}
	}
	for name, holder := range want {
		wantNames[claims.UserName.Name(name)] = holder
	}
	if diff := cmp.Diff(wantNames, got); diff != "" {
		r.t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestRejectedRequestsChangeNothing checks that a rejected request leaves no claim and no object.
func TestRejectedRequestsChangeNothing(t *testing.T) {
	r := newFixture(t)
	u := r.user("u")
	_, err := r.CreateResource(t.Context(), r.Tenant.user, schema.Document{"userName": "v", "title": strings.Repeat("x", 300)})
	wantError(t, err, http.StatusBadRequest, scimerror.InvalidValue)
	if !strings.Contains(err.Error(), "title: ") || strings.Contains(err.Error(), "spec") {
		t.Errorf("got %v", err)
	}
	_, err = r.ReplaceResource(t.Context(), r.Tenant.user, u.ID, func(u *schema.Resource) (schema.Document, error) {
		u.Document["userName"] = "w"
		u.Document[schema.EnterpriseURN] = map[string]any{"department": strings.Repeat("x", 300)}
		return u.Document, nil
	})
	wantError(t, err, http.StatusBadRequest, scimerror.InvalidValue)
	if !strings.Contains(err.Error(), schema.EnterpriseURN+":department: ") {
		t.Errorf("got %v", err)
	}
	r.wantClaims(map[string]string{"u": u.ID})
	if got := r.find(r.Tenant, r.Tenant.user, ""); !slices.Equal(got, []string{u.ID}) {
		t.Errorf("users %v", got)
	}
}

func TestNoNamespace(t *testing.T) {
	r := newFixture(t)
	nowhere := r.d.Of(accountOf("nowhere-" + r.namespace))
	_, err := nowhere.CreateResource(t.Context(), nowhere.user, schema.Document{"userName": "u"})
	wantError(t, err, http.StatusServiceUnavailable, "")
	_, err = nowhere.GetResource(t.Context(), nowhere.user, "u", nil)
	wantError(t, err, http.StatusNotFound, "")
	page, err := nowhere.ListResources(t.Context(), nowhere.user, query(t, nowhere.user, ""))
	if err != nil || page.Total != 0 {
		t.Errorf("got %v, %v", page, err)
	}
}

// TestOrderAndPages checks the default order and both kinds of pagination.
func TestOrderAndPages(t *testing.T) {
	r := newFixture(t)
	ids := r.users("u", 25)
	q := &scim.Query{Count: 10}
	var got []string
	for pages := 0; pages < 3; pages++ {
		page, err := r.ListResources(t.Context(), r.Tenant.user, q)
		r.must(err)
		byIndex, err := r.ListResources(t.Context(), r.Tenant.user, &scim.Query{Start: len(got), Count: 10})
		r.must(err)
		if page.Total != 25 || byIndex.Total != 25 || (page.Next == nil) != (pages == 2) {
			t.Errorf("page %d: total %d, next %v", pages, page.Total, page.Next)
		}
		for i, found := range page.Resources {
			got = append(got, found.ID)
			if byIndex.Resources[i].ID != found.ID {
				t.Errorf("page %d by index differs at %d", pages, i)
			}
		}
		q.After = page.Next
	}
	if !slices.Equal(got, ids) {
		t.Errorf("order %v, want %v", got, ids)
	}
	for _, empty := range []*scim.Query{{Count: 0}, {Start: 99, Count: 5}, {Count: 5, After: &scim.Position{Created: time.Now().Add(time.Hour).UnixNano()}}} {
		page, err := r.ListResources(t.Context(), r.Tenant.user, empty)
		r.must(err)
		if page.Total != 25 || len(page.Resources) != 0 || page.Next != nil {
			t.Errorf("%+v: %d, %v", empty, len(page.Resources), page.Next)
		}
	}
}

// TestErrorsOfKubernetes checks the conversion of Kubernetes errors to SCIM errors.
func TestErrorsOfKubernetes(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("scimusers").GroupResource()
	for name, c := range map[string]struct {
		err    error
		status int
	}{
		"conflict":  {apierrors.NewConflict(resource, "u", errors.New("changed")), http.StatusConflict},
		"in flight": {claims.ErrInFlight, http.StatusServiceUnavailable},
		"timeout":   {apierrors.NewTimeoutError("slow", 1), http.StatusServiceUnavailable},
		"too many":  {apierrors.NewTooManyRequests("slow", 1), http.StatusServiceUnavailable},
		"large":     {apierrors.NewRequestEntityTooLargeError("large"), http.StatusRequestEntityTooLarge},
		"invalid":   {apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("ScimUser").GroupKind(), "u", nil), http.StatusBadRequest},
	} {
		var e *scimerror.Error
		if got := toSCIM(c.err); !errors.As(got, &e) || e.Status != c.status {
			t.Errorf("%s: got %v", name, got)
		}
	}
	broken := errors.New("broken")
	if got := toSCIM(broken); !errors.Is(got, broken) {
		t.Errorf("got %v", got)
	}
}
