package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/query"
)

// TestQueriesOfPeople: a query of internal/query reaches a pod with the token of its person, ends there when its caller has
// gone, and has the error that a pod reports after rows.
func TestQueriesOfPeople(t *testing.T) {
	f := newFixture(t, nil)
	f.createDeployment("sales", nil)
	begun, cancelled := make(chan string, 1), make(chan string, 1)
	f.startPod("sales-production", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodDelete:
			cancelled <- strings.TrimPrefix(r.URL.Path, "/cubejs-api/v1/running-query/")
		case strings.Contains(string(body), "SELECT slow"):
			begun <- r.Header.Get("X-Request-Id")
			<-r.Context().Done()
		default:
			claims := jwt.MapClaims{}
			_, _, _ = jwt.NewParser().ParseUnverified(r.Header.Get("Authorization"), claims)
			_, _ = io.WriteString(w, `{"schema":[{"name":"country","column_type":"String"}]}`+"\n"+`{"data":[["`+claims["country"].(string)+`"]]}`+"\n")
			_ = http.NewResponseController(w).Flush()
			if strings.Contains(string(body), "SELECT late") {
				_, _ = io.WriteString(w, `{"error":"connection to the database lost"}`+"\n")
			}
		}
	})
	f.waitForRoute("sales", "/cubejs-api")
	runner := &query.Runner{HTTP: query.NewClient(f.http.Transport)}
	target := func(claims jwt.MapClaims, key string) query.Target {
		return query.Target{URL: f.url("sales", "/cubejs-api"), Identity: claims["country"].(string), Token: func(context.Context) (string, error) {
			return f.sign("sales-production", key, claims), nil
		}}
	}
	run := func(ctx context.Context, sql string, t query.Target) (*query.Result, error) {
		return runner.Run(ctx, query.Query{SQL: sql}, t, query.DefaultLimits)
	}
	for _, country := range []string{"CH", "DE"} {
		got, err := run(t.Context(), "SELECT country FROM customers", target(jwt.MapClaims{"country": country}, engine.KeyAPISecret))
		if err != nil || len(got.Rows) != 1 || got.Rows[0][0] != country {
			t.Errorf("%s: %v, %v", country, got, err)
		}
	}
	_, err := run(t.Context(), "SELECT late FROM customers", target(jwt.MapClaims{"country": "CH"}, engine.KeyAPISecret))
	var failed *query.ServerError
	if !errors.As(err, &failed) || failed.Message != "connection to the database lost" {
		t.Error(err)
	}
	limited := target(jwt.MapClaims{"country": "CH", "quoinPermissions": []string{"DeploymentRead"}}, engine.KeyMetadata)
	if _, err = run(t.Context(), "SELECT country FROM customers", limited); !errors.As(err, &failed) || !failed.Forbidden() || !strings.Contains(failed.Message, "SqlRunnerRead") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if _, err = run(ctx, "SELECT slow FROM customers", target(jwt.MapClaims{"country": "CH"}, engine.KeyAPISecret)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-cancelled:
	case <-time.After(time.Minute):
		t.Error("the query goes on in the pod")
	}
}
