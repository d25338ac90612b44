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

func TestUserFromBirthToDeath(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	full := r.d.users.resource(&view{ctx: ctx, d: r.d, namespace: r.namespace, resourceType: r.Tenant.user}, validUser()).Document
	made, err := r.CreateResource(ctx, r.Tenant.user, full)
	r.must(err)
	if len(made.ID) != 36 || !strings.HasPrefix(made.Version, "1-") || made.Created.IsZero() || made.LastModified.Before(made.Created) || made.Location != "" {
		t.Errorf("made %+v", made)
	}
	got, err := r.GetResource(ctx, r.Tenant.user, made.ID, nil)
	r.must(err)
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("read (-made +got):\n%s", diff)
	}
	if diff := cmp.Diff(full, got.Document); diff != "" {
		t.Errorf("document (-sent +got):\n%s", diff)
	}

	same, err := r.ReplaceResource(ctx, r.Tenant.user, made.ID, func(u *schema.Resource) (schema.Document, error) { return u.Document, nil })
	r.must(err)
	if same.Version != made.Version {
		t.Errorf("a change that changes nothing makes version %s of %s", same.Version, made.Version)
	}
	changed, err := r.ReplaceResource(ctx, r.Tenant.user, made.ID, func(u *schema.Resource) (schema.Document, error) {
		u.Document["active"], u.Document["title"] = false, "Boss"
		delete(u.Document, "emails")
		return u.Document, nil
	})
	r.must(err)
	if changed.Version[0] != '2' || changed.Document["active"] != false || changed.Document["title"] != "Boss" || changed.Document["emails"] != nil {
		t.Errorf("changed to %+v", changed)
	}
	if got := r.find(r.Tenant, r.Tenant.user, `title eq "boss"`); !slices.Equal(got, []string{made.ID}) {
		t.Errorf("a list does not show the change: %v", got)
	}
	halt := errors.New("halt")
	if _, err := r.ReplaceResource(ctx, r.Tenant.user, made.ID, func(*schema.Resource) (schema.Document, error) { return nil, halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	if err := r.DeleteResource(ctx, r.Tenant.user, made.ID, func(*schema.Resource) error { return halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	r.must(r.DeleteResource(ctx, r.Tenant.user, made.ID, pass))
	if got := r.find(r.Tenant, r.Tenant.user, ""); len(got) != 0 {
		t.Errorf("a list shows what was deleted: %v", got)
	}
	r.wantGone(r.Tenant.user, made.ID)
	again, err := r.CreateResource(ctx, r.Tenant.user, full)
	r.must(err)
	if again.ID == made.ID {
		t.Error("an id was given again")
	}
}

// validUser is a full user that the API server takes.
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

// wantGone wants a resource not to be there, whatever is asked of it.
func (r *room) wantGone(rt *schema.ResourceType, id string) {
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

func TestIdsThatNothingCanHave(t *testing.T) {
	r := newRoom(t)
	for _, id := range []string{"", ".", "..", "a/b", "%2e", "UPPER", "a b", strings.Repeat("x", 300), "00919288221112222"} {
		r.wantGone(r.Tenant.user, id)
		r.wantGone(r.Tenant.group, id)
	}
}

// TestUniqueNames without regard to case, among all ways to make and to rename.
func TestUniqueNames(t *testing.T) {
	r := newRoom(t)
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
	r.must(rename(first.ID, "BJENSEN@example.com")) // its own in another case
	r.must(rename(first.ID, "new"))
	r.must(rename(second.ID, "bjensen@example.com"))
	if got := r.find(r.Tenant, r.Tenant.user, `userName eq "BJENSEN@EXAMPLE.com"`); !slices.Equal(got, []string{second.ID}) {
		t.Errorf("found %v, want %v", got, second.ID)
	}
	r.group("bjensen@example.com") // groups have names of their own
	if got := r.find(r.Tenant, r.Tenant.group, `displayName eq "Bjensen@example.COM"`); len(got) != 1 {
		t.Errorf("found %v", got)
	}
	r.wantClaims(map[string]string{"new": first.ID, "bjensen@example.com": second.ID})
}

// wantClaims wants the claims on user names to be these and no others.
func (r *room) wantClaims(want map[string]string) {
	r.t.Helper()
	list := &v1alpha1.ClaimList{}
	r.must(r.api.List(r.t.Context(), list, client.InNamespace(r.namespace)))
	got, wanted := map[string]string{}, map[string]string{}
	for _, c := range list.Items {
		if c.Spec.Attribute == "ScimUser.userName" {
			got[c.Name] = c.Spec.Holder.Name
		}
	}
	for name, holder := range want {
		wanted[claims.UserName.Name(name)] = holder
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		r.t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// TestWhatIsRefusedLeavesNothing: no claim, no object.
func TestWhatIsRefusedLeavesNothing(t *testing.T) {
	r := newRoom(t)
	u := r.user("u")
	_, err := r.CreateResource(t.Context(), r.Tenant.user, schema.Document{"userName": "v", "title": strings.Repeat("x", 300)})
	wantError(t, err, http.StatusBadRequest, scimerror.InvalidValue)
	if !strings.Contains(err.Error(), "title: ") || strings.Contains(err.Error(), "spec") {
		t.Errorf("says %v", err)
	}
	_, err = r.ReplaceResource(t.Context(), r.Tenant.user, u.ID, func(u *schema.Resource) (schema.Document, error) {
		u.Document["userName"] = "w"
		u.Document[schema.EnterpriseURN] = map[string]any{"department": strings.Repeat("x", 300)}
		return u.Document, nil
	})
	wantError(t, err, http.StatusBadRequest, scimerror.InvalidValue)
	if !strings.Contains(err.Error(), schema.EnterpriseURN+":department: ") {
		t.Errorf("says %v", err)
	}
	r.wantClaims(map[string]string{"u": u.ID})
	if got := r.find(r.Tenant, r.Tenant.user, ""); !slices.Equal(got, []string{u.ID}) {
		t.Errorf("users %v", got)
	}
}

func TestNoNamespace(t *testing.T) {
	r := newRoom(t)
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

// TestOrderAndPages: those made later come later, and a page continues behind another one.
func TestOrderAndPages(t *testing.T) {
	r := newRoom(t)
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

// TestErrorsOfKubernetes are told in the words of SCIM.
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
