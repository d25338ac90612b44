package directory

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/claims"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/userattribute"
)

// Attribute tables of users.
var (
	multiValue = newTable(
		text("value", func(m *v1alpha1.ScimMultiValue) *string { return &m.Value }),
		text("display", func(m *v1alpha1.ScimMultiValue) *string { return &m.Display }),
		text("type", func(m *v1alpha1.ScimMultiValue) *string { return &m.Type }),
		flag("primary", func(m *v1alpha1.ScimMultiValue) **bool { return &m.Primary }, nil),
	)
	address = newTable(
		text("formatted", func(a *v1alpha1.ScimAddress) *string { return &a.Formatted }),
		text("streetAddress", func(a *v1alpha1.ScimAddress) *string { return &a.StreetAddress }),
		text("locality", func(a *v1alpha1.ScimAddress) *string { return &a.Locality }),
		text("region", func(a *v1alpha1.ScimAddress) *string { return &a.Region }),
		text("postalCode", func(a *v1alpha1.ScimAddress) *string { return &a.PostalCode }),
		text("country", func(a *v1alpha1.ScimAddress) *string { return &a.Country }),
		text("type", func(a *v1alpha1.ScimAddress) *string { return &a.Type }),
		flag("primary", func(a *v1alpha1.ScimAddress) **bool { return &a.Primary }, nil),
	)
	personName = newTable(
		text("formatted", func(n *v1alpha1.ScimName) *string { return &n.Formatted }),
		text("familyName", func(n *v1alpha1.ScimName) *string { return &n.FamilyName }),
		text("givenName", func(n *v1alpha1.ScimName) *string { return &n.GivenName }),
		text("middleName", func(n *v1alpha1.ScimName) *string { return &n.MiddleName }),
		text("honorificPrefix", func(n *v1alpha1.ScimName) *string { return &n.HonorificPrefix }),
		text("honorificSuffix", func(n *v1alpha1.ScimName) *string { return &n.HonorificSuffix }),
	)
	enterprise = newTable(
		text("employeeNumber", func(e *v1alpha1.ScimEnterprise) *string { return &e.EmployeeNumber }),
		text("costCenter", func(e *v1alpha1.ScimEnterprise) *string { return &e.CostCenter }),
		text("organization", func(e *v1alpha1.ScimEnterprise) *string { return &e.Organization }),
		text("division", func(e *v1alpha1.ScimEnterprise) *string { return &e.Division }),
		text("department", func(e *v1alpha1.ScimEnterprise) *string { return &e.Department }),
		&row[v1alpha1.ScimEnterprise]{name: "manager", get: manager, set: setManager},
	)
	user = newTable(
		text("externalId", func(s *v1alpha1.ScimUserSpec) *string { return &s.ExternalID }),
		text("userName", func(s *v1alpha1.ScimUserSpec) *string { return &s.UserName }),
		object("name", func(s *v1alpha1.ScimUserSpec) **v1alpha1.ScimName { return &s.Name }, personName),
		text("displayName", func(s *v1alpha1.ScimUserSpec) *string { return &s.DisplayName }),
		text("nickName", func(s *v1alpha1.ScimUserSpec) *string { return &s.NickName }),
		text("profileUrl", func(s *v1alpha1.ScimUserSpec) *string { return &s.ProfileURL }),
		text("title", func(s *v1alpha1.ScimUserSpec) *string { return &s.Title }),
		text("userType", func(s *v1alpha1.ScimUserSpec) *string { return &s.UserType }),
		text("preferredLanguage", func(s *v1alpha1.ScimUserSpec) *string { return &s.PreferredLanguage }),
		text("locale", func(s *v1alpha1.ScimUserSpec) *string { return &s.Locale }),
		text("timezone", func(s *v1alpha1.ScimUserSpec) *string { return &s.Timezone }),
		active, admin, settings, accountRoles,
		values("emails", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.Emails }),
		values("phoneNumbers", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.PhoneNumbers }),
		values("ims", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.IMs }),
		values("photos", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.Photos }),
		list("addresses", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimAddress { return &s.Addresses }, address),
		values("entitlements", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.Entitlements }),
		values("roles", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.Roles }),
		values("x509Certificates", func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue { return &s.X509Certificates }),
		&row[v1alpha1.ScimUserSpec]{name: "groups", get: groupsOfUser, expensive: true},
		object(schema.EnterpriseURN, func(s *v1alpha1.ScimUserSpec) **v1alpha1.ScimEnterprise { return &s.Enterprise }, enterprise),
	)
)

func values(name string, field func(*v1alpha1.ScimUserSpec) *[]v1alpha1.ScimMultiValue) *row[v1alpha1.ScimUserSpec] {
	return list(name, field, multiValue)
}

// userKind returns the kind of Users.
func userKind() kind[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec] {
	return kind[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]{
		name:       schema.User.Name,
		table:      user,
		spec:       func(u *v1alpha1.ScimUser) *v1alpha1.ScimUserSpec { return &u.Spec },
		extensions: func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.ScimExtension { return &s.Extensions },
		attributes: func(s *v1alpha1.ScimUserSpec) *[]v1alpha1.UserAttributeValue { return &s.Attributes },
		uniqueName: "userName",
		unique:     claims.UserName,
		setDefaults: func(u *v1alpha1.ScimUser) {
			if u.Spec.Active == nil {
				u.Spec.Active = new(true) // visible in kubectl
			}
		},
		beforeUpdate: beforeUserUpdate,
		recordDeletion: func(ctx context.Context, d *Directory, u *v1alpha1.ScimUser) error {
			return claims.Deprovision(ctx, d.kube.Client, u)
		},
		takeAway: deactivation,
		shown:    shownOfUser,
		indexed: map[string]func(*v1alpha1.ScimUser) []string{
			AttributeAdmin: administrator,
			"externalId":   textValue(func(u *v1alpha1.ScimUser) string { return u.Spec.ExternalID }),
			"emails.value": emails,
		},
		lookups: map[string]lookup[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]{
			"id":           byID[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec],
			"userName":     byUnique[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec],
			"externalId":   byIndex[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]("externalId"),
			"emails.value": byIndex[*v1alpha1.ScimUser, v1alpha1.ScimUserSpec]("emails.value"),
			"groups.value": usersInGroup,
		},
	}
}

// displayOfUser returns the name of a user as a member of groups.
func displayOfUser(u *v1alpha1.ScimUser) string { return cmp.Or(u.Spec.DisplayName, u.Spec.UserName) }

// Person returns the names of the groups of a user, direct and indirect, and the user's attributes: the values, and else the
// defaults. It reads only the cache. A user without a ScimUser has no groups, and the defaults.
func (d *Directory) Person(ctx context.Context, namespace, user string) (groups []string, attributes map[string]any) {
	groups = []string{}
	u := d.users.visible(namespace, user)
	if u == nil {
		return groups, userattribute.Resolve(d.attributes.Of(namespace).Attributes, nil)
	}
	elements, _ := groupsOfUser(d.view(ctx, namespace, schema.User, nil), user, &u.Spec).([]any)
	for _, element := range elements {
		group, _ := element.(map[string]any)
		if name, _ := group["display"].(string); name != "" {
			groups = append(groups, name)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), userattribute.Resolve(d.attributes.Of(namespace).Attributes, u.Spec.Attributes)
}

// RolesOfGroups implements auth.Users, from the cache.
func (d *Directory) RolesOfGroups(ctx context.Context, namespace, user string) []v1alpha1.AccountRoleReference {
	var roles []v1alpha1.AccountRoleReference
	for g := range d.view(ctx, namespace, schema.User, nil).groupsOf(user) {
		roles = append(roles, g.Spec.AccountRoles...)
	}
	return roles
}

// GroupsOf returns the object names and the UIDs of the groups that a user is in, directly or through others, from the cache.
func (d *Directory) GroupsOf(ctx context.Context, namespace, user string) (names, uids []string) {
	for g := range d.view(ctx, namespace, schema.User, nil).groupsOf(user) {
		names, uids = append(names, g.Name), append(uids, string(g.UID))
	}
	return names, uids
}

// Contact returns the e-mail address of a user, which is the userName for one without addresses, and the first name. It reads
// only the cache. Both are empty if there is no ScimUser of the name.
func (d *Directory) Contact(namespace, user string) (email, firstName string) {
	u := d.users.visible(namespace, user)
	if u == nil {
		return "", ""
	}
	email = u.Spec.UserName
	for i, e := range u.Spec.Emails {
		if e.Value != "" && (i == 0 || e.Primary != nil && *e.Primary) {
			email = e.Value
		}
	}
	if u.Spec.Name != nil {
		firstName = u.Spec.Name.GivenName
	}
	return email, firstName
}

// Attributes returns the user attributes of an account that are in effect, by name, from the cache. They must not be modified.
func (d *Directory) Attributes(namespace string) []*v1alpha1.UserAttribute {
	return d.attributes.Of(namespace).Attributes
}

// manager returns the manager of the enterprise extension with a display name: the stored one, or else
// that of the manager's user.
func manager(v *view, _ string, e *v1alpha1.ScimEnterprise) any {
	m := e.Manager
	if m == nil || m.Value == "" && m.DisplayName == "" {
		return nil
	}
	element := make(map[string]any, 2)
	display := m.DisplayName
	if m.Value != "" {
		element["value"] = m.Value
		if u := v.d.users.visible(v.namespace, m.Value); u != nil && display == "" {
			display = u.Spec.DisplayName
		}
	}
	if display != "" {
		element["displayName"] = display
	}
	return element
}

// setManager sets the manager. It keeps the stored display name of an unchanged manager, because the
// display name is read-only.
func setManager(_ *view, _ string, e *v1alpha1.ScimEnterprise, value any) {
	element, _ := value.(map[string]any)
	id, _ := element["value"].(string)
	switch {
	case id == "":
		e.Manager = nil
	case e.Manager == nil || e.Manager.Value != id:
		e.Manager = &v1alpha1.ScimManager{Value: id}
	}
}

// Attributes of documents that are none of SCIM: no schema declares them, so SCIM requests cannot contain them and
// responses do not. The REST API reads and writes them. A document without one does not change it.
const (
	// AttributeAdmin of a User is true if spec.admin is.
	AttributeAdmin = "quoin:admin"
	// AttributeSettings of a User is a *v1alpha1.UserSettings, which is shared and must not be modified.
	AttributeSettings = "quoin:settings"
	// AttributeRoles of a User are its roles, a []v1alpha1.AccountRoleReference, which is shared. It is read-only.
	AttributeRoles = "quoin:roles"
	// AttributeSize of a Group is the number of members that it refers to, an int. It is read-only.
	AttributeSize = "quoin:size"
)

var admin = &row[v1alpha1.ScimUserSpec]{
	name: AttributeAdmin,
	get: func(_ *view, _ string, s *v1alpha1.ScimUserSpec) any {
		if !s.IsAdmin() {
			return nil
		}
		return true
	},
	set: func(_ *view, _ string, s *v1alpha1.ScimUserSpec, value any) {
		if is, given := value.(bool); given && is != s.IsAdmin() {
			s.Admin = &is
		}
	},
}

var settings = &row[v1alpha1.ScimUserSpec]{
	name: AttributeSettings,
	get: func(_ *view, _ string, s *v1alpha1.ScimUserSpec) any {
		if s.Settings == nil {
			return nil
		}
		return s.Settings
	},
	set: func(_ *view, _ string, s *v1alpha1.ScimUserSpec, value any) {
		switch replacement, _ := value.(*v1alpha1.UserSettings); {
		case replacement == nil:
		case *replacement == v1alpha1.UserSettings{}:
			s.Settings = nil
		default:
			s.Settings = replacement.DeepCopy()
		}
	},
}

var accountRoles = &row[v1alpha1.ScimUserSpec]{
	name: AttributeRoles,
	get: func(_ *view, _ string, s *v1alpha1.ScimUserSpec) any {
		if len(s.AccountRoles) == 0 {
			return nil
		}
		return s.AccountRoles
	},
}

// beforeUserUpdate is called before an edited user is written.
func beforeUserUpdate(v *view, live, edited *v1alpha1.ScimUser) error {
	// Access tokens are those of the user with their userName: a client that may rename users must not be able to give
	// the permission Admin to the holder of another one. The field is removed and not set to false: it would be one that
	// the SCIM client has written, so that the REST API would reject changes of it.
	if edited.Spec.IsAdmin() && claims.UserName.Name(edited.Spec.UserName) != claims.UserName.Name(live.Spec.UserName) {
		edited.Spec.Admin = nil
	}
	if err := beforeDeactivation(v, live, edited); err != nil {
		return err
	}
	return checkProvider(v.ctx, live, edited)
}

// administrator returns the value of administrators in their index.
func administrator(u *v1alpha1.ScimUser) []string {
	if u.Spec.IsAdmin() {
		return []string{"true"}
	}
	return nil
}

// ConfirmOtherAdmin reports whether the account has an active user with spec.admin besides one, who is about to lose
// it. It writes an annotation to that other user, with a precondition. So of two requests that concern each
// other's user, one conflicts when it writes to its own one, which it must have read before, and then sees
// the change of the other request.
func (t *Tenant) ConfirmOtherAdmin(ctx context.Context, except string) (bool, error) {
	for _, cached := range t.d.users.indexes[AttributeAdmin].Find(t.namespace, "true") {
		name := cached.GetName()
		if name == except {
			continue
		}
		confirmed := false
		err := edit.Retry(ctx, func() (err error) {
			confirmed, err = t.confirmAdmin(ctx, name)
			return err
		})
		if confirmed || err != nil {
			return confirmed, err
		}
	}
	return false, nil
}

// confirmAdmin writes the annotation to a user. It returns false if that is no active administrator, and a conflict if
// it has changed meanwhile.
func (t *Tenant) confirmAdmin(ctx context.Context, name string) (bool, error) {
	live, err := t.d.users.live(ctx, t.namespace, name)
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case !live.Spec.IsAdmin() || !live.IsActive():
		return false, nil
	}
	edited := live.DeepCopy()
	metav1.SetMetaDataAnnotation(&edited.ObjectMeta, v1alpha1.AnnotationAdminConfirmed, t.d.clock.Now().UTC().Format(time.RFC3339Nano))
	patch := confirmation{client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}), live}
	if err := t.d.kube.Client.Patch(ctx, edited, patch, client.FieldOwner(fieldowner.AdminGuard)); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return true, nil
}

// confirmation is the patch of an annotation, with the object before it.
type confirmation struct {
	client.Patch
	before client.Object
}

// Before returns the object without the annotation, for the audit log.
func (c confirmation) Before() client.Object { return c.before }
