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

// TestStoreMayNotRead: the API server is asked seldom and the log told once, whatever callers
// send; keys that were read before the right was taken away serve on for a while.
func TestStoreMayNotRead(t *testing.T) {
	production := types.NamespacedName{Namespace: "acme", Name: "sales-production"}
	var log bytes.Buffer
	clock, allowed, reads := now, false, 0
	reader := fake.NewClientBuilder().WithObjects(secret("sales-production-credentials", "apiSecret", "one")).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			reads++
			if !allowed {
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
		allow        bool
		want         error
		reads, lines int // so far
	}{
		{"the first time", 0, false, token.ErrNotAllowed, 1, 1},
		{"at once again", 0, false, token.ErrNotAllowed, 1, 1},
		{"allowed, too soon to see it", time.Second, true, token.ErrNotAllowed, 1, 1},
		{"a moment later", 2 * time.Second, false, token.ErrNotAllowed, 2, 1},
		{"nine minutes later", 9 * time.Minute, false, token.ErrNotAllowed, 3, 1},
		{"ten minutes after the line", time.Minute, false, token.ErrNotAllowed, 4, 2},
		{"allowed", 2 * time.Second, true, nil, 6, 2},
		{"taken away, not looked at yet", 29 * time.Second, false, nil, 6, 2},
		{"taken away", time.Second, false, nil, 7, 3},
		{"the keys of before", 9 * time.Minute, false, nil, 8, 3},
		{"are too old now", time.Minute, false, token.ErrNotAllowed, 9, 4},
	} {
		clock, allowed = clock.Add(step.later), step.allow
		_, _, err := s.Check(t.Context(), production, value)
		if !errors.Is(err, step.want) || step.want != nil && !errors.Is(err, token.ErrNoKeys) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
		if lines := strings.Count(log.String(), "\n"); reads != step.reads || lines != step.lines {
			t.Errorf("%s: %d reads and %d lines so far, want %d and %d", step.name, reads, lines, step.reads, step.lines)
		}
	}
	for _, want := range []string{"level=ERROR", "ClusterRole quoin-account", "RoleBinding", "namespace=acme", "secret=sales-production-credentials"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("no %q in the log: %s", want, log.String())
		}
	}
	if text := token.ErrNotAllowed.Error(); strings.Contains(text, "acme") || strings.Contains(text, "quoin") || strings.Contains(text, "RBAC") {
		t.Errorf("callers are told %q", text)
	}
}
