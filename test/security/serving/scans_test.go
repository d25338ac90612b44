package serving_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// TestScansLeaveAProcessor: a tenant with a large directory sends filters that no index answers, and lists of large pages,
// as many as its limits allow, so that the server computes without pause. Other tenants rely on short requests, which need
// no place among the scans, and on scans of their own in turns.
func TestScansLeaveAProcessor(t *testing.T) {
	waitsItsTurn(t, http.MethodGet, users(`displayName co "a"`), nil)
}

// TestHugeGroupsLeaveAProcessor: a tenant reads a group with tens of thousands of members again and again, as often as its
// limits allow, so that the server computes without pause. Other tenants rely on short requests, and on large groups of their
// own in turns.
func TestHugeGroupsLeaveAProcessor(t *testing.T) {
	chunk := &v1alpha1.ScimMemberChunk{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "half"}}
	var members []v1alpha1.ScimMember
	for i := range 1000 {
		members = append(members, v1alpha1.ScimMember{Value: fmt.Sprintf("member-%04d", i)})
	}
	chunk.Spec.SetMembers(members)
	group := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "huge"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Huge"}}
	group.Spec.SetChunks([]v1alpha1.ScimMemberChunkReference{{Name: "half", Count: 1000}})
	group.Spec.Members = []v1alpha1.ScimMember{{Value: "one-more"}}
	if err := errors.Join(cluster.Client.Create(t.Context(), chunk), cluster.Client.Create(t.Context(), group)); err != nil {
		t.Fatal(err)
	}
	waitsItsTurn(t, http.MethodGet, "/api/scim/v2/Groups/huge", nil)
}

// TestHugeReplacementsLeaveAProcessor: a tenant replaces a group with tens of thousands of members again and again, so that the
// server decodes and compares without pause.
func TestHugeReplacementsLeaveAProcessor(t *testing.T) {
	group := &v1alpha1.ScimGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "replaced"}, Spec: v1alpha1.ScimGroupSpec{DisplayName: "Replaced"}}
	if err := cluster.Client.Create(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	var members []map[string]string
	for i := range 8000 {
		members = append(members, map[string]string{"value": fmt.Sprintf("member-%06d", i)})
	}
	waitsItsTurn(t, http.MethodPut, "/api/scim/v2/Groups/replaced", map[string]any{
		"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:Group"}, "displayName": "Replaced", "members": members,
	})
}

func users(filter string) string { return "/api/scim/v2/Users?filter=" + url.QueryEscape(filter) }

// waitsItsTurn sends a request of the victim while the attacker holds all places for long work. It checks that the request
// waits for a place, that others are answered meanwhile, and that it gets the next place.
func waitsItsTurn(t *testing.T, method, path string, body any) {
	t.Helper()
	var works []*fairsemaphore.Turn
	for range max(1, runtime.GOMAXPROCS(0)-1) { // those of the attacker in progress
		work, err := fairsemaphore.Processors.Begin(t.Context(), "mallory")
		if err != nil {
			t.Fatal(err)
		}
		defer work.End()
		works = append(works, work)
	}
	done := make(chan int, 1)
	go func() {
		answer, err := apiclient.Request{Method: method, URL: "https://" + victim + path, Authorization: "Bearer " + keys["victim-1"], Body: body, MediaType: "application/json"}.Send(t.Context(), from(t, 9))
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		done <- answer.Status
	}()
	apiclient.Soon(t, func() error {
		if len(done) > 0 || fairsemaphore.Processors.Waiting("victim") > 0 {
			return nil
		}
		return errors.New("the request of the victim neither waits nor has been answered")
	})
	client := from(t, 1)
	for range 20 {
		for _, path := range []string{"/api/v1/deployments", users(`id eq "7"`)} {
			if a := get(t, client, other, path, keys["other-1"]); a.Status != http.StatusOK {
				t.Fatalf("%s: %d %s", path, a.Status, a.Body)
			}
		}
	}
	select {
	case status := <-done:
		t.Fatalf("%s has been answered with %d while all places are taken", strings.SplitN(path, "?", 2)[0], status)
	default:
	}
	for end := false; !end; { // steps, after each of which the victim has its turn
		for _, work := range works {
			if err := work.Yield(); err != nil {
				t.Error(err)
			}
		}
		select {
		case status := <-done:
			if status != http.StatusOK {
				t.Errorf("the request of the victim: %d", status)
			}
			end = true
		default:
		}
	}
}
