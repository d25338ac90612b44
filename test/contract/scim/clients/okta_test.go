package clients_test

import (
	"fmt"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/scimtest"
)

// Conversations of Okta, with its key and, detected by its User-Agent, with a key without a profile.

func TestOktaSpecTest(t *testing.T)      { replay(t, "okta-spec-test") }
func TestOktaCRUDTest(t *testing.T)      { replay(t, "okta-crud-test") }
func TestOktaLifecycle(t *testing.T)     { replay(t, "okta-lifecycle") }
func TestOktaProfileUpdate(t *testing.T) { replay(t, "okta-profile-update") }

// Conversations of other clients, which conform to the RFCs.

func TestGoogleWorkspace(t *testing.T) { replay(t, "google-workspace") }
func TestCubeCLI(t *testing.T)         { replay(t, "cube-cli") }

// TestOktaImport lists all pages, as an Okta import does: each user is returned once, in a stable order.
func TestOktaImport(t *testing.T) {
	okta, run := acme.WithToken(acme.Okta), scimtest.RunID()
	made := map[string]bool{}
	for i := range 25 {
		made[okta.CreateUser(t, fmt.Sprintf("import-%02d-%s@okta.test", i, run))] = true
	}
	imported := func() (order []string) {
		for start, total := 1, 1; start <= total; start += 10 {
			page := okta.Call(t, "GET", fmt.Sprintf("/Users?startIndex=%d&count=10", start), nil, "User-Agent", "Okta SCIM Client 1.0.0").WantStatus(200).Want("startIndex", start)
			n, _ := page.Value("totalResults").(float64)
			total = int(n)
			users := page.List("Resources")
			if want := min(10, total-start+1); len(users) != want || page.Value("itemsPerPage") != float64(want) {
				t.Fatalf("the page from %d of %d has %d users, not %d: %s", start, total, len(users), want, scimtest.Truncate(page.Raw))
			}
			for _, u := range users {
				id, _ := u["id"].(string)
				order = append(order, id)
			}
		}
		return order
	}
	first, second := imported(), imported()
	if fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("the order differs:\n%v\n%v", first, second)
	}
	seen := map[string]int{}
	for _, id := range first {
		if seen[id]++; seen[id] > 1 {
			t.Errorf("%s is returned twice", id)
		}
	}
	for id := range made {
		if seen[id] != 1 {
			t.Errorf("%s is missing", id)
		}
	}
}
