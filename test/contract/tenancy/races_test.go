package tenancy_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// race sends requests to both replicas at the same time, and returns the answers.
func race(t *testing.T, n int, method string, request func(i int) (path string, body any)) []*apiclient.Answer {
	t.Helper()
	answers := make([]*apiclient.Answer, n)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			path, body := request(i)
			answers[i] = acme.call(t, i%len(replicas), method, "/api/v1/deployments/1"+path, body)
		})
	}
	group.Wait()
	return answers
}

const racers = 12

// TestOneWorkbookHasASlug: of concurrent upserts by slug, on two replicas, one creates the workbook and the others update it.
func TestOneWorkbookHasASlug(t *testing.T) {
	answers := race(t, racers, "PUT", func(i int) (string, any) {
		return "/workbooks/by-slug/raced", object{"meta": object{fmt.Sprint("p", i): i}}
	})
	for _, a := range answers {
		if a.Is(200).ID() != answers[0].ID() {
			t.Errorf("the slug has workbooks %s and %s", a.ID(), answers[0].ID())
		}
	}
	meta, _ := acme.call(t, 0, "GET", "/api/v1/deployments/1/workbooks/"+answers[0].ID(), nil).Is(200).At("meta").(map[string]any)
	if len(meta) != racers {
		t.Errorf("the meta has %d of %d properties: %v", len(meta), racers, meta)
	}
}

// TestOneWorkbookTakesASlug: of concurrent updates that set a slug, one succeeds and the others are conflicts.
func TestOneWorkbookTakesASlug(t *testing.T) {
	ids := make([]string, racers)
	for i := range ids {
		ids[i] = acme.call(t, 0, "POST", "/api/v1/deployments/1/workbooks", nil).Is(200).ID()
	}
	answers := race(t, racers, "PUT", func(i int) (string, any) { return "/workbooks/" + ids[i], object{"slug": "wanted"} })
	wantOne(t, answers, "wanted")
	takeovers := race(t, racers, "PUT", func(i int) (string, any) {
		return "/workbooks/" + ids[i], object{"slug": "wanted", "slugTakeover": true}
	})
	holders := 0
	for i, a := range takeovers {
		a.Is(200)
		if acme.call(t, i%len(replicas), "GET", "/api/v1/deployments/1/workbooks/"+ids[i], nil).Is(200).At("slug") == "wanted" {
			holders++
		}
	}
	if holders != 1 {
		t.Errorf("%d workbooks have the slug", holders)
	}
}

// TestOneReportHasAPublicID: of concurrent requests with a public id, one creates the report. Upserts by it update that; in another
// deployment they are conflicts.
func TestOneReportHasAPublicID(t *testing.T) {
	const id = "RacedReport1"
	answers := race(t, racers, "PUT", func(i int) (string, any) {
		return "/reports/by-public-id/" + id, object{"name": fmt.Sprint("r", i), "sqlQuery": "SELECT 1"}
	})
	for _, a := range answers {
		if a.Is(200).ID() != answers[0].ID() {
			t.Errorf("the public id has reports %s and %s", a.ID(), answers[0].ID())
		}
	}
	deployments := make([]*apiclient.Answer, racers)
	var group sync.WaitGroup
	for i := range deployments {
		group.Go(func() {
			path := fmt.Sprintf("/api/v1/deployments/%d/reports/by-public-id/RacedReport2", i/2%2+1)
			deployments[i] = acme.call(t, i%len(replicas), "PUT", path, object{"sqlQuery": "SELECT 1"})
		})
	}
	group.Wait()
	first := ""
	for _, a := range deployments {
		switch {
		case a.Status == 409 && strings.Contains(string(a.Body), "another deployment"):
		case first == "" || a.Is(200).ID() == first:
			first = a.Is(200).ID()
		default:
			t.Errorf("the public id has reports %s and %s", a.ID(), first)
		}
	}
}

// wantOne checks that one of several answers is a success, and the others are conflicts that name what is taken.
func wantOne(t *testing.T, answers []*apiclient.Answer, taken string) {
	t.Helper()
	successes := 0
	for _, a := range answers {
		if a.Status == 200 {
			successes++
		} else {
			a.Rejected(409, taken)
		}
	}
	if successes != 1 {
		t.Errorf("%d requests succeed", successes)
	}
}

// TestOnePublicationIsAVersion: concurrent publications of the same content, on two replicas, make one version; those of different
// content have numbers without gaps.
func TestOnePublicationIsAVersion(t *testing.T) {
	wb := acme.call(t, 0, "POST", "/api/v1/deployments/1/workbooks", nil).Is(200)
	path := "/workbooks/" + wb.ID()
	publish := func(title func(i int) string) []*apiclient.Answer {
		return race(t, racers, "POST", func(i int) (string, any) {
			return path + "/publish", object{"workbookId": wb.At("id"), "config": object{"title": title(i)}}
		})
	}
	for _, a := range publish(func(int) string { return "same" }) {
		a.Is(200).Want(map[string]string{"versionNumber": "1"})
	}
	numbers := map[any]bool{}
	for _, a := range publish(func(i int) string { return fmt.Sprint("title ", i) }) {
		numbers[a.Is(200).At("versionNumber")] = true
	}
	for n := 2; n <= racers+1; n++ {
		if !numbers[float64(n)] {
			t.Errorf("no request made version %d: %v", n, numbers)
		}
	}
}
