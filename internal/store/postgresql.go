package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	postgresReaders = 8
	postgresWriters = 2
	// connectTimeout bounds a connection attempt where the URL has no connect_timeout.
	connectTimeout = 5 * time.Second
	// After these times a connection is made anew, so that another primary is found.
	connectionLifetime = 30 * time.Minute
	connectionIdle     = 5 * time.Minute
)

// Settings of connections.
const (
	// waitForDisk makes a commit wait for the disk where the server's default is that it does not.
	// Stronger settings, such as remote_apply, stay.
	waitForDisk = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
	// planForReading plans a statement for the words and times that it is run with: one plan for all
	// of them reads everything where the index would do. And it reads in the order of an index,
	// where without statistics the planner takes a table for small and sorts all of it for a page.
	planForReading = "SET plan_cache_mode = force_custom_plan; SET enable_sort = off"
)

func openPostgreSQL(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The error may quote what stands between two marks of a password that is not escaped.
		return nil, errors.New("its URL is malformed: postgres://user:password@host:5432/name?sslmode=verify-full, with special characters of the password percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "quoin"
	}
	pool := func(connections int, setting string) *sql.DB {
		pool := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, connection *pgx.Conn) error {
			_, err := connection.Exec(ctx, setting)
			return err
		}))
		pool.SetMaxOpenConns(connections)
		pool.SetMaxIdleConns(connections)
		pool.SetConnMaxLifetime(connectionLifetime)
		pool.SetConnMaxIdleTime(connectionIdle)
		return pool
	}
	s := &Store{dialect: PostgreSQL, read: pool(postgresReaders, planForReading), write: pool(postgresWriters, waitForDisk), release: func() error { return nil }}
	if err := checkServer(ctx, s.read, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func checkServer(ctx context.Context, pool *sql.DB, log *slog.Logger) error {
	var version int
	var encoding, fsync string
	const settings = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), current_setting('fsync')"
	if err := pool.QueryRowContext(ctx, settings).Scan(&version, &encoding, &fsync); err != nil {
		return err
	}
	const least = 130000
	switch {
	case version < least:
		return fmt.Errorf("PostgreSQL %d is too old, %d or newer is needed", version/10000, least/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the encoding of the database is %s, must be UTF8", encoding)
	case fsync == "off":
		log.Warn("PostgreSQL runs with fsync=off: what was acknowledged can be lost in a power failure")
	}
	return nil
}
