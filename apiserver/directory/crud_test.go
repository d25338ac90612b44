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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
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
	made, err := r.Create(ctx, r.Tenant.user, full)
	r.must(err)
	if len(made.ID) != 36 || !strings.HasPrefix(made.Version, "1-") || made.Created.IsZero() || made.LastModified.Before(made.Created) || made.Location != "" {
		t.Errorf("made %+v", made)
	}
	got, err := r.Get(ctx, r.Tenant.user, made.ID, nil)
	r.must(err)
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("read (-made +got):\n%s", diff)
	}
	if diff := cmp.Diff(full, got.Document); diff != "" {
		t.Errorf("document (-sent +got):\n%s", diff)
	}

	same, err := r.Update(ctx, r.Tenant.user, made.ID, func(u *schema.Resource) (schema.Document, error) { return u.Document, nil })
	r.must(err)
	if same.Version != made.Version {
		t.Errorf("a change that changes nothing makes version %s of %s", same.Version, made.Version)
	}
	changed, err := r.Update(ctx, r.Tenant.user, made.ID, func(u *schema.Resource) (schema.Document, error) {
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
	if _, err := r.Update(ctx, r.Tenant.user, made.ID, func(*schema.Resource) (schema.Document, error) { return nil, halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	if err := r.Delete(ctx, r.Tenant.user, made.ID, func(*schema.Resource) error { return halt }); !errors.Is(err, halt) {
		t.Errorf("got %v", err)
	}
	r.must(r.Delete(ctx, r.Tenant.user, made.ID, pass))
	if got := r.find(r.Tenant, r.Tenant.user, ""); len(got) != 0 {
		t.Errorf("a list shows what was deleted: %v", got)
	}
	r.wantGone(r.Tenant.user, made.ID)
	again, err := r.Create(ctx, r.Tenant.user, full)
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
	_, err := r.Get(r.t.Context(), rt, id, nil)
	wantError(r.t, err, http.StatusNotFound, "")
	_, err = r.Update(r.t.Context(), rt, id, func(u *schema.Resource) (schema.Document, error) { return u.Document, nil })
	wantError(r.t, err, http.StatusNotFound, "")
	wantError(r.t, r.Delete(r.t.Context(), rt, id, pass), http.StatusNotFound, "")
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
	_, err := r.Create(ctx, r.Tenant.user, schema.Document{"userName": "bJENSEN@example.com"})
	wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
	rename := func(id, to string) error {
		_, err := r.Update(ctx, r.Tenant.user, id, func(u *schema.Resource) (schema.Document, error) {
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
	_, err := r.Create(t.Context(), r.Tenant.user, schema.Document{"userName": "v", "title": strings.Repeat("x", 300)})
	wantError(t, err, http.StatusBadRequest, scimerror.InvalidValue)
	if !strings.Contains(err.Error(), "title: ") || strings.Contains(err.Error(), "spec") {
		t.Errorf("says %v", err)
	}
	_, err = r.Update(t.Context(), r.Tenant.user, u.ID, func(u *schema.Resource) (schema.Document, error) {
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
	_, err := nowhere.Create(t.Context(), nowhere.user, schema.Document{"userName": "u"})
	wantError(t, err, http.StatusServiceUnavailable, "")
	_, err = nowhere.Get(t.Context(), nowhere.user, "u", nil)
	wantError(t, err, http.StatusNotFound, "")
	page, err := nowhere.Query(t.Context(), nowhere.user, query(t, nowhere.user, ""))
	if err != nil || page.Total != 0 {
		t.Errorf("got %v, %v", page, err)
	}
}

// TestVisibility: what is being deleted and what lost its name is no resource; what kubectl has
// made is one.
func TestVisibility(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	object := func(name, userName string) *v1alpha1.ScimUser {
		u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: v1alpha1.ScimUserSpec{UserName: userName}}
		r.must(r.api.Create(ctx, u))
		r.eventually(func() bool { return r.d.users.visible(r.namespace, name) != nil })
		return u
	}
	byHand := object("by-hand", "Hand")
	if got := r.find(r.Tenant, r.Tenant.user, `userName eq "hand"`); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("an object without a claim is not found: %v", got)
	}
	_, err := r.Create(ctx, r.Tenant.user, schema.Document{"userName": "HAND"})
	wantError(t, err, http.StatusConflict, scimerror.Uniqueness)
	got, err := r.Get(ctx, r.Tenant.user, "by-hand", nil)
	r.must(err)
	if got.Document["active"] != true {
		t.Error("active is not shown as true")
	}

	group := r.group("G", "by-hand", "loser", "going", "never")
	loser := object("loser", "Loser")
	going := object("going", "Going")
	if got := r.shown(group.ID); !slices.Equal(got, []string{"by-hand", "going", "loser"}) {
		t.Errorf("members %v", got)
	}
	loser.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: v1alpha1.ReasonNameTaken, LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, loser))
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["test/hold"]}}`))))
	r.must(r.api.Delete(ctx, going))
	byHand.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "AccountNotFound", LastTransitionTime: metav1.Now()}}
	r.must(r.api.Status().Update(ctx, byHand))
	r.eventually(func() bool {
		return r.d.users.visible(r.namespace, "loser") == nil && r.d.users.visible(r.namespace, "going") == nil && r.d.users.records.of(r.namespace).len() == 1
	})
	r.wantGone(r.Tenant.user, "loser")
	r.wantGone(r.Tenant.user, "going")
	if got := r.find(r.Tenant, r.Tenant.user, ""); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("users %v", got)
	}
	if got := r.shown(group.ID); !slices.Equal(got, []string{"by-hand"}) {
		t.Errorf("members %v", got)
	}
	for filter, want := range map[string][]string{
		`members.value eq "by-hand"`: {group.ID}, `members eq "loser"`: {}, `members.value eq "never"`: {},
		`displayName eq "g" and members.value eq "loser"`: {}, `not (members.value eq "never")`: {group.ID},
	} {
		if got := r.find(r.Tenant, r.Tenant.group, filter); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", filter, got, want)
		}
	}
	r.must(r.api.Patch(ctx, going, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}

// applied is what somebody has in Git.
func applied(kind, name string, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}
}

// apply applies as a program does.
func (r *room) apply(manager string, manifest map[string]any) {
	r.t.Helper()
	u := &unstructured.Unstructured{Object: manifest}
	u.SetNamespace(r.namespace)
	r.must(r.api.Apply(r.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(manager)))
}

func (r *room) eventually(reached func() bool) {
	r.t.Helper()
	for end := time.Now().Add(10 * time.Second); !reached(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("it takes too long")
		}
	}
}

// TestTenantsAreApart: what belongs to another account does not exist.
func TestTenantsAreApart(t *testing.T) {
	r, other := newRoom(t), newRoom(t)
	u, g := r.user("u"), r.group("g")
	other.wantGone(other.Tenant.user, u.ID)
	other.wantGone(other.Tenant.group, g.ID)
	other.user("u")
	mine := other.group("g", u.ID)
	if got := other.shown(mine.ID); len(got) != 0 {
		t.Errorf("members of another tenant are shown: %v", got)
	}
	for _, rt := range r.ResourceTypes() {
		for _, filter := range []string{"", `id pr`, `externalId eq "x"`} {
			if got := other.find(other.Tenant, rt, filter); slices.Contains(got, u.ID) || slices.Contains(got, g.ID) {
				t.Errorf("%s %q finds those of another tenant", rt.Name, filter)
			}
		}
	}
	if got := other.find(other.Tenant, other.Tenant.user, `groups.value eq "`+g.ID+`"`); len(got) != 0 {
		t.Errorf("a group of another tenant has members: %v", got)
	}
}

// TestOwnedByGit: what a program applies is its own.
func TestOwnedByGit(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	apply := func(yaml map[string]any) {
		t.Helper()
		r.apply("argocd-controller", yaml)
	}
	apply(applied("ScimUser", "git", map[string]any{"userName": "git", "title": "T", "enterprise": map[string]any{"department": "D"}}))
	apply(applied("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": "git"}}}))
	apply(applied("ScimGroup", "gith", map[string]any{"displayName": "Git too"}))
	r.eventually(func() bool {
		return r.d.groups.visible(r.namespace, "gith") != nil && r.d.users.visible(r.namespace, "git") != nil
	})
	set := func(rt *schema.ResourceType, id, name string, value any) error {
		_, err := r.Update(ctx, rt, id, func(u *schema.Resource) (schema.Document, error) {
			u.Document[name] = value
			return u.Document, nil
		})
		return err
	}
	for name, err := range map[string]error{
		"title":                              set(r.Tenant.user, "git", "title", "other"),
		"userName":                           set(r.Tenant.user, "git", "userName", "other"),
		schema.EnterpriseURN + ":department": set(r.Tenant.user, "git", schema.EnterpriseURN, map[string]any{"department": "E"}),
		"members":                            r.change(r.Tenant, "gitg", func(s schema.Set) { s.Delete("git") }),
	} {
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), name+": ") || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("%s: says %v", name, err)
		}
	}
	r.wantClaims(map[string]string{})
	r.must(set(r.Tenant.user, "git", "nickName", "g"))
	r.must(r.change(r.Tenant, "gitg", func(s schema.Set) { put(s, "git", "more") })) // in chunks, beside
	r.must(r.change(r.Tenant, "gith", func(s schema.Set) { put(s, "git") }))
	if got := r.kept(r.Tenant, "gitg"); !slices.Equal(got, []string{"git", "more"}) {
		t.Errorf("members %v", got)
	}
	for rt, id := range map[*schema.ResourceType]string{r.Tenant.user: "git", r.Tenant.group: "gitg"} {
		err := r.Delete(ctx, rt, id, pass)
		wantError(t, err, http.StatusConflict, "")
		if err == nil || !strings.Contains(err.Error(), "argocd-controller") {
			t.Errorf("says %v", err)
		}
	}
	r.must(r.api.Delete(ctx, &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "git"}}))
	r.eventually(func() bool { return r.d.users.visible(r.namespace, "git") == nil })
	r.wantGone(r.Tenant.user, "git")
}

// TestDeletedUserLeavesAllGroups, those that belong to a program included: there it is not shown.
func TestDeletedUserLeavesAllGroups(t *testing.T) {
	r := newRoom(t)
	ids := r.users("u", 3)
	one, two := r.group("one", ids...), r.group("two", ids[0])
	r.apply("argocd-controller", applied("ScimGroup", "gitg", map[string]any{"displayName": "Git", "members": []any{map[string]any{"value": ids[0]}, map[string]any{"value": ids[1]}}}))
	r.eventually(func() bool { return r.d.groups.visible(r.namespace, "gitg") != nil })
	r.must(r.Delete(t.Context(), r.Tenant.user, ids[0], pass))
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": {ids[1]}} {
		if got := r.shown(id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s shows %v, want %v", id, got, want)
		}
	}
	for id, want := range map[string][]string{one.ID: ids[1:], two.ID: nil, "gitg": ids[:2]} {
		if got := r.kept(r.Tenant, id); !slices.Equal(got, sorted(want)) {
			t.Errorf("%s keeps %v, want %v", id, got, want)
		}
	}
	sub := r.group("sub")
	r.must(r.change(r.Tenant, one.ID, func(s schema.Set) { put(s, sub.ID) }))
	r.must(r.Delete(t.Context(), r.Tenant.group, sub.ID, pass))
	if got := r.kept(r.Tenant, one.ID); !slices.Equal(got, sorted(ids[1:])) {
		t.Errorf("keeps a group that is gone: %v", got)
	}
}

func sorted(ids []string) []string {
	copied := slices.Clone(ids)
	slices.Sort(copied)
	return copied
}

// TestOrderAndPages: those made later come later, and a page continues behind another one.
func TestOrderAndPages(t *testing.T) {
	r := newRoom(t)
	ids := r.users("u", 25)
	q := &scim.Query{Count: 10}
	var got []string
	for pages := 0; pages < 3; pages++ {
		page, err := r.Query(t.Context(), r.Tenant.user, q)
		r.must(err)
		byIndex, err := r.Query(t.Context(), r.Tenant.user, &scim.Query{Start: len(got), Count: 10})
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
		page, err := r.Query(t.Context(), r.Tenant.user, empty)
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
