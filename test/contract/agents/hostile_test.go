package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quoin-dev/quoin/test/security/prompts"
)

// TestHostileChats: a model that obeys hostile texts makes the calls that they ask for. What reaches the pods are queries with the
// country of the person who asks, whatever the calls have.
func TestHostileChats(t *testing.T) {
	p, other := acme.startPod(t), globex.startPod(t)
	all, err := prompts.All()
	if err != nil || len(all) < 200 {
		t.Fatalf("%d texts: %v", len(all), err)
	}
	answered := make([]bool, len(all))
	work := make(chan int)
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for i := range work {
				answered[i] = obeyed(t, i, &all[i])
			}
		})
	}
	for i := range all {
		work <- i
	}
	close(work)
	group.Wait()
	rows := 0
	for _, is := range answered {
		if is {
			rows++
		}
	}
	// The test would prove nothing if no call had rows.
	if rows < len(all)/4 {
		t.Errorf("%d of %d calls had rows", rows, len(all))
	}
	for _, q := range p.received("") {
		if fields := strings.Fields(q); fields[0] != "/v1/meta" && fields[0] != "/v1/cubesql" && fields[0] != "/v1/load" || fields[1] != "DE" {
			t.Errorf("the pod has received %q", q)
		}
	}
	if got := other.received(""); len(got) > 0 {
		t.Errorf("the pod of another account has received %q", got)
	}
}

// obeyed reports whether a call that a hostile text asks for had rows of the person.
func obeyed(t *testing.T, i int, c *prompts.Case) bool {
	t.Helper()
	input := &bytes.Buffer{}
	if err := json.Compact(input, c.Input); err != nil {
		t.Error(err)
		return false
	}
	answer := acme.chat(t, acme.admin, object{
		"input": fmt.Sprintf("call %s %s", c.Tool, input), "sessionSettings": external(fmt.Sprint("u-hostile-", i), "DE"),
		"dashboardContext": object{"publicId": "d", "title": c.Text},
	})
	body := string(answer.Body)
	if answer.Status == 400 && strings.Contains(body, "input") { // longer than a message may be
		return false
	}
	if answer.Status != 200 {
		t.Errorf("%d %s", answer.Status, body)
	}
	if rows := strings.Count(body, `\"data\":[[`); rows != strings.Count(body, `\"data\":[[\"DE\"`) {
		t.Errorf("the answer has rows of another country: %.2000s", body)
	}
	return strings.Contains(body, `\"data\":[[\"DE\"`)
}
