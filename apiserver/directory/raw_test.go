package directory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

func TestRawRatio(t *testing.T) {
	r := newRoom(t)
	run := func(name string, n int, do func(i int)) float64 {
		var next atomic.Int64
		var g sync.WaitGroup
		began := time.Now()
		for range 16 {
			g.Go(func() {
				for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
					do(i)
				}
			})
		}
		g.Wait()
		rate := float64(n) / time.Since(began).Seconds()
		t.Logf("%s: %.0f/s", name, rate)
		return rate
	}
	for round := range 3 {
		raw := run("raw", 3000, func(i int) {
			u := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: fmt.Sprintf("raw-%d-%d", round, i)}, Spec: v1alpha1.ScimUserSpec{UserName: fmt.Sprintf("raw-%d-%d@example.com", round, i)}}
			if err := r.api.Create(t.Context(), u); err != nil {
				t.Error(err)
			}
		})
		scim := run("scim", 3000, func(i int) {
			_, err := r.Create(t.Context(), r.Tenant.user, schema.Document{"userName": fmt.Sprintf("scim-%d-%d@example.com", round, i)})
			if err != nil {
				t.Error(err)
			}
		})
		t.Logf("ratio %.2f", scim/raw)
	}
}

func TestMemoryOfUsers(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	b := &testing.B{}
	_ = b
	m := newMemory(t)
	began := time.Unix(1_700_000_000, 0)
	for i := range 100000 {
		m.put(&v1alpha1.ScimUser{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fmt.Sprint("ac","me"), Name: fmt.Sprintf("01a1fde4-1dda-7b3c-82e6-%012d", i), UID: "12345678-1dda-7b3c-82e6-4cbd16df5223", Generation: 1, ResourceVersion: fmt.Sprint(i),
				CreationTimestamp: metav1.NewTime(began.Add(time.Duration(i/100) * time.Second)),
			},
			Spec: v1alpha1.ScimUserSpec{
				UserName: fmt.Sprintf("user%d@example.com", i), ExternalID: fmt.Sprintf("ext-%d", i), DisplayName: fmt.Sprintf("User %d", i),
				Name:   &v1alpha1.ScimName{GivenName: "User", FamilyName: fmt.Sprint(i)},
				Emails: []v1alpha1.ScimMultiValue{{Value: fmt.Sprintf("user%d@example.com", i), Type: "work", Primary: new(true)}},
				Title:  "Engineer",
			},
		})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes a user", (after.HeapAlloc-before.HeapAlloc)/100000)
	runtime.KeepAlive(m)
}
