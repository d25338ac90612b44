package api_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/quoin-dev/quoin/internal/displayname"
)

// displayNameCases are names, at paths of a spec such as spec.name.formatted, with characters that are not allowed.
func displayNameCases(paths ...string) []validationCase {
	names := map[string]string{"control character": "Sales\x1b[31m", "line end": "Sales\nMarketing", "right-to-left override": "Sales\u202Etxt.exe"}
	var cases []validationCase
	for _, path := range paths {
		for about, name := range names {
			value, _ := json.Marshal(name)
			with := string(value)
			parts := strings.Split(strings.TrimPrefix(path, "spec."), ".")
			for i := len(parts) - 1; i >= 0; i-- {
				with = fmt.Sprintf("{%q: %s}", parts[i], with)
			}
			cases = append(cases, validationCase{name: path + ": " + about, with: with, field: path, message: displayname.Rule})
		}
	}
	return cases
}

// TestDisplayNamesHaveOneRule compares the CEL rules with the function that REST and SCIM use, for every character.
func TestDisplayNamesHaveOneRule(t *testing.T) {
	expression := regexp.MustCompile(`^!(?:self\.|self\.exists\(e, has\(e\.value\) && e\.value\.)matches\(r'([^']*)'\)+$`)
	found := map[string]bool{}
	for _, file := range yamlFiles(t, crdFolder) {
		crd := readCRD(t, file)
		for _, rule := range celRules("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema) {
			if rule.message != displayname.Rule {
				continue
			}
			path := crd.Spec.Names.Kind + "." + rule.path
			found[path] = true
			parts := expression.FindStringSubmatch(rule.expression)
			if parts == nil {
				t.Fatalf("%s: unexpected rule %s", path, rule.expression)
			}
			forbidden := regexp.MustCompile(parts[1])
			for char := rune(0); char <= unicode.MaxRune; char++ {
				text := string(char)
				if forbidden.MatchString(text) != (displayname.Check(text) != nil) {
					t.Fatalf("%s: %U: the rule and displayname.Check differ", path, char)
				}
			}
		}
	}
	for _, path := range []string{
		"Account.spec.displayName", "ApiKey.spec.displayName", "Deployment.spec.displayName", "ScimGroup.spec.displayName",
		"ScimUser.spec.displayName", "ScimUser.spec.nickName", "ScimUser.spec.title", "ScimUser.spec.name.formatted", "ScimUser.spec.name.familyName", "ScimUser.spec.name.givenName",
		"ScimUser.spec.emails",
	} {
		if !found[path] {
			t.Errorf("%s has no rule for display names", path)
		}
	}
}
