package v1alpha1

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds declares the kinds of the group. The scheme, the caches of the processes, the deletion of
// an Account's objects, the audit log, the user-facing roles, the Helm chart, the PROJECT file and
// the index in docs/kinds follow from it; docs/architecture.md, "A new kind", has the details.
//
// The namespaced kinds are in the order in which an Account's objects are deleted: owners first.
var Kinds = []Kind{
	{
		Object: &Account{}, List: &AccountList{}, Plural: "accounts", ShortName: "acct", DisplayName: "Account",
		Cluster: true, Controller: true, WrittenBy: "administrators",
		Cached: Cached{Controller: Whole, APIServer: Whole, Gateway: Whole},
		Roles:  Roles{Viewer: Read, Editor: Read, Admin: Read, PlatformAdmin: Write},
		Events: Events{"Created object", "Updated account settings", "Deleted object"},
	}, {
		Object: &ReleaseChannel{}, List: &ReleaseChannelList{}, Plural: "releasechannels", ShortName: "relch", DisplayName: "Release channel",
		Cluster: true, Controller: true, WrittenBy: "administrators",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Read, Admin: Read, PlatformAdmin: Write},
	}, {
		Object: &ModelEndpoint{}, List: &ModelEndpointList{}, Plural: "modelendpoints", ShortName: "modelep", DisplayName: "Model endpoint",
		Cluster: true, Controller: true, WrittenBy: "administrators",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Read, Admin: Read, PlatformAdmin: Write},
	}, {
		Object: &DbtSync{}, List: &DbtSyncList{}, Plural: "dbtsyncs", ShortName: "dbtsync", DisplayName: "dbt sync",
		Controller: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
	}, {
		Object: &Deployment{}, List: &DeploymentList{}, Plural: "deployments", ShortName: "qdep", DisplayName: "Deployment",
		Controller: true, Numbered: true, Scale: true, WrittenBy: "users, Git, the REST API",
		Cached: Cached{Controller: Whole, APIServer: Whole, Gateway: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
		Events: Events{"Created deployment", "Updated deployment configuration", "Deleted deployment"},
	}, {
		Object: &Branch{}, List: &BranchList{}, Plural: "branches", ShortName: "qbr", DisplayName: "Branch",
		Controller: true, Numbered: true, WrittenBy: "controllers; users and the REST API for declared branches",
		Cached: Cached{Controller: Whole, APIServer: Whole, Gateway: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
		Events: Events{"Created Git branch", "Updated branch", "Deleted Git branch"},
	}, {
		Object: &Environment{}, List: &EnvironmentList{}, Plural: "environments", ShortName: "qenv", DisplayName: "Environment",
		Controller: true, Numbered: true, WrittenBy: "controllers",
		Cached: Cached{Controller: Whole, APIServer: Whole, Gateway: Whole},
		Roles:  Roles{Viewer: Read, Editor: Read, Admin: Write},
		Events: Events{"Created environment", "Updated environment", "Deleted environment"}, Derived: true,
	}, {
		Object: &ApiKey{}, List: &ApiKeyList{}, Plural: "apikeys", ShortName: "qkey", DisplayName: "API key",
		Controller: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Admin: Write},
		Events: Events{"Created API key", "Updated API key", "Deleted API key"},
	}, {
		Object: &UserAttribute{}, List: &UserAttributeList{}, Plural: "userattributes", ShortName: "uattr", DisplayName: "User attribute",
		Controller: true, Numbered: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Admin: Write},
		Events: Events{"Created user attribute", "Updated user attribute", "Deleted user attribute"},
	}, {
		Object: &OidcTokenConfig{}, List: &OidcTokenConfigList{}, Plural: "oidctokenconfigs", ShortName: "oidctoken", DisplayName: "OIDC token configuration",
		Controller: true, Numbered: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: WithTimes},
		Roles:  Roles{Admin: Write},
		Events: Events{"Created OIDC token configuration", "Updated OIDC token configuration", "Deleted OIDC token configuration"},
	}, {
		Object: &AccountRole{}, List: &AccountRoleList{}, Plural: "accountroles", ShortName: "arole", DisplayName: "Account role",
		Controller: true, Numbered: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Admin: Write},
		Events: Events{"Created role", "Updated role", "Deleted role"},
	}, {
		Object: &OAuthIntegration{}, List: &OAuthIntegrationList{}, Plural: "oauthintegrations", ShortName: "oauthint", DisplayName: "OAuth integration",
		Controller: true, Numbered: true, WrittenBy: "users, the REST API",
		Cached: Cached{Controller: Whole, APIServer: WithTimes},
		Roles:  Roles{Admin: Write},
		Events: Events{"Created OAuth integration", "Updated OAuth integration", "Deleted OAuth integration"},
	}, {
		Object: &Workbook{}, List: &WorkbookList{}, Plural: "workbooks", ShortName: "qwb", DisplayName: "Workbook",
		Content: true, WrittenBy: "users",
		Cached: Cached{APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
		Events: Events{"Created object", "Updated object", "Deleted object"},
	}, {
		Object: &Folder{}, List: &FolderList{}, Plural: "folders", ShortName: "qfld", DisplayName: "Folder",
		Content: true, WrittenBy: "users",
		Cached: Cached{APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
		Events: Events{"Created object", "Updated object", "Deleted object"},
	}, {
		Object: &Agent{}, List: &AgentList{}, Plural: "agents", ShortName: "qagent", DisplayName: "Agent",
		Controller: true, Numbered: true, WrittenBy: "users",
		Cached: Cached{Controller: Whole, APIServer: Whole},
		Roles:  Roles{Viewer: Read, Editor: Write, Admin: Write},
		Events: Events{"Created agent", "Updated agent", "Deleted agent"},
	}, {
		Object: &ScimGroup{}, List: &ScimGroupList{}, Plural: "scimgroups", ShortName: "sgrp", DisplayName: "SCIM group",
		Controller: true, WrittenBy: "SCIM clients, users",
		Cached:     Cached{Controller: WithTimes, APIServer: Reduced},
		Roles:      Roles{Admin: Write},
		Events:     Events{"Created object", "Updated object", "Deleted object"},
		ScimEvents: Events{"Created group via SCIM", "Updated group via SCIM", "Deleted group via SCIM"},
		Unrecorded: []string{"spec.memberChunks", "spec.memberChunkList"}, // names of objects; Quoin's events list the members instead
	}, {
		Object: &ScimMemberChunk{}, List: &ScimMemberChunkList{}, Plural: "scimmemberchunks", ShortName: "schunk", DisplayName: "SCIM member chunk",
		WrittenBy: "the SCIM API",
		Cached:    Cached{Controller: Whole, APIServer: Reduced},
		Roles:     Roles{Admin: Read},
		Events:    Events{"Created object", "Updated object", "Deleted object"}, Derived: true,
	}, {
		Object: &ScimUser{}, List: &ScimUserList{}, Plural: "scimusers", ShortName: "suser", DisplayName: "SCIM user",
		Controller: true, WrittenBy: "SCIM clients, users",
		Cached:     Cached{Controller: WithTimes, APIServer: Reduced},
		Roles:      Roles{Admin: Write},
		Events:     Events{"Created user", "Updated user profile", "Deleted user"},
		ScimEvents: Events{"Created user via SCIM", "Updated user via SCIM", "Deleted user via SCIM"},
	}, {
		Object: &Claim{}, List: &ClaimList{}, Plural: "claims", ShortName: "qclaim", DisplayName: "Claim",
		WrittenBy: "controllers, the REST and SCIM APIs",
		Cached:    Cached{Controller: Whole},
		Roles:     Roles{Admin: Read},
	},
}

// Kind declares a kind.
//
// +kubebuilder:object:generate=false
type Kind struct {
	// Object and List are empty values of the Go types. They must not be changed: NewList returns
	// a list to read into.
	Object KindObject
	List   KindList

	// Plural is the name of the resource, ShortName its short name in kubectl. Both repeat the
	// markers of the type.
	Plural, ShortName string
	// DisplayName is the name in prose, in the singular.
	DisplayName string
	// Cluster kinds have no namespace. All other kinds belong to an Account: their objects are
	// in its namespace and are deleted with it.
	Cluster bool
	// Controller reports whether controllers/<kind> reconciles the kind.
	Controller bool
	// Content kinds are reconciled into the content store by quoin apiserver, in apiserver/contentobjects.
	Content bool
	// Numbered kinds get a number from their Account, in LabelID. See internal/ids.
	Numbered bool
	// Scale reports whether the kind has the subresource scale.
	Scale bool
	// WrittenBy names who creates and updates objects, for the documentation.
	WrittenBy string
	// Cached declares which processes watch the kind. Their roles get the verbs list and watch;
	// other verbs are +kubebuilder:rbac markers beside the code that needs them.
	Cached Cached
	// Roles declares the access of the user-facing ClusterRoles.
	Roles Roles
	// Events are the names of the audit log events of changes; zero if changes are not recorded.
	Events Events
	// ScimEvents are the names of events of changes over SCIM; Events if zero.
	ScimEvents Events
	// Derived kinds are written by Quoin as a consequence of other changes. Only changes by other
	// clients are recorded.
	Derived bool
	// Unrecorded are fields that events of changes by Quoin omit.
	Unrecorded []string
}

// KindObject is an object of any kind.
//
// +kubebuilder:object:generate=false
type KindObject interface {
	metav1.Object
	runtime.Object
}

// KindList is a list of objects of any kind.
//
// +kubebuilder:object:generate=false
type KindList interface {
	metav1.ListInterface
	runtime.Object
}

// Cached declares how the processes cache the objects of a kind.
//
// +kubebuilder:object:generate=false
type Cached struct{ Controller, APIServer, Gateway Caching }

// Caching declares how much of each object a process keeps in memory.
type Caching int

// The ways to cache a kind. Whole objects are kept without metadata.managedFields.
const (
	// NotCached kinds are not watched.
	NotCached Caching = iota
	// Whole keeps whole objects.
	Whole
	// WithTimes keeps whole objects and, of managedFields, when the spec last changed. See
	// internal/lastmodified.
	WithTimes
	// Reduced keeps the fields that apiserver/directory reads.
	Reduced
)

// Roles declares what the user-facing ClusterRoles allow on a kind: quoin-viewer, quoin-editor,
// quoin-admin and quoin-platform-admin. The first two are aggregated to Kubernetes' view and edit:
// they must not reveal credentials or users.
//
// +kubebuilder:object:generate=false
type Roles struct{ Viewer, Editor, Admin, PlatformAdmin Access }

// Access is what a role allows on a kind.
type Access int

// The levels of access.
const (
	// NoAccess allows nothing.
	NoAccess Access = iota
	// Read allows get, list and watch.
	Read
	// Write allows Read, create, update, patch, delete and deletecollection.
	Write
)

// Events are the names of the audit log events of a kind.
//
// +kubebuilder:object:generate=false
type Events struct{ Create, Update, Delete string }

// KindOf returns the declaration of a kind by its name, such as "ApiKey", and whether there is one.
func KindOf(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name() == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Name returns the name of the kind, such as "ApiKey".
func (k Kind) Name() string { return reflect.TypeOf(k.Object).Elem().Name() }

// NewList returns an empty list of the kind.
func (k Kind) NewList() KindList {
	list, _ := k.List.DeepCopyObject().(KindList) // a copy has the same type
	return list
}

// HasConditions reports whether the status of the kind has conditions.
func (k Kind) HasConditions() bool {
	_, ok := k.Object.(Object)
	return ok
}

// Recorded reports whether changes are recorded in the audit log.
func (k Kind) Recorded() bool { return k.Events != Events{} }
