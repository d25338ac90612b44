package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const root = "../.."

func TestFilesAreCurrent(t *testing.T) {
	if err := run(root, true); err != nil {
		t.Error(err)
	}
}

// declaration is what the table of kinds and the markers of the types both declare.
type declaration struct {
	Kind, Plural, ShortName   string
	Cluster, Scale, HasStatus bool
}

// TestKindsMatchMarkers compares the table of kinds with the CRDs, which controller-gen writes from
// the markers of the types.
func TestKindsMatchMarkers(t *testing.T) {
	var declared, marked []declaration
	for _, k := range byName() {
		declared = append(declared, declaration{k.Name(), k.Plural, k.ShortName, k.Cluster, k.Scale, k.HasConditions()})
	}
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		names, sub := crd.Spec.Names, crd.Spec.Versions[0].Subresources
		marked = append(marked, declaration{
			names.Kind, names.Plural, strings.Join(names.ShortNames, ","), crd.Spec.Scope == apiextensionsv1.ClusterScoped,
			sub != nil && sub.Scale != nil, sub != nil && sub.Status != nil,
		})
	}
	slices.SortFunc(marked, func(a, b declaration) int { return strings.Compare(a.Kind, b.Kind) })
	if diff := cmp.Diff(declared, marked); diff != "" {
		t.Errorf("-v1alpha1.Kinds +markers of the types:\n%s", diff)
	}
}

// TestControllersExist checks that controllers/<kind> exists for the kinds that declare a controller,
// and for no others.
func TestControllersExist(t *testing.T) {
	for _, k := range v1alpha1.Kinds {
		_, err := os.Stat(filepath.Join(root, "controllers", strings.ToLower(k.Name())))
		if exists := err == nil; exists != k.Controller {
			t.Errorf("%s: Controller is %t, controllers/%s exists: %t", k.Name(), k.Controller, strings.ToLower(k.Name()), exists)
		}
	}
}

// TestAggregatedRolesAreSafe: quoin-viewer and quoin-editor are aggregated to view and edit, which must not
// reveal credentials or users (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles).
func TestAggregatedRolesAreSafe(t *testing.T) {
	for _, name := range []string{"ApiKey", "ScimUser", "ScimGroup", "ScimMemberChunk", "Claim"} {
		k, found := v1alpha1.KindOf(name)
		if !found || k.Roles.Viewer != v1alpha1.NoAccess || k.Roles.Editor != v1alpha1.NoAccess {
			t.Errorf("%s: found %t, roles %+v", name, found, k.Roles)
		}
	}
}
