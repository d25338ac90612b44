package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

// remaining is a cluster with the account a1 with the deployment d1.
type remaining struct{}

func (remaining) AccountExists(_ context.Context, a store.Account) (bool, error) {
	return a.UID == "a1", nil
}

func (remaining) DeploymentExists(_ context.Context, d store.Deployment) (bool, error) {
	return d.UID == "d1", nil
}

// TestPurgeIsComplete fills all tables of content with rows of a deployment, of a deleted one, and of a deleted account. What is
// left after a purge is what the deployment has.
func TestPurgeIsComplete(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		s := contenttest.Open(t, newDatabase(t), owners...)
		scopes := []struct{ account, deployment string }{{"a1", "d1"}, {"a1", "d2"}, {"a2", "d3"}}
		for _, scope := range scopes {
			contenttest.Exec(t, s, "INSERT INTO account (uid, name, first_seen, last_seen) VALUES ($1, $1, 0, 0) ON CONFLICT (uid) DO NOTHING", scope.account)
			contenttest.Exec(t, s, "INSERT INTO deployment (uid, account_uid, namespace, name, first_seen, last_seen) VALUES ($1, $2, 'x', $1, 0, 0)", scope.deployment, scope.account)
		}
		want := map[string]int{}
		for _, owner := range owners {
			if owner.Name == audit.Owner.Name { // events belong to the name of an account
				continue
			}
			for _, table := range owner.Tables {
				columns := columnsOf(t, s, table)
				for i, scope := range scopes {
					insertInto(t, s, table, columns, scope.account, scope.deployment, i+1)
				}
				want[table] = 1
				if !slices.ContainsFunc(columns, func(c column) bool { return c.name == "deployment_uid" }) {
					want[table] = 2
				}
			}
		}
		purger := &store.Purger{Store: s, Cluster: remaining{}, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}
		if err := purger.Scan(t.Context()); err != nil {
			t.Error(err)
		}
		for table, n := range want {
			if got := contenttest.Count(t, s, table); got != n {
				t.Errorf("table %s has %d rows, want %d", table, got, n)
			}
		}
		for _, table := range []string{"account", "deployment"} {
			if got := contenttest.Count(t, s, table); got != 1 {
				t.Errorf("table %s has %d rows, want 1", table, got)
			}
		}
	})
}

// column is a column of a table.
type column struct{ name, kind string }

func columnsOf(t *testing.T, s *store.Store, table string) (columns []column) {
	t.Helper()
	rows, err := s.Reader().QueryContext(t.Context(), "SELECT * FROM "+table+" LIMIT 0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	types, err := rows.ColumnTypes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range types {
		columns = append(columns, column{c.Name(), c.DatabaseTypeName()})
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return columns
}

// insertInto inserts a row of a deployment. Its other values are those of all its rows, so rows that refer to each other do.
func insertInto(t *testing.T, s *store.Store, table string, columns []column, account, deployment string, n int) {
	t.Helper()
	names, parameters, values := []string{}, []string{}, []any{}
	for i, c := range columns {
		var value any
		switch {
		case c.name == "account_uid":
			value = account
		case c.name == "deployment_uid":
			value = deployment
		case strings.Contains(c.kind, "INT"):
			value = n
		case strings.Contains(c.kind, "BOOL"):
			value = true
		case c.kind == "BLOB" || c.kind == "BYTEA":
			value = fmt.Append(nil, n)
		default:
			value = fmt.Sprint(n)
		}
		names, parameters, values = append(names, c.name), append(parameters, fmt.Sprintf("$%d", i+1)), append(values, value)
	}
	contenttest.Exec(t, s, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(parameters, ", ")+")", values...)
}
