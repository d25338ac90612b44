package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testIdentify checks that the event of a creation gets the ids of its object once, is found by them, and that other events do not change.
func testIdentify(t *testing.T, w *world) {
	l := w.log(t, Options{})
	created := at(1, func(e *Event) {
		e.Name, e.Object, e.Deployment = CreatedDeployment, Object{Kind: "Deployment", Namespace: "demo", Name: "sales"}, Deployment{Name: "Sales"}
		e.Changes = []byte(`{"spec.size":{"after":"Large"}}`)
	})
	other := at(2, func(e *Event) { e.Object = Object{Kind: "Deployment", Name: "other", ID: "8"} })
	record(t, l, created, other)
	object, deployment := created.Object, Deployment{ID: "4711", Name: "Sales EU"}
	object.ID = "4711"
	for _, e := range []Event{created, other, at(3)} {
		for _, account := range []string{"globex", "demo"} {
			if err := l.Identify(t.Context(), account, e.ID, object, deployment); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Identify(t.Context(), "demo", created.ID, Object{ID: "9"}, Deployment{ID: "9"}); err != nil {
		t.Fatal(err)
	}
	created.Object, created.Deployment = object, deployment
	if diff := cmp.Diff([]Event{created, other}, find(t, l, Filter{})); diff != "" {
		t.Error(diff)
	}
	for _, f := range []Filter{{Search: "4711"}, {DeploymentIDs: []string{"4711"}}, {Search: "eu large"}} {
		if diff := cmp.Diff([]Event{created}, find(t, l, f)); diff != "" {
			t.Errorf("%+v: %s", f, diff)
		}
	}
}
