package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// maximumCRDBytes is the size that fits into the last-applied annotation of a client-side apply.
const maximumCRDBytes = 256 << 10

// withoutStatus reports whether a kind has no status, because it is an implementation detail.
func withoutStatus(kind string) bool {
	k, found := v1alpha1.KindOf(kind)
	return found && !k.HasConditions()
}

// freeForm are the only fields that may have unknown content: SCIM schema extensions (RFC 7643 section 3.3), claims of tokens, and
// the documented config of OAuth integrations, which have no schema, and the parts of workbooks that the content store checks
// against JSON Schemas.
var freeForm = map[string]bool{
	"spec.extensions[].attributes":   true,
	"spec.customClaims[].value":      true,
	"spec.config{}":                  true,
	"spec.definition.dashboardDraft": true,
	"spec.definition.meta":           true,
	"spec.definition.reports[].meta": true,
}

// TestCRDsFollowTheConventions checks every generated CRD against the API conventions of the project.
func TestCRDsFollowTheConventions(t *testing.T) {
	for _, file := range yamlFiles(t, crdFolder) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, breach := range breachesOf(t, text) {
				t.Error(breach)
			}
		})
	}
}

// breachesOf returns the violations of the conventions in a CRD, sorted.
func breachesOf(t *testing.T, text []byte) []string {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	r := &rules{kind: crd.Spec.Names.Kind}
	if len(text) >= maximumCRDBytes {
		r.breach("", "the CRD has %d bytes, client-side apply takes fewer than %d", len(text), maximumCRDBytes)
	}
	r.names(crd.Spec.Names)
	for i := range crd.Spec.Versions {
		r.version(&crd.Spec.Versions[i])
	}
	sort.Strings(r.breaches)
	return r.breaches
}

// rules collects the violations in one CRD.
type rules struct {
	kind     string
	breaches []string
}

func (r *rules) breach(path, format string, args ...any) {
	r.breaches = append(r.breaches, strings.TrimPrefix(path+": "+fmt.Sprintf(format, args...), ": "))
}

func (r *rules) names(n apiextensionsv1.CustomResourceDefinitionNames) {
	if len(n.ShortNames) == 0 {
		r.breach("", "no short name")
	}
	if want := !withoutStatus(r.kind); slices.Contains(n.Categories, "quoin") != want {
		r.breach("", "category quoin: is %t, want %t", !want, want)
	}
	if want := r.kind == "Deployment"; slices.Contains(n.Categories, "all") != want {
		r.breach("", "category all: is %t, want %t", !want, want)
	}
}

func (r *rules) version(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	r.columns(v.AdditionalPrinterColumns)
	root := v.Schema.OpenAPIV3Schema
	if root.Description == "" {
		r.breach("", "no description: kubectl explain has nothing to say")
	}
	r.validations("", root)
	spec, ok := root.Properties["spec"]
	if !ok || !slices.Contains(root.Required, "spec") {
		r.breach("spec", "is not a required property")
	}
	r.schema("spec", "spec", &spec)

	status, ok := root.Properties["status"]
	if withoutStatus(r.kind) {
		if ok {
			r.breach("status", "this kind has none")
		}
		return
	}
	if v.Subresources == nil || v.Subresources.Status == nil {
		r.breach("status", "no status subresource")
	}
	r.schema("status", "status", &status)
	r.statusContract(&status)
}

// statusContract checks the fields that kstatus, kubectl wait and GitOps tools use.
func (r *rules) statusContract(status *apiextensionsv1.JSONSchemaProps) {
	var initial map[string]any
	if status.Default != nil {
		if err := json.Unmarshal(status.Default.Raw, &initial); err != nil {
			r.breach("status", "default: %v", err)
		}
	}
	if !cmp.Equal(initial, map[string]any{"observedGeneration": -1.0}) {
		r.breach("status", "default is %v, want observedGeneration: -1", initial)
	}
	conditions := status.Properties["conditions"]
	if conditions.XListType == nil || *conditions.XListType != "map" || !slices.Equal(conditions.XListMapKeys, []string{"type"}) {
		r.breach("status.conditions", "must be a list of x-kubernetes-list-type map with the key type")
	}
	if _, ok := status.Properties["observedGeneration"]; !ok {
		r.breach("status.observedGeneration", "is missing")
	}
}

func (r *rules) columns(columns []apiextensionsv1.CustomResourceColumnDefinition) {
	names := make([]string, 0, len(columns))
	for _, c := range columns {
		names = append(names, c.Name)
		if c.Name == "Message" && c.Priority == 0 {
			r.breach("", "column Message is long: it needs priority 1")
		}
	}
	want := []string{"Ready", "Reason", "Age"}
	if withoutStatus(r.kind) {
		want = []string{"Age"}
	}
	for _, w := range want {
		if !slices.Contains(names, w) {
			r.breach("", "no print column %s", w)
		}
	}
	if n := len(names); n > 0 && names[n-1] != "Age" {
		r.breach("", "the last print column is %s, want Age", names[n-1])
	}
}

var (
	lowerCamel = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	// sentence matches text that begins with a letter and ends with a full stop.
	sentence = regexp.MustCompile(`(?s)^[A-Za-z].*\.$`)
)

// schema checks a field and everything below it. field is its name; items have the name of their list.
func (r *rules) schema(path, field string, s *apiextensionsv1.JSONSchemaProps) {
	if path == "status.conditions[]" {
		return // metav1.Condition is part of apimachinery.
	}
	r.validations(path, s)
	r.bounds(path, s)
	if s.Items != nil && s.Items.Schema != nil {
		r.schema(path+"[]", field, s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		r.schema(path+"{}", field, s.AdditionalProperties.Schema)
	}
	for name, property := range s.Properties {
		below := path + "." + name
		if !lowerCamel.MatchString(name) {
			r.breach(below, "the name is not lowerCamel")
		}
		if name == "phase" {
			r.breach(below, "conditions say it, a phase does not")
		}
		if !sentence.MatchString(property.Description) || !strings.HasPrefix(property.Description, name+" ") {
			r.breach(below, "the description must be a sentence that begins with the field's name: %q", property.Description)
		}
		r.schema(below, name, &property)
	}
}

// bounds requires a limit for everything that can grow, for etcd and for the cost of CEL.
func (r *rules) bounds(path string, s *apiextensionsv1.JSONSchemaProps) {
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields && !freeForm[path] {
		r.breach(path, "x-kubernetes-preserve-unknown-fields is not on the list of exceptions")
	}
	switch s.Type {
	case "string":
		bounded := s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
		if !bounded {
			r.breach(path, "a string needs maxLength, an enum or the format date-time")
		}
	case "array":
		if s.MaxItems == nil {
			r.breach(path, "a list needs maxItems")
		}
		if s.XListType == nil {
			r.breach(path, "a list needs x-kubernetes-list-type")
		}
	case "object":
		if s.AdditionalProperties != nil && s.MaxProperties == nil {
			r.breach(path, "a map needs maxProperties")
		}
		if s.AdditionalProperties == nil && len(s.Properties) == 0 && !freeForm[path] {
			r.breach(path, "an object needs properties")
		}
	case "number":
		r.breach(path, "floats do not round-trip: use an integer with a unit or a quantity")
	case "integer", "boolean":
	case "":
		if !s.XIntOrString && !freeForm[path] {
			r.breach(path, "has no type")
		}
	default:
		r.breach(path, "type %s is not expected here", s.Type)
	}
}

func (r *rules) validations(path string, s *apiextensionsv1.JSONSchemaProps) {
	for _, v := range s.XValidations {
		if v.Message == "" && v.MessageExpression == "" {
			r.breach(path, "the rule %q has no message", v.Rule)
		}
	}
}

// badCRD violates each rule once.
const badCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: bads.platform.quoin.dev
spec:
  group: platform.quoin.dev
  scope: Namespaced
  names: {kind: Bad, plural: bads, categories: [all]}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Ready, type: string, jsonPath: .status.ready}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    - {name: Message, type: string, jsonPath: .status.message}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              text: {type: string, description: text of any length.}
              list: {type: array, description: list of things., items: {type: string, maxLength: 5}}
              map: {type: object, description: map of things., additionalProperties: {type: string, maxLength: 5}}
              free: {type: object, description: free form., x-kubernetes-preserve-unknown-fields: true}
              share: {type: number, description: share of the whole.}
              Upper: {type: integer, description: Upper is in the wrong case.}
              phase: {type: string, enum: [A], description: phase of it.}
              count: {type: integer}
              even: {type: integer, description: even number., x-kubernetes-validations: [{rule: self % 2 == 0}]}
          status:
            type: object
            default: {observedGeneration: 0}
            properties:
              conditions: {type: array, maxItems: 8, x-kubernetes-list-type: atomic, description: conditions of it., items: {type: object}}
`

func TestEveryConventionIsChecked(t *testing.T) {
	want := []string{
		"category all: is true, want false",
		"category quoin: is false, want true",
		"column Message is long: it needs priority 1",
		"no description: kubectl explain has nothing to say",
		"no print column Reason",
		"no short name",
		"spec.Upper: the name is not lowerCamel",
		`spec.count: the description must be a sentence that begins with the field's name: ""`,
		`spec.even: the rule "self % 2 == 0" has no message`,
		"spec.free: an object needs properties",
		"spec.free: x-kubernetes-preserve-unknown-fields is not on the list of exceptions",
		"spec.list: a list needs maxItems",
		"spec.list: a list needs x-kubernetes-list-type",
		"spec.map: a map needs maxProperties",
		"spec.phase: conditions say it, a phase does not",
		"spec.share: floats do not round-trip: use an integer with a unit or a quantity",
		"spec.text: a string needs maxLength, an enum or the format date-time",
		"spec: is not a required property",
		"status.conditions: must be a list of x-kubernetes-list-type map with the key type",
		"status.observedGeneration: is missing",
		"status: default is map[observedGeneration:0], want observedGeneration: -1",
		"status: no status subresource",
		"the last print column is Message, want Age",
	}
	if diff := cmp.Diff(want, breachesOf(t, []byte(badCRD))); diff != "" {
		t.Errorf("violations of badCRD (-want +got):\n%s", diff)
	}

	huge := badCRD + "# " + strings.Repeat("x", maximumCRDBytes)
	if got := strings.Join(breachesOf(t, []byte(huge)), "\n"); !strings.Contains(got, "client-side apply takes fewer than") {
		t.Errorf("a CRD of %d bytes is accepted", len(huge))
	}
}
