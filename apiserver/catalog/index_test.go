package catalog

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

func numbered(id string) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelID: id}}}
}

// TestByNumber: objects are listed by number, and those without a valid one or that are being deleted are not.
func TestByNumber(t *testing.T) {
	deleted := numbered("4")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	var got []string
	for _, d := range byNumber([]*v1alpha1.Deployment{numbered("10"), deleted, numbered("9"), numbered(""), numbered("x"), numbered("0"), {}, numbered("100")}) {
		got = append(got, d.Labels[v1alpha1.LabelID])
	}
	if diff := cmp.Diff([]string{"9", "10", "100"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// BenchmarkByNumber lists the deployments of a large account, as after each change of one.
func BenchmarkByNumber(b *testing.B) {
	var all []*v1alpha1.Deployment
	for _, n := range rand.New(rand.NewPCG(1, 1)).Perm(10_000) {
		all = append(all, numbered(strconv.Itoa(1+n)))
	}
	for b.Loop() {
		byNumber(all)
	}
}
