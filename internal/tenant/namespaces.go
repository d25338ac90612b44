package tenant

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Namespaces are the namespaces to which an installation of Quoin is restricted; all if there are none. Accounts with other
// namespaces are not served, and nothing in other namespaces is written.
type Namespaces []string

// Include reports whether Quoin works in a namespace.
func (n Namespaces) Include(namespace string) bool {
	return len(n) == 0 || slices.Contains(n, namespace)
}

// Cache returns the namespaces for the options of a cache; nil for all.
func (n Namespaces) Cache() map[string]cache.Config {
	if len(n) == 0 {
		return nil
	}
	namespaces := map[string]cache.Config{}
	for _, name := range n {
		namespaces[name] = cache.Config{}
	}
	return namespaces
}

// Check returns an error if a name is not that of a namespace of an account; own is the namespace of Quoin itself.
func (n Namespaces) Check(own string) error {
	for i, name := range n {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("%q is not the name of a namespace: %s", name, problems[0])
		}
		if name == own {
			return fmt.Errorf("%q is the namespace of Quoin itself, which no account may have", name)
		}
		if slices.Contains(n[:i], name) {
			return fmt.Errorf("%q is listed twice", name)
		}
	}
	return nil
}
