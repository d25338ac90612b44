// Package warehouse runs a PostgreSQL server with the data of the samples.
package warehouse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/node"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// DaemonName is the name of the server among the daemons of a cluster.
const DaemonName = "warehouse"

// The warehouse is a PostgreSQL server on the node's address, which pods can
// reach. The samples contain the same user and password.
const (
	warehouseDatabase = "shop"
	warehouseUser     = "analytics"
	warehousePassword = "sample"
)

// warehouseAccess allows one user to connect to one database with a password,
// from any address: the port is open only on the node's bridge.
const warehouseAccess = "host " + warehouseDatabase + " " + warehouseUser + " all scram-sha-256\n"

// The content of the warehouse: the table of the data models, and the sources of
// the dbt project in hack/dbt/example. In single-user mode each line is a
// statement.
const (
	warehouseRoles = "CREATE ROLE " + warehouseUser + " LOGIN PASSWORD '" + warehousePassword + "'\n" +
		"CREATE DATABASE " + warehouseDatabase + " OWNER " + warehouseUser + "\n"
	warehouseTables = "CREATE TABLE orders AS SELECT id, (ARRAY['completed', 'processing', 'shipped'])[1 + id % 3] AS status, " +
		"(id * 37 % 500 + 0.99)::numeric(10, 2) AS amount, timestamptz '2026-01-01 00:00:00Z' + id * interval '7 hours' AS created_at " +
		"FROM generate_series(1, 300) AS id\n" +
		"ALTER TABLE orders ADD PRIMARY KEY (id)\n" +
		"ALTER TABLE orders OWNER TO " + warehouseUser + "\n" +
		"CREATE SCHEMA raw AUTHORIZATION " + warehouseUser + "\n" +
		"CREATE TABLE raw.customers AS SELECT id, 'Customer ' || id AS name, (ARRAY['CH', 'DE', 'FR'])[1 + id % 3] AS country, " +
		"timestamptz '2026-01-01 00:00:00Z' + id * interval '3 hours' AS created_at FROM generate_series(1, 50) AS id\n" +
		"CREATE TABLE raw.orders AS SELECT id, 1 + id * 7 % 40 AS customer_id, (ARRAY['placed', 'shipped', 'returned'])[1 + id % 3] AS status, " +
		"timestamptz '2026-02-01 00:00:00Z' + id * interval '5 hours' AS ordered_at FROM generate_series(1, 200) AS id\n" +
		"CREATE TABLE raw.payments AS SELECT id, 1 + id % 200 AS order_id, (ARRAY['card', 'cash', 'voucher'])[1 + id % 3] AS method, " +
		"id * 61 % 9000 + 99 AS amount_cents FROM generate_series(1, 300) AS id\n" +
		"ALTER TABLE raw.customers OWNER TO " + warehouseUser + "\n" +
		"ALTER TABLE raw.orders OWNER TO " + warehouseUser + "\n" +
		"ALTER TABLE raw.payments OWNER TO " + warehouseUser + "\n"
)

// warehouse has the folder and the user of a cluster's PostgreSQL server.
type warehouse struct {
	folder     string // below one that the user may enter
	credential *syscall.Credential
}

func (w warehouse) data() string { return filepath.Join(w.folder, "data") }

// postgresUser returns the user of Debian's package or an unprivileged user:
// PostgreSQL refuses to run as root.
func postgresUser() (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// Start starts the warehouse unless it runs, and creates its data the first
// time.
func Start(ctx context.Context, c *cluster.Cluster, install bool) error {
	if c.Daemons().Running(DaemonName) {
		return nil
	}
	if err := host.EnsurePackages(ctx, host.WarehousePackages, install); err != nil {
		return err
	}
	return StartIn(ctx, c, filepath.Join(node.NewNetwork(c.Dir).StateDirectory(), DaemonName))
}

// StartIn is Start with the data in another folder, below one that the user of
// PostgreSQL may enter.
func StartIn(ctx context.Context, c *cluster.Cluster, folder string) error {
	credential, err := postgresUser()
	if err != nil {
		return err
	}
	return run(ctx, c, warehouse{folder, credential})
}

// run starts the warehouse and sets its variables in <dir>/env.
func run(ctx context.Context, c *cluster.Cluster, w warehouse) error {
	if !host.IsFolder(w.data()) {
		if err := progress.Step("warehouse data", func() error { return w.create(ctx) }); err != nil {
			return err
		}
	}
	port := strconv.Itoa(c.Ports[cluster.PortWarehouse])
	err := c.StartAll(ctx, []cluster.Component{{
		Daemon: process.Daemon{
			Name: DaemonName, Path: host.FindProgram("postgres"), Folder: w.folder, Credential: w.credential,
			Stop: syscall.SIGINT, // closes its sessions; TERM would wait for them
			Args: []string{
				"-D", w.data(), "-c", "listen_addresses=" + c.Address, "-c", "port=" + port,
				"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200",
			},
		},
		Port:    cluster.PortWarehouse,
		Address: c.Address,
		Timeout: 30 * time.Second,
		Ready: func(ctx context.Context) error {
			return host.Run(ctx, "pg_isready", "--host", c.Address, "--port", port)
		},
	}})
	if err != nil {
		return err
	}
	return c.SetEnvironment(
		cluster.Variable{Name: "QUOIN_WAREHOUSE_HOST", Value: c.Address},
		cluster.Variable{Name: "QUOIN_WAREHOUSE_PORT", Value: port},
		cluster.Variable{Name: "QUOIN_WAREHOUSE_DATABASE", Value: warehouseDatabase},
		cluster.Variable{Name: "QUOIN_WAREHOUSE_USER", Value: warehouseUser},
		cluster.Variable{Name: "QUOIN_WAREHOUSE_PASSWORD", Value: warehousePassword},
	)
}

// create creates the data. It renames the complete folder to its final name.
func (w warehouse) create(ctx context.Context) error {
	partial := w.data() + ".partial"
	err := errors.Join(os.RemoveAll(partial), os.MkdirAll(w.folder, 0o700), os.Chown(w.folder, int(w.credential.Uid), int(w.credential.Gid)))
	if err != nil {
		return err
	}
	err = w.run(ctx, "", "initdb", "-D", partial, "--no-sync", "--encoding=UTF8", "--locale=C", "--username=postgres", "--auth=reject")
	if err != nil {
		return err
	}
	for _, script := range []struct{ database, text string }{{"postgres", warehouseRoles}, {warehouseDatabase, warehouseTables}} {
		err := w.run(ctx, script.text, "postgres", "--single", "-D", partial, "-c", "exit_on_error=on", "-c", "fsync=off", script.database)
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(partial, "pg_hba.conf"), []byte(warehouseAccess), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, w.data())
}

// run runs a program of PostgreSQL as its user.
func (w warehouse) run(ctx context.Context, stdin, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, host.FindProgram(program), args...)
	cmd.Dir = w.folder
	cmd.Env = append(process.CleanEnvironment(os.Environ()), "LC_ALL=C")
	cmd.Stdin = bytes.NewBufferString(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.credential}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, process.LastLines(string(output), 10))
	}
	return nil
}
