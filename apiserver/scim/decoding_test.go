package scim

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// holdProcessors holds all places for long work until release is called.
func holdProcessors(t *testing.T) (release func()) {
	t.Helper()
	var held []*fairsemaphore.Turn
	for range max(1, runtime.GOMAXPROCS(0)-1) {
		turn, err := fairsemaphore.Processors.Begin(t.Context(), "another account")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, turn)
	}
	release = func() {
		for _, turn := range held {
			turn.End()
		}
	}
	t.Cleanup(release)
	return release
}

// takesTurn checks that work of an account waits while others have all places, and ends when there is one.
func takesTurn(t *testing.T, account string, work func() error) {
	t.Helper()
	release := holdProcessors(t)
	done := make(chan error, 1)
	go func() { done <- work() }()
	for deadline := time.Now().Add(20 * time.Second); fairsemaphore.Processors.Waiting(account) == 0; time.Sleep(time.Millisecond) {
		if len(done) > 0 || time.Now().After(deadline) {
			t.Fatal("the work does not wait for a place")
		}
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// generated returns the body of a group with members, compressed or not.
func generated(t *testing.T, members int, compressed bool) io.Reader {
	t.Helper()
	g := &generatedGroup{members: members}
	if !compressed {
		return g
	}
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	if _, err := io.Copy(w, g); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &body
}

// TestLongBodiesTakeTurns: the decoding of a long body, compressed or not, takes turns with the work of other accounts. A short
// body needs no place.
func TestLongBodiesTakeTurns(t *testing.T) {
	for account, compressed := range map[string]bool{"plain": false, "compressed": true} {
		t.Run(account, func(t *testing.T) {
			header := []string{}
			if compressed {
				header = []string{"Content-Encoding", "gzip"}
			}
			long := exchangeWith(generated(t, 1000, compressed), header...)
			long.tenant.Name = account
			takesTurn(t, account, func() error { _, err := long.body(); return err })
			holdProcessors(t)
			short := exchangeWith(generated(t, 100, compressed), header...)
			if _, err := short.body(); err != nil || !long.long || short.long {
				t.Errorf("%v; long: %t and %t", err, long.long, short.long)
			}
		})
	}
}

// TestLongBodyOfAnEndedRequest: a request that ends while it waits for its turn has no answer of the client's fault.
func TestLongBodyOfAnEndedRequest(t *testing.T) {
	holdProcessors(t)
	x := exchangeWith(generated(t, 1000, false))
	ctx, cancel := context.WithCancel(t.Context())
	x.Request = x.WithContext(ctx)
	x.SetPathValue("type", "Groups")
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := x.body(); toError(t.Context(), err).Status != 503 {
		t.Errorf("got %v", err)
	}
}

// changing is a store with one group.
type changing struct{ Store }

// ReplaceResource implements Store.
func (changing) ReplaceResource(_ context.Context, t *schema.ResourceType, _ string, replace func(*schema.Resource) (schema.Document, error)) (*schema.Resource, error) {
	r := &schema.Resource{Type: t, Document: schema.Document{"displayName": "g"}}
	var err error
	r.Document, err = replace(r)
	return r, err
}

// TestLongChangesTakeTurns: the comparison of a long body with the members of a group takes turns, and so does a long PATCH.
func TestLongChangesTakeTurns(t *testing.T) {
	o := operations{store: changing{}, long: true}
	for account, change := range map[string]func(o operations) (*schema.Resource, error){
		"replaces": func(o operations) (*schema.Resource, error) {
			return o.replaceResource(t.Context(), schema.Group, "g", map[string]any{"displayName": "changed"}, condition{})
		},
		"patches": func(o operations) (*schema.Resource, error) {
			return o.patchResource(t.Context(), schema.Group, "g", map[string]any{
				"schemas":    []any{"urn:ietf:params:scim:api:messages:2.0:PatchOp"},
				"Operations": []any{map[string]any{"op": "replace", "path": "displayName", "value": "changed"}},
			}, condition{})
		},
	} {
		o.account = account
		takesTurn(t, account, func() error {
			r, err := change(o)
			if err == nil && r.Document["displayName"] != "changed" {
				t.Errorf("%s: %v", account, r.Document)
			}
			return err
		})
	}
}
