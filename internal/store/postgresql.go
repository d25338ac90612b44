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
	postgresWriters = 8
	// connectTimeout bounds a connection attempt if the URL has no connect_timeout.
	connectTimeout = 5 * time.Second
	// Connections are replaced after these times, so that a new primary is found.
	connectionLifetime = 30 * time.Minute
	connectionIdle     = 5 * time.Minute
)

// waitForDisk makes a commit wait for the disk where the server's default is that it does not.
// Stronger settings, such as remote_apply, stay.
const waitForDisk = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"

func openPostgreSQL(ctx context.Context, url string, log *slog.Logger) (*Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The error may quote part of a password that is not escaped.
		return nil, errors.New("its URL is malformed: postgres://user:password@host:5432/name?sslmode=verify-full, with special characters of the password percent-encoded")
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "quoin"
	}
	newReader := func(parameters map[string]string) *sql.DB {
		return postgresPool(config, postgresReaders, func(ctx context.Context, connection *pgx.Conn) error {
			// Not as start-up parameters, which connection poolers refuse.
			for name, value := range parameters {
				if _, err := connection.Exec(ctx, "SELECT set_config($1, $2, false)", name, value); err != nil {
					return err
				}
			}
			return nil
		})
	}
	write := postgresPool(config, postgresWriters, func(ctx context.Context, connection *pgx.Conn) error {
		_, err := connection.Exec(ctx, waitForDisk)
		return err
	})
	s := &Store{dialect: PostgreSQL, read: newReader(nil), write: write, newReader: newReader, release: func() error { return nil }}
	if err := checkServer(ctx, s.read, log); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func postgresPool(config *pgx.ConnConfig, connections int, prepare func(context.Context, *pgx.Conn) error) *sql.DB {
	pool := sql.OpenDB(lazyConnector{stdlib.GetConnector(*config, stdlib.OptionAfterConnect(prepare))})
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	pool.SetConnMaxLifetime(connectionLifetime)
	pool.SetConnMaxIdleTime(connectionIdle)
	return pool
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
		log.Warn("PostgreSQL runs with fsync=off: a power failure can lose acknowledged changes")
	}
	return nil
}
