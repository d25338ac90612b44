package token

import (
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func scope(account, deployment string) content.Scope {
	return content.Scope{Account: store.Account{UID: account, Name: "demo"}, Deployment: store.Deployment{UID: deployment, Namespace: "demo", Name: "sales"}}
}

func issued(environment, by string, expires time.Duration) Token {
	return Token{EnvironmentUID: environment, MetadataOnly: true, CreatedAt: now, CreatedBy: by, ExpiresAt: now.Add(expires)}
}

func TestDatabases(t *testing.T) {
	storetest.ForEach(t, func(t *testing.T, newDatabase func(testing.TB) string) {
		open := func(t *testing.T) *store.Store {
			t.Helper()
			s := contenttest.Open(t, newDatabase(t), Owner)
			return s
		}
		t.Run("a caller lists its own tokens of the environment until they expire", func(t *testing.T) { testList(t, open(t)) })
		t.Run("expired tokens and those of deleted deployments are purged", func(t *testing.T) { testPurge(t, open(t)) })
		t.Run("the tokens of an environment are bounded", func(t *testing.T) { testBound(t, open(t)) })
	})
}

func add(t *testing.T, s *store.Store, in content.Scope, added Token) int64 {
	t.Helper()
	id, err := (&Tokens{DB: s}).Add(t.Context(), in, added)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func list(t *testing.T, s *store.Store, in content.Scope, environment, by string, at time.Time) []Token {
	t.Helper()
	all, err := (&Tokens{DB: s}).List(t.Context(), in, environment, by, at)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testList(t *testing.T, s *store.Store) {
	mine := scope("a1", "d1")
	first := add(t, s, mine, issued("e1", "ApiKey:k1", time.Hour))
	data := issued("e1", "ApiKey:k1", 2*time.Hour)
	data.MetadataOnly = false
	second := add(t, s, mine, data)
	add(t, s, mine, issued("e1", "ApiKey:k2", time.Hour))
	add(t, s, mine, issued("e2", "ApiKey:k1", time.Hour))
	add(t, s, scope("a2", "d2"), issued("e1", "ApiKey:k1", time.Hour))
	all := list(t, s, mine, "e1", "ApiKey:k1", now)
	if len(all) != 2 || all[0].ID != first || all[1].ID != second || !all[0].MetadataOnly || all[1].MetadataOnly ||
		!all[0].CreatedAt.Equal(now) || !all[0].ExpiresAt.Equal(now.Add(time.Hour)) {
		t.Errorf("%+v", all)
	}
	if later := list(t, s, mine, "e1", "ApiKey:k1", now.Add(time.Hour)); len(later) != 1 || later[0].ID != second {
		t.Errorf("after the first has expired: %+v", later)
	}
}

func testPurge(t *testing.T, s *store.Store) {
	mine := scope("a1", "d1")
	for range expireBatch + 1 {
		add(t, s, mine, issued("e1", "ApiKey:k1", time.Minute))
	}
	kept := add(t, s, mine, issued("e1", "ApiKey:k1", time.Hour))
	if err := Expire(t.Context(), s, now.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if all := list(t, s, mine, "e1", "ApiKey:k1", now); len(all) != 1 || all[0].ID != kept {
		t.Errorf("%d tokens are left", len(all))
	}
	err := s.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := Owner.Purge(t.Context(), tx, store.Deleted{AccountUID: "a1", DeploymentUID: "d1"}, 10)
		return err
	})
	if all := list(t, s, mine, "e1", "ApiKey:k1", now); err != nil || len(all) != 0 {
		t.Errorf("%v: %d tokens are left", err, len(all))
	}
}

func testBound(t *testing.T, s *store.Store) {
	mine := scope("a1", "d1")
	first := add(t, s, mine, issued("e1", "ApiKey:k1", time.Hour))
	other := add(t, s, mine, issued("e2", "ApiKey:k1", time.Hour))
	err := s.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
			INSERT INTO issued_token SELECT 'a1', 'd1', 1000 + i, 'e1', 1, 0, 'ApiKey:k1', $2 FROM n`, MaxPerEnvironment-1, now.Add(time.Hour).UnixMicro())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	count := func(id int64) (total, found int) {
		err := s.Read(t.Context(), func(q store.Querier) error {
			return q.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(CASE WHEN id = $1 THEN 1 END) FROM issued_token", id).Scan(&total, &found)
		})
		if err != nil {
			t.Fatal(err)
		}
		return total, found
	}
	if total, found := count(first); total != MaxPerEnvironment+1 || found != 1 {
		t.Fatalf("%d tokens", total)
	}
	err = s.Tx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE account_sequence SET last = 20000 WHERE account_uid = 'a1'")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, mine, issued("e1", "ApiKey:k1", time.Hour))
	if total, found := count(first); total != MaxPerEnvironment+1 || found != 0 {
		t.Errorf("%d tokens; the oldest is one of them: %t", total, found == 1)
	}
	if _, found := count(other); found != 1 {
		t.Error("a token of another environment was deleted")
	}
	if all := list(t, s, mine, "e1", "ApiKey:k1", now); len(all) != MaxListed {
		t.Errorf("lists %d", len(all))
	}
}
