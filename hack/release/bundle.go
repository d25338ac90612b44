package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

const (
	// bundleNamespace is the namespace that the manifests name. The policy on the gateway's writes names its
	// ServiceAccount, so Quoin has to be installed there.
	bundleNamespace = "quoin-system"
	// channel of the bundle.
	channel = "alpha"
)

// bundle is what OLM installs: a ClusterServiceVersion and further manifests.
type bundle struct {
	*release
	deployments []any
	// roles and clusterRoles are the rules by ServiceAccount.
	roles, clusterRoles map[string][]any
	// crds by kind.
	crds map[string]*unstructured.Unstructured
	// manifests by file name.
	manifests map[string]*unstructured.Unstructured
	// prerequisites are objects that OLM does not support in bundles.
	prerequisites []*unstructured.Unstructured
}

// writeBundle writes the bundle for OLM in the format registry+v1, and the manifests that an administrator
// applies before.
func writeBundle(r *release) error {
	text, err := r.build("config/olm")
	if err != nil {
		return err
	}
	objects, err := split(text)
	if err != nil {
		return err
	}
	b, err := newBundle(r, objects)
	if err != nil {
		return err
	}
	csv, err := b.clusterServiceVersion()
	if err != nil {
		return err
	}
	files := map[string][]byte{"metadata/annotations.yaml": []byte(bundleAnnotations), "bundle.Dockerfile": []byte(bundleDockerfile)}
	b.manifests["quoin.clusterserviceversion.yaml"] = csv
	for name, u := range b.manifests {
		if files["manifests/"+name], err = yaml.Marshal(u.Object); err != nil {
			return err
		}
	}
	if err := writeArchive(filepath.Join(r.out, "quoin-olm-bundle-"+r.number()+".tgz"), files, r.date); err != nil {
		return err
	}
	var documents []string
	for _, u := range b.prerequisites {
		document, err := yaml.Marshal(u.Object)
		if err != nil {
			return err
		}
		documents = append(documents, string(document))
	}
	return os.WriteFile(filepath.Join(r.out, "olm-prerequisites.yaml"), []byte(strings.Join(documents, "---\n")), 0o644)
}

// bundleAnnotations are the annotations of the bundle, which its image has as labels.
const bundleAnnotations = `annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: quoin
  operators.operatorframework.io.bundle.channels.v1: ` + channel + `
  operators.operatorframework.io.bundle.channel.default.v1: ` + channel + `
`

// bundleDockerfile builds the image of the bundle.
const bundleDockerfile = `FROM scratch
LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=quoin
LABEL operators.operatorframework.io.bundle.channels.v1=` + channel + `
LABEL operators.operatorframework.io.bundle.channel.default.v1=` + channel + `
COPY manifests /manifests/
COPY metadata /metadata/
`

// newBundle assigns the objects of the kustomize tree to the parts of a bundle.
func newBundle(r *release, objects []*unstructured.Unstructured) (*bundle, error) {
	b := &bundle{
		release: r, roles: map[string][]any{}, clusterRoles: map[string][]any{},
		crds: map[string]*unstructured.Unstructured{}, manifests: map[string]*unstructured.Unstructured{},
	}
	rules := map[string][]any{} // of roles by kind and name
	for _, u := range objects {
		if u.GetKind() == "Role" || u.GetKind() == "ClusterRole" {
			rules[u.GetKind()+"/"+u.GetName()], _, _ = unstructured.NestedSlice(u.Object, "rules")
		}
	}
	bound := map[string]bool{}
	for _, u := range objects {
		if u.GetKind() == "RoleBinding" || u.GetKind() == "ClusterRoleBinding" {
			role, err := b.bind(u, rules)
			if err != nil {
				return nil, err
			}
			bound[role] = true
		}
	}
	for _, u := range objects {
		if bound[u.GetKind()+"/"+u.GetName()] {
			continue
		}
		if err := b.add(u); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// bind adds the rules of a binding to those of its ServiceAccount, and returns the kind and name of its role.
func (b *bundle) bind(u *unstructured.Unstructured, rules map[string][]any) (string, error) {
	kind, _, _ := unstructured.NestedString(u.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(u.Object, "roleRef", "name")
	subjects, _, _ := unstructured.NestedSlice(u.Object, "subjects")
	role := kind + "/" + name
	if rules[role] == nil || len(subjects) != 1 || kind+"Binding" != u.GetKind() {
		return "", fmt.Errorf("%s %s: want one subject and a role of the same scope, which is part of the bundle", u.GetKind(), u.GetName())
	}
	account, _ := subjects[0].(map[string]any)
	accountName, _ := account["name"].(string)
	of := b.clusterRoles
	if kind == "Role" {
		of = b.roles
	}
	of[accountName] = append(of[accountName], rules[role]...)
	return role, nil
}

// add adds an object to the part of the bundle for its kind.
func (b *bundle) add(u *unstructured.Unstructured) error {
	switch u.GetKind() {
	case "Namespace", "ServiceAccount", "RoleBinding", "ClusterRoleBinding": // OLM creates them
		return nil
	case "Deployment":
		b.deployments = append(b.deployments, map[string]any{"name": u.GetName(), "label": stringMap(u.GetLabels()), "spec": u.Object["spec"]})
		return nil
	case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
		b.prerequisites = append(b.prerequisites, u)
		return nil
	case "CustomResourceDefinition":
		kind, _, _ := unstructured.NestedString(u.Object, "spec", "names", "kind")
		b.crds[kind] = u
	case "Service", "PodDisruptionBudget", "ClusterRole":
		u.SetNamespace("") // that of the installation
	default:
		return fmt.Errorf("%s %s: OLM does not support the kind in bundles", u.GetKind(), u.GetName())
	}
	name := strings.ToLower(u.GetKind())
	if name == "customresourcedefinition" {
		name = "crd"
	}
	b.manifests[u.GetName()+"."+name+".yaml"] = u
	return nil
}

// clusterServiceVersion returns the description of the operator for OLM.
func (b *bundle) clusterServiceVersion() (*unstructured.Unstructured, error) {
	examples, err := b.examples()
	if err != nil {
		return nil, err
	}
	owned, internal, err := b.owned()
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(b.root, "hack/release/description.md"))
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1",
		"kind":       "ClusterServiceVersion",
		"metadata": map[string]any{
			"name":      "quoin." + b.version,
			"namespace": bundleNamespace,
			"annotations": map[string]any{
				"alm-examples":   examples,
				"capabilities":   "Basic Install",
				"categories":     "Big Data, Database",
				"containerImage": b.image(),
				"createdAt":      b.date.Format(time.RFC3339),
				"description":    "Control plane for analytics deployments: release channels, environments per branch, data models from Git",
				"repository":     "https://github.com/quoin-dev/quoin",
				"support":        "The Quoin authors",
				"operatorframework.io/suggested-namespace":        bundleNamespace,
				"operators.operatorframework.io/internal-objects": internal,
			},
			"labels": map[string]any{
				"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported", "operatorframework.io/os.linux": "supported",
			},
		},
		"spec": map[string]any{
			"displayName":    "Quoin",
			"description":    string(readme),
			"version":        b.number(),
			"maturity":       channel,
			"minKubeVersion": "1.31.0",
			"keywords":       []any{"analytics", "semantic-layer", "operator", "scim"},
			"links":          []any{map[string]any{"name": "Source", "url": "https://github.com/quoin-dev/quoin"}},
			"maintainers":    []any{map[string]any{"name": "The Quoin authors"}},
			"provider":       map[string]any{"name": "The Quoin authors", "url": "https://github.com/quoin-dev/quoin"},
			"installModes": []any{
				installMode("OwnNamespace", false), installMode("SingleNamespace", false), installMode("MultiNamespace", false), installMode("AllNamespaces", true),
			},
			"relatedImages":             []any{map[string]any{"name": "quoin", "image": b.image()}},
			"customresourcedefinitions": map[string]any{"owned": owned},
			"install": map[string]any{
				"strategy": "deployment",
				"spec": map[string]any{
					"deployments": b.deployments, "permissions": permissions(b.roles), "clusterPermissions": permissions(b.clusterRoles),
				},
			},
		},
	}}, nil
}

func installMode(mode string, supported bool) map[string]any {
	return map[string]any{"type": mode, "supported": supported}
}

// permissions returns rules by ServiceAccount in the form of a ClusterServiceVersion.
func permissions(byAccount map[string][]any) []any {
	var all []any
	for _, account := range slices.Sorted(maps.Keys(byAccount)) {
		all = append(all, map[string]any{"serviceAccountName": account, "rules": byAccount[account]})
	}
	return all
}

// owned returns the descriptions of the kinds, and the names of those that users do not write as JSON.
func (b *bundle) owned() (owned []any, internal string, err error) {
	hidden := []string{}
	for _, kind := range v1alpha1.Kinds {
		crd := b.crds[kind.Name()]
		if crd == nil {
			return nil, "", fmt.Errorf("no CRD of %s", kind.Name())
		}
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		version, _ := versions[0].(map[string]any)
		description, _, _ := unstructured.NestedString(version, "schema", "openAPIV3Schema", "description")
		if description == "" {
			return nil, "", fmt.Errorf("the CRD of %s has no description", kind.Name())
		}
		owned = append(owned, map[string]any{
			"name": crd.GetName(), "kind": kind.Name(), "version": v1alpha1.GroupVersion.Version, "displayName": kind.DisplayName, "description": description,
		})
		if !writtenByUsers(kind) {
			hidden = append(hidden, crd.GetName())
		}
	}
	text, err := json.Marshal(hidden)
	return owned, string(text), err
}

// writtenByUsers reports whether users write objects of the kind.
func writtenByUsers(kind v1alpha1.Kind) bool {
	return strings.Contains(kind.WrittenBy, "users") || strings.Contains(kind.WrittenBy, "administrators")
}

// examples returns a sample of each kind that users write, as JSON.
func (b *bundle) examples() (string, error) {
	var all []any
	for _, kind := range v1alpha1.Kinds {
		if !writtenByUsers(kind) {
			continue
		}
		sample, err := b.sample(kind.Name())
		if err != nil {
			return "", err
		}
		all = append(all, sample.Object)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return string(text), err
}

// sample returns the first sample of a kind.
func (b *bundle) sample(kind string) (*unstructured.Unstructured, error) {
	for _, pattern := range []string{"config/samples/*.yaml", "config/samples/more/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(b.root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			objects, err := split(string(content))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			for _, u := range objects {
				if u.GetKind() == kind && u.GroupVersionKind().Group == v1alpha1.Group {
					return u, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("no sample of %s", kind)
}

func stringMap(labels map[string]string) map[string]any {
	all := map[string]any{}
	for name, value := range labels {
		all[name] = value
	}
	return all
}
