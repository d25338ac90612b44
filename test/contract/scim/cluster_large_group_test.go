//go:build !memory

package scim_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// TestAGroupOfUsersIsPutBackAsItWasRead checks that a group of more than 5,000 users, whose body is larger than that of any
// other request may be, can be replaced by the body that GET returns. This changes nothing, with any profile.
func TestAGroupOfUsersIsPutBackAsItWasRead(t *testing.T) {
	const members, limit = 5100, 1 << 20
	admin := acme.WithToken(acme.RFC)
	id := admin.CreateGroup(t, scimtest.UniqueName("large"), users(t, members)...)
	var shown *scimtest.Response
	soon(t, "all members are visible", func() error {
		shown = admin.Call(t, "GET", "/Groups/"+id, nil).WantStatus(200)
		if visible := len(shown.MemberIDs()); visible != members {
			return fmt.Errorf("%d members", visible)
		}
		return nil
	})
	if len(shown.Raw) <= limit {
		t.Fatalf("the body has only %d bytes", len(shown.Raw))
	}
	before := read(t, id, &v1alpha1.ScimGroup{})
	for profile, key := range scimtest.ProfileKeys {
		t.Run(profile, func(t *testing.T) {
			got := acme.WithToken(acme.Token(key)).Call(t, "PUT", "/Groups/"+id, string(shown.Raw)).WantStatus(200)
			if !bytes.Equal(got.Raw, shown.Raw) {
				t.Errorf("%s, want %s", scimtest.Truncate(got.Raw), scimtest.Truncate(shown.Raw))
			}
			if after := read(t, id, &v1alpha1.ScimGroup{}); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the object was written: before %+v, after %+v", before, after)
			}
		})
	}
}

// users creates users as objects with long names, and returns their ids. They are deleted after the test. The controller is
// stopped until then: what it does for each of them takes longer than the test.
func users(t *testing.T, n int) []string {
	t.Helper()
	if err := scimtest.Controller.Stop(); err != nil {
		t.Errorf("stop the controller: %v", err)
	}
	labels := client.MatchingLabels{"test": dns("large")}
	t.Cleanup(func() {
		if err := scimtest.Kubernetes.DeleteAllOf(context.WithoutCancel(t.Context()), &v1alpha1.ScimUser{}, client.InNamespace(acme.Name), labels); err != nil {
			t.Error(err)
		}
		if err := scimtest.Controller.Start(); err != nil {
			t.Error(err)
		}
	})
	const workers = 16
	ids := make([]string, n)
	each(workers, func(worker int) {
		for i := worker; i < n; i += workers {
			u := scimUser(dns("large"), scimtest.UniqueName("large"))
			u.Labels, u.Spec.DisplayName, ids[i] = labels, strings.Repeat("Ada ", 30)+u.Name, u.Name
			if err := scimtest.Kubernetes.Create(t.Context(), u); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return ids
}
