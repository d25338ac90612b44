package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	kubectl      = regexp.MustCompile(`kubectl (?:(?:-n|--namespace) \S+ )?(?:get|wait|patch|describe|delete|annotate|label|scale|edit) (\S[^|;&)]*)`)
	resourceName = regexp.MustCompile(`^[a-z][a-z0-9.,-]*$`)
)

// kubernetesResources are the resources of Kubernetes itself that the documentation uses.
var kubernetesResources = []string{
	"apiservice", "clusterrole", "clusterrolebinding", "configmap", "crd", "customresourcedefinition", "deployment", "deployments.apps",
	"endpointslice", "event", "job", "lease", "mutatingwebhookconfiguration", "namespace", "networkpolicy", "node", "persistentvolumeclaim", "pod", "pvc",
	"role", "rolebinding", "secret", "service", "serviceaccount", "statefulset", "svc", "validatingwebhookconfiguration",
}

// unknownResources checks the resource that a kubectl command names, and further resource/name arguments.
func unknownResources(t *testing.T, p page) []problem {
	t.Helper()
	known := resources(t)
	var problems []problem
	for _, s := range p.code() {
		for _, match := range kubectl.FindAllStringSubmatch(s.text, -1) {
			for i, word := range words(match[1]) {
				if strings.HasPrefix(word, "-") {
					break
				}
				names, _, hasName := strings.Cut(word, "/")
				if i > 0 && (!hasName || strings.Contains(word, "=")) || !resourceName.MatchString(names) {
					continue
				}
				for name := range strings.SplitSeq(names, ",") {
					if !known[name] {
						problems = append(problems, problem{s.line, fmt.Sprintf("%q is not a resource", name)})
					}
				}
			}
		}
	}
	return problems
}

// customResources returns the names by which kubectl knows the resources of the CRDs.
var customResources = sync.OnceValues(func() (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		names := crd.Spec.Names
		for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames, names.Categories) {
			known[name] = true
			known[name+"."+crd.Spec.Group] = true
		}
	}
	return known, nil
})

// resources returns the names of the custom resources and of those of Kubernetes itself.
func resources(t *testing.T) map[string]bool {
	t.Helper()
	known, err := customResources()
	if err != nil || len(known) == 0 {
		t.Fatalf("found %d custom resources: %v", len(known), err)
	}
	all := map[string]bool{}
	for name := range known {
		all[name] = true
	}
	for _, name := range kubernetesResources {
		all[name] = true
		all[name+"s"] = true
	}
	return all
}
