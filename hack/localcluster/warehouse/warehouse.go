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

// The warehouse is a PostgreSQL on the node's address, where pods reach it.
// The samples have the user and the password too.
const (
	daemonName        = "warehouse"
	warehouseDatabase = "shop"
	warehouseUser     = "analytics"
	warehousePassword = "sample"
)

// warehouseAccess lets one user into one database, by password and from
// anywhere: the port is only open on the node's bridge.
const warehouseAccess = "host " + warehouseDatabase + " " + warehouseUser + " all scram-sha-256\n"

// What is in the warehouse. In single-user mode a line is a statement.
const (
	warehouseRoles = "CREATE ROLE " + warehouseUser + " LOGIN PASSWORD '" + warehousePassword + "'\n" +
		"CREATE DATABASE " + warehouseDatabase + " OWNER " + warehouseUser + "\n"
	warehouseTables = "CREATE TABLE orders AS SELECT id, (ARRAY['completed', 'processing', 'shipped'])[1 + id % 3] AS status, " +
		"(id * 37 % 500 + 0.99)::numeric(10, 2) AS amount, timestamptz '2026-01-01 00:00:00Z' + id * interval '7 hours' AS created_at " +
		"FROM generate_series(1, 300) AS id\n" +
		"ALTER TABLE orders ADD PRIMARY KEY (id)\n" +
		"ALTER TABLE orders OWNER TO " + warehouseUser + "\n"
)

// warehouse is where the PostgreSQL of a cluster runs and as whom.
type warehouse struct {
	folder     string // below the node's: the user that it runs as may enter that
	credential *syscall.Credential
}

func newWarehouse(c *cluster.Cluster) (warehouse, error) {
	credential, err := postgresUser()
	return warehouse{filepath.Join(node.NewNetwork(c.Dir).StateDirectory(), daemonName), credential}, err
}

func (w warehouse) data() string { return filepath.Join(w.folder, "data") }

// postgresUser is the user that Debian's package makes, otherwise nobody:
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

// Start starts the warehouse unless it runs, and fills it the first time.
func Start(ctx context.Context, c *cluster.Cluster, install bool) error {
	if c.Daemons().Running(daemonName) {
		return nil
	}
	if err := host.EnsurePackages(ctx, host.WarehousePackages, install); err != nil {
		return err
	}
	w, err := newWarehouse(c)
	if err != nil {
		return err
	}
	return run(ctx, c, w)
}

// run starts the warehouse and writes into <dir>/env where it is.
func run(ctx context.Context, c *cluster.Cluster, w warehouse) error {
	if !host.IsFolder(w.data()) {
		if err := progress.Step("warehouse data", func() error { return w.create(ctx) }); err != nil {
			return err
		}
	}
	port := strconv.Itoa(c.Ports[cluster.PortWarehouse])
	err := c.StartAll(ctx, []cluster.Component{{
		Daemon: process.Daemon{
			Name: daemonName, Path: host.FindProgram("postgres"), Folder: w.folder, Credential: w.credential,
			Stop: syscall.SIGINT, // ends its sessions; TERM would wait for them
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

// create makes the data. It takes the name by which it is found when it is whole.
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
