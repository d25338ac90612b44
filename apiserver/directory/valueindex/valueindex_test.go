package valueindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func addresses(u *v1alpha1.ScimUser) (values []string) {
	if u != nil {
		for _, e := range u.Spec.Emails {
			values = append(values, e.Value)
		}
	}
	return values
}

func hasAddress(u *v1alpha1.ScimUser, value string) bool { return slices.Contains(addresses(u), value) }

// TestIndex compares the index with reading all objects, while random objects come, change and go.
func TestIndex(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		x, objects := New(hasAddress), map[string]*v1alpha1.ScimUser{}
		all := []string{"a@x", "b@x", "c@x"}
		for range 300 {
			namespace, name := []string{"acme", "globex"}[random.IntN(2)], fmt.Sprint(random.IntN(6))
			var changed *v1alpha1.ScimUser
			if random.IntN(4) > 0 {
				changed = &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				for range random.IntN(3) {
					changed.Spec.Emails = append(changed.Spec.Emails, v1alpha1.ScimMultiValue{Value: all[random.IntN(len(all))]})
				}
			}
			x.Change(objects[namespace+name], addresses(objects[namespace+name]), changed, addresses(changed))
			if changed == nil {
				delete(objects, namespace+name)
			} else {
				objects[namespace+name] = changed
			}
			for _, address := range []string{"a@x", "b@x", "c@x", "d@x"} {
				var got, want []string
				for _, u := range x.Find(namespace, address) {
					got = append(got, u.Name)
				}
				for _, u := range objects {
					if u.Namespace == namespace && slices.ContainsFunc(u.Spec.Emails, func(e v1alpha1.ScimMultiValue) bool {
						return e.Value == address
					}) {
						want = append(want, u.Name)
					}
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s has %v, want %v", seed, address, got, want)
				}
			}
		}
		for _, u := range objects {
			x.Change(u, addresses(u), nil, nil)
		}
		if len(x.one)+len(x.several) > 0 {
			t.Errorf("seed %d: %d and %d values are left", seed, len(x.one), len(x.several))
		}
	}
}
