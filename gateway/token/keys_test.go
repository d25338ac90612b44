package token_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/gateway/token"
)

// TestStoreWhileReadsHang: one request waits for a short time, then keys that were read before are used without waiting, and
// keys that arrive late are used from then on.
func TestStoreWhileReadsHang(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	var hang chan struct{} // nil: reads do not hang
	var reads atomic.Int64
	r := fake.NewClientBuilder().WithObjects(secret("sales-production-credentials", "apiSecret", "one")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if reads.Add(1); hang != nil {
				<-hang
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	clock := now
	s := &token.Store{Reader: r, Now: func() time.Time { return clock }}
	check := func(key string, want error) {
		t.Helper()
		value := sign(t, jwt.SigningMethodHS256, []byte(key), jwt.MapClaims{"exp": now.Add(24 * time.Hour).Unix()}, nil)
		if _, _, err := s.Check(t.Context(), production, value); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	check("one", nil)

	hang = make(chan struct{})
	clock = clock.Add(31 * time.Second)
	check("one", nil) // waits
	before := reads.Load()
	began := time.Now()
	for range 1000 {
		check("one", nil)
	}
	check("two", token.ErrInvalid)
	clock = clock.Add(4 * time.Second)
	check("one", nil)
	// If each of them waited, it would be minutes.
	if took := time.Since(began); took > time.Minute || reads.Load() != before {
		t.Errorf("%d more reads in %s", reads.Load()-before, took)
	}

	if err := r.Update(t.Context(), secret("sales-production-credentials", "apiSecret", "two")); err != nil {
		t.Fatal(err)
	}
	close(hang) // the API server answers; the read that hung goes on
	clock = clock.Add(2 * time.Second)
	check("two", nil)
	clock = clock.Add(3 * time.Second)
	check("one", token.ErrInvalid)
}
