package clients_test

import (
	"fmt"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Conversations of Entra ID, with its key and, if it is detected, with a key without a profile.

func TestEntraValidator(t *testing.T) { replay(t, "entra-validator") }
func TestEntraGallery(t *testing.T)   { replay(t, "entra-gallery") }
func TestEntraDefault(t *testing.T)   { replay(t, "entra-default") }
func TestEntraFlag(t *testing.T)      { replay(t, "entra-flag") }

// TestEntraGalleryPagination checks SCIM_User_Pagination and SCIM_Group_Pagination: at least 11 resources,
// count=5, and startIndex n*5+1 for page n from 0.
func TestEntraGalleryPagination(t *testing.T) {
	for key, token := range map[string]string{"entra": acme.Entra, "auto": acme.Auto} {
		t.Run(key, func(t *testing.T) {
			entra, run := acme.WithToken(token), scimtest.RunID()
			users, groups := map[string]bool{}, map[string]bool{}
			for i := range 11 {
				users[entra.CreateUser(t, fmt.Sprintf("page-%s-%02d@entra.test", run, i))] = true
				groups[entra.CreateGroup(t, fmt.Sprintf("Page %s %02d", run, i))] = true
			}
			checkPages(t, entra, "/Users", users)
			checkPages(t, entra, "/Groups", groups)
		})
	}
}

// checkPages lists an endpoint in pages of five and checks that each wanted id is returned once.
func checkPages(t *testing.T, a scimtest.Caller, endpoint string, wanted map[string]bool) {
	t.Helper()
	seen := map[string]int{}
	for n, total := 0, 1; n*5 < total; n++ {
		page := a.Call(t, "GET", fmt.Sprintf("%s?startIndex=%d&count=5&aadOptscim062020", endpoint, n*5+1), nil).WantStatus(200).Want("startIndex", n*5+1)
		number, _ := page.Value("totalResults").(float64)
		if total = int(number); total < len(wanted) {
			t.Fatalf("totalResults is %d, created %d", total, len(wanted))
		}
		resources := page.List("Resources")
		page.Want("itemsPerPage", len(resources))
		if want := min(5, total-n*5); len(resources) != want {
			t.Errorf("page %d of %d has %d, not %d", n, total, len(resources), want)
		}
		for _, r := range resources {
			id, _ := r["id"].(string)
			seen[id]++
		}
	}
	for id, times := range seen {
		if times != 1 {
			t.Errorf("%s is returned %d times", id, times)
		}
	}
	for id := range wanted {
		if seen[id] == 0 {
			t.Errorf("%s is missing", id)
		}
	}
}
