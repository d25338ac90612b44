package content

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/subject"
	"github.com/quoin-dev/quoin/internal/content/workspace"
)

// administrators is the name in the address of the owner of what belonged to users who were deleted.
const administrators = "administrators"

// kindUser is the kind of an owner that is a ScimUser.
const kindUser = "ScimUser"

// deploymentID returns the number of the deployment of the path.
func deploymentID(ctx context.Context) int64 {
	id, _ := strconv.ParseInt(rest.ScopeFrom(ctx).Deployment.Labels[v1alpha1.LabelID], 10, 64) // the engine has found it by this id
	return id
}

// permissions are those for reading, changing and managing a kind of content.
type permissions struct{ read, edit, manage v1alpha1.Permission }

var permissionsOf = map[access.Kind]permissions{
	access.Folder:   {v1alpha1.PermissionFolderRead, v1alpha1.PermissionFolderEdit, v1alpha1.PermissionFolderManage},
	access.Workbook: {v1alpha1.PermissionWorkbookRead, v1alpha1.PermissionWorkbookEdit, v1alpha1.PermissionWorkbookManage},
	access.Report:   {v1alpha1.PermissionReportRead, v1alpha1.PermissionReportEdit, v1alpha1.PermissionReportManage},
}

// callerOf returns who reads or changes content of a kind. A program that acts for no person reaches everything, and may do with it
// what its permissions say. A person who may edit has what was granted, and manages what they own; one who may only read has the
// level view at most.
func (a *api) callerOf(ctx context.Context, kind access.Kind) access.Caller {
	s := rest.ScopeFrom(ctx)
	p, deployment := s.Principal, ""
	if s.Deployment != nil {
		deployment = s.Deployment.Name
	}
	by := access.Caller{
		Principal: s.Caller(), Owner: s.Caller(), ManagesReports: p.MayOn(v1alpha1.PermissionReportManage, deployment),
		Access: access.Subject{All: p.MayOn(v1alpha1.PermissionAdmin, deployment), Max: access.View},
	}
	if p.User != "" {
		by.Owner = access.User(p.User)
		var names []string
		names, by.Access.GroupUIDs = a.groups(ctx, s.Namespace(), p.User)
		for _, group := range names {
			by.Access.Groups = append(by.Access.Groups, access.Group(group))
		}
	}
	by.Access.Owner = by.Owner
	isPerson := p.User != "" || p.Kind == auth.KindUser
	switch held := permissionsOf[kind]; {
	case p.MayOn(held.manage, deployment), isPerson && p.MayOn(held.edit, deployment):
		by.Access.Max = access.Manage
	case p.MayOn(held.edit, deployment):
		by.Access.Max = access.Edit
	}
	by.Access.All = by.Access.All || !isPerson
	return by
}

// hidesQueries reports whether a caller sees results but not the SQL of reports: a person who may only read content.
func hidesQueries(by *access.Caller) bool { return !by.Access.All && by.Access.Max < access.Edit }

// viewerOf returns whose favorites and views a request concerns: the user of the principal, or the principal itself.
func viewerOf(ctx context.Context) string {
	s := rest.ScopeFrom(ctx)
	if s.Principal.User != "" {
		return access.User(s.Principal.User)
	}
	return s.Caller()
}

// noteView records that the user of a request has read an object. It does not delay the response.
func (a *api) noteView(ctx context.Context, object workspace.ItemType, id int64) {
	if s := rest.ScopeFrom(ctx); a.views != nil && s.Principal.User != "" {
		a.views.Note(s.Content(), subject.User{Name: s.Principal.User, UID: s.Principal.UserUID}, object, id, time.Now())
	}
}

// ResourceOwner is who content belongs to: a user, the key of a program, or the administrators of the account, to whom the content of
// a user who was deleted belongs.
type ResourceOwner struct {
	ID        int64   `json:"id" minimum:"1" maximum:"9007199254740991"`
	Email     string  `json:"email"`
	FirstName *string `json:"firstName,omitempty" nullable:"true"`
}

// shownOwner returns the owner <kind>:<id> as documented. An owner without an e-mail address gets one in the domain of the account.
func (a *api) shownOwner(ctx context.Context, owner string) ResourceOwner {
	s := rest.ScopeFrom(ctx)
	kind, id, _ := strings.Cut(owner, ":")
	fallback := s.Address(id)
	if owner == subject.Administrators(s.Account.Name) {
		return ResourceOwner{ID: number.Of(kind, id), Email: s.Address(administrators), FirstName: ptr.To("Administrators")}
	}
	if kind != kindUser {
		return ResourceOwner{ID: number.Of(kind, id), Email: fallback}
	}
	email, firstName := a.contact(s.Namespace(), id)
	return ResourceOwner{ID: number.Of("User", id), Email: cmp.Or(email, fallback), FirstName: rest.NilIfEmpty(firstName)}
}

// shownPath returns the folders that contain something as documented.
func shownPath(path []workspace.Place) []FolderEntry {
	out := make([]FolderEntry, len(path))
	for i, p := range path {
		out[i] = FolderEntry(p)
	}
	return out
}

// Object is an opaque JSON object, which is kept with all its properties.
type Object struct{ workspace.Object }

// Schema implements huma.SchemaProvider.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Examples: []any{map[string]any{}}}
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *Object) UnmarshalJSON(data []byte) (err error) {
	o.Object, err = workspace.Decode(data)
	return err
}

// StoredObject is a JSON object in canonical form, in a response.
type StoredObject string

// Schema implements huma.SchemaProvider.
func (StoredObject) Schema(r huma.Registry) *huma.Schema { return Object{}.Schema(r) }

// MarshalJSON implements json.Marshaler.
func (o StoredObject) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// StoredValue is a JSON value in canonical form, in a response.
type StoredValue string

// Schema implements huma.SchemaProvider.
func (StoredValue) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Description: "Any JSON value.", Examples: []any{map[string]any{}}}
}

// MarshalJSON implements json.Marshaler.
func (v StoredValue) MarshalJSON() ([]byte, error) { return json.RawMessage(v).MarshalJSON() }
