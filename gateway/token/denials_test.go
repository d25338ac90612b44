package token_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quoin-dev/quoin/gateway/token"
)

// TestStoreWithoutPermission: reads and log messages are rate-limited, whatever callers send;
// cached keys remain valid for a while after the permission is revoked.
func TestStoreWithoutPermission(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	var log bytes.Buffer
	clock, permitted, reads := now, false, 0
	reader := fake.NewClientBuilder().WithObjects(secret("sales-production-credentials", "apiSecret", "one")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			reads++
			if !permitted {
				return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("RBAC"))
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	s := &token.Store{Reader: reader, Now: func() time.Time { return clock }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	value := sign(t, jwt.SigningMethodHS256, []byte("one"), jwt.MapClaims{"exp": now.Add(24 * time.Hour).Unix()}, nil)
	for _, step := range []struct {
		name         string
		later        time.Duration
		permitted    bool
		want         error
		reads, lines int // in total
	}{
		{"first request", 0, false, token.ErrNotAllowed, 1, 1},
		{"second request", 0, false, token.ErrNotAllowed, 1, 1},
		{"permitted, but within the minimum interval", time.Second, true, token.ErrNotAllowed, 1, 1},
		{"after the minimum interval", 2 * time.Second, false, token.ErrNotAllowed, 2, 1},
		{"nine minutes later, not logged again", 9 * time.Minute, false, token.ErrNotAllowed, 3, 1},
		{"ten minutes later, logged again", time.Minute, false, token.ErrNotAllowed, 4, 2},
		{"permitted", 2 * time.Second, true, nil, 6, 2},
		{"revoked, keys still fresh", 29 * time.Second, false, nil, 6, 2},
		{"revoked, read again", time.Second, false, nil, 7, 3},
		{"stale keys are used", 9 * time.Minute, false, nil, 8, 3},
		{"stale keys have expired", time.Minute, false, token.ErrNotAllowed, 9, 4},
	} {
		clock, permitted = clock.Add(step.later), step.permitted
		_, _, err := s.Check(t.Context(), production, value)
		if !errors.Is(err, step.want) || step.want != nil && !errors.Is(err, token.ErrNoKeys) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
		if lines := strings.Count(log.String(), "\n"); reads != step.reads || lines != step.lines {
			t.Errorf("%s: %d reads and %d lines, want %d and %d", step.name, reads, lines, step.reads, step.lines)
		}
	}
	for _, want := range []string{"level=ERROR", "ClusterRole quoin-account", "RoleBinding", "namespace=acme", "secret=sales-production-credentials"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, log.String())
		}
	}
	if text := token.ErrNotAllowed.Error(); strings.Contains(text, "acme") || strings.Contains(text, "quoin") || strings.Contains(text, "RBAC") {
		t.Errorf("error for callers: %q", text)
	}
}
