package postgrestest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/quoin-dev/quoin/internal/store/postgrestest"
)

func count(t *testing.T, url string) (n int) {
	t.Helper()
	pool, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	if _, err := pool.ExecContext(context.Background(), "CREATE TABLE IF NOT EXISTS x (y INTEGER)"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.ExecContext(context.Background(), "INSERT INTO x VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM x").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDatabasesAreSeparateAndSurviveACrash(t *testing.T) {
	server := postgrestest.StartServer(t)
	one, two := server.Database(t), server.Database(t)
	if n := count(t, one); n != 1 {
		t.Fatalf("the first database has %d rows, want 1", n)
	}
	server.Kill(t)
	server.Restart(t)
	if n := count(t, one); n != 2 {
		t.Errorf("after a crash the first database has %d rows, want 2", n)
	}
	if n := count(t, two); n != 1 {
		t.Errorf("the second database has %d rows, want 1", n)
	}
}
