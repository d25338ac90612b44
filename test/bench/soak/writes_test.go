package soak_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// writer creates objects over HTTP, one after the other, and remembers the names of those that were acknowledged.
type writer struct {
	what, path, event string
	token, mediaType  string
	body              func(name string) map[string]any
	mu                sync.Mutex
	acknowledged      []string
	failed            []string
}

// writers returns a writer to the content store and one to Kubernetes.
func (w *world) writers(deployment string) []*writer {
	return []*writer{
		{
			what: "folder", path: "/api/v1/deployments/" + deployment + "/folders", event: "Created folder",
			token: w.env["QUOIN_API_KEY"], mediaType: "application/json",
			body: func(name string) map[string]any { return map[string]any{"name": name} },
		},
		{
			what: "user", path: "/api/scim/v2/Users", event: "Created user via SCIM",
			token: w.env["QUOIN_SCIM_TOKEN"], mediaType: "application/scim+json",
			body: func(name string) map[string]any {
				return map[string]any{"schemas": []string{"urn:ietf:params:scim:schemas:core:2.0:User"}, "userName": name}
			},
		},
	}
}

// run writes until the context ends.
func (r *writer) run(ctx context.Context, w *world) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("%s-%d-soak", r.what, i)
		status, _ := w.call(http.MethodPost, r.path, r.token, r.mediaType, r.body(name))
		r.mu.Lock()
		if status/100 == 2 {
			r.acknowledged = append(r.acknowledged, name)
		} else {
			r.failed = append(r.failed, name)
		}
		r.mu.Unlock()
		time.Sleep(200 * time.Millisecond)
	}
}

// counts returns the numbers of acknowledged and failed writes.
func (r *writer) counts() (acknowledged, failed int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acknowledged), len(r.failed)
}

// findings are the names of objects whose number is wrong, or that of their events.
type findings struct{ lost, doubled, eventsLost, eventsDoubled []string }

func (f findings) none() bool {
	return len(f.lost)+len(f.doubled)+len(f.eventsLost)+len(f.eventsDoubled) == 0
}

// compare compares what was acknowledged with what exists. A write that was not acknowledged may have happened, but once.
func (w *world) compare(r *writer) findings {
	w.Helper()
	var stored, events map[string]int
	w.eventually(time.Minute, "lists of "+r.what+"s and their events", func() (err error) {
		if stored, err = r.stored(w); err == nil {
			events, err = r.events(w)
		}
		return err
	})
	return r.judge(stored, events)
}

// judge compares the numbers of objects and events by name with what was acknowledged.
func (r *writer) judge(stored, events map[string]int) findings {
	var f findings
	for _, name := range r.acknowledged {
		if stored[name] == 0 {
			f.lost = append(f.lost, name)
		}
		if events[name] == 0 {
			f.eventsLost = append(f.eventsLost, name)
		}
	}
	for _, name := range slices.Concat(r.acknowledged, r.failed) {
		if stored[name] > 1 {
			f.doubled = append(f.doubled, name)
		}
		if events[name] > 1 {
			f.eventsDoubled = append(f.eventsDoubled, name)
		}
	}
	return f
}

// written finds the names of the objects of writers in a text.
var written = regexp.MustCompile(`(folder|user)-\d+-soak`)

// events counts the events of the audit log by name of the object.
func (r *writer) events(w *world) (map[string]int, error) {
	path := "/api/v1/audit-logs/export?eventName=" + url.QueryEscape(r.event)
	status, text := w.call(http.MethodGet, path, w.env["QUOIN_API_KEY"], "application/json", nil)
	if status != http.StatusOK {
		return nil, fmt.Errorf("events: status %d: %s", status, text)
	}
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	events := map[string]int{}
	for _, record := range records {
		// An event may have the name in several fields.
		events[written.FindString(strings.Join(record, " "))]++
	}
	return events, nil
}

// stored counts the objects by name.
func (r *writer) stored(w *world) (map[string]int, error) {
	names := map[string]int{}
	if r.what == "user" {
		list := &v1alpha1.ScimUserList{}
		if err := w.kube.List(context.Background(), list, client.InNamespace(account)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			names[list.Items[i].Spec.UserName]++
		}
		return names, nil
	}
	for after := ""; ; {
		status, text := w.call(http.MethodGet, r.path+"?first=100&after="+url.QueryEscape(after), r.token, r.mediaType, nil)
		var page struct {
			Items    []struct{ Name string }
			PageInfo struct {
				HasNextPage bool
				EndCursor   string
			}
		}
		if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
			return nil, fmt.Errorf("list: status %d: %s", status, text)
		}
		for _, item := range page.Items {
			names[item.Name]++
		}
		if after = page.PageInfo.EndCursor; !page.PageInfo.HasNextPage {
			return names, nil
		}
	}
}
