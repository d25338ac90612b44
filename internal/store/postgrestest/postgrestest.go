// Package postgrestest starts PostgreSQL servers for tests, on a Unix socket in a directory of their
// own. It looks for the programs in $PATH and in the directories of Debian's package postgresql.
// Without them a test is skipped, or fails if CI is set.
package postgrestest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Start returns the URL of an empty database, on a server that is stopped at the end of the test.
func Start(t testing.TB) string {
	t.Helper()
	return StartServer(t).Database(t)
}

// Server is a PostgreSQL server.
type Server struct {
	programs  string // folder
	folder    string // of the data and the socket
	account   *syscall.Credential
	settings  []string
	process   *os.Process
	exited    chan struct{} // closed when it has ended
	databases atomic.Int64
}

const (
	superuser = "quoin"
	// startTimeout is for a busy machine.
	startTimeout = 2 * time.Minute
)

// StartServer starts a server that is stopped at the end of the test. A test can kill it: what it has written is still there,
// because the kernel has it. It waits for the disk only in a benchmark.
func StartServer(t testing.TB) *Server {
	t.Helper()
	start := NewInMemory
	if _, isBenchmark := t.(*testing.B); isBenchmark {
		start = New
	}
	s, err := start()
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CI") == "" {
		t.Skip("SKIPPED LOUDLY: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// ErrNotInstalled is returned if PostgreSQL is not installed.
var ErrNotInstalled = errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")

// New starts a server outside of a test, which waits for the disk. The caller must call Stop.
func New() (*Server, error) { return newServer(os.TempDir()) }

// NewInMemory is like New, and the data is in memory if there is enough: creating a database takes 30 ms instead of 250.
func NewInMemory() (*Server, error) { return newServer(memory(), "fsync=off") }

const (
	// sharedMemory is where Linux has files in memory, and enoughMemory what has to be free there in bytes.
	sharedMemory = "/dev/shm"
	enoughMemory = 4 << 30
	// folderPrefix and the id of the process begin the name of a server's folder.
	folderPrefix = "quoin-postgres-"
)

// memory returns the folder for data in memory, or for temporary files. It removes what killed processes have left there.
func memory() string {
	left, _ := filepath.Glob(filepath.Join(sharedMemory, folderPrefix+"*")) // the pattern is well-formed
	for _, folder := range left {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(folder), folderPrefix), "-")
		if id, err := strconv.Atoi(pid); err == nil && errors.Is(syscall.Kill(id, 0), syscall.ESRCH) {
			_ = os.RemoveAll(folder) // another process may do it too
		}
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(sharedMemory, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < enoughMemory {
		return os.TempDir()
	}
	return sharedMemory
}

func newServer(parent string, settings ...string) (*Server, error) {
	s := &Server{programs: findPrograms(), settings: settings}
	if s.programs == "" {
		return nil, ErrNotInstalled
	}
	var err error
	if s.folder, err = os.MkdirTemp(parent, fmt.Sprintf("%s%d-", folderPrefix, os.Getpid())); err != nil {
		return nil, err
	}
	if err = s.leaveRoot(); err == nil {
		err = s.initialize()
	}
	if err == nil {
		err = s.start()
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// initialize creates the data directory, without waiting for the disk.
func (s *Server) initialize() error {
	initdb := s.command("initdb", "--pgdata", s.data(), "--username", superuser, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

// findPrograms returns the directory of the newest server, or "".
func findPrograms() string {
	if program, err := exec.LookPath("postgres"); err == nil {
		if program, err = filepath.EvalSymlinks(program); err == nil && exists(filepath.Join(filepath.Dir(program), "initdb")) {
			return filepath.Dir(program)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well-formed
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return release(a) - release(b) }))
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// release returns 15 for /usr/lib/postgresql/15/bin/initdb.
func release(program string) int {
	number, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(program)))) // 0 sorts first
	return number
}

// leaveRoot selects another user if this one is root, as which the server does not run.
func (s *Server) leaveRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		account, err = user.Lookup("nobody")
	}
	if err != nil {
		return err
	}
	uid, uidErr := strconv.ParseUint(account.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return err
	}
	s.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.folder, int(uid), int(gid))
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) command(program string, args ...string) *exec.Cmd {
	command := exec.Command(s.Program(program), args...)
	command.Dir = s.folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return command
}

// start starts the server and waits until it answers.
func (s *Server) start() error {
	logs, err := os.OpenFile(filepath.Join(s.folder, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }()
	args := []string{"-D", s.data(), "-k", s.folder, "-c", "listen_addresses=", "-c", "max_connections=200"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	server := s.command("postgres", args...)
	server.Stdout, server.Stderr = logs, logs
	if err := server.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.process, s.exited = server.Process, exited
	go func() {
		defer close(exited)
		_ = server.Wait() // its log says why
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := s.execute(ctx, "SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
			continue
		case <-exited:
		case <-ctx.Done():
		}
		text, _ := os.ReadFile(logs.Name())
		return fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, text)
	}
}

// execute runs a statement in the database postgres.
func (s *Server) execute(ctx context.Context, statement string) error {
	pool, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	_, err = pool.ExecContext(ctx, statement)
	return err
}

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres:///%s?%s", database, url.Values{"host": {s.folder}, "user": {superuser}}.Encode())
}

// Database creates a database and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	url, err := s.NewDatabase()
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// NewDatabase creates a database outside of a test and returns its URL.
func (s *Server) NewDatabase() (string, error) {
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.execute(context.Background(), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return s.url(name), nil
}

// Program returns the path of a program of the server, such as psql.
func (s *Server) Program(name string) string { return filepath.Join(s.programs, name) }

// Folder returns the directory of the socket.
func (s *Server) Folder() string { return s.folder }

// Kill kills the server and all its child processes with SIGKILL. It returns when all have ended.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	// A stopped server starts no new child processes.
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	children := childrenOf(s.process.Pid)
	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
	}
	<-s.exited
	for _, child := range children {
		for syscall.Kill(child, 0) == nil && !isZombie(child) {
			time.Sleep(time.Millisecond)
		}
	}
}

// Restart starts the server again after Kill, with its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

// Stop stops the server if it runs, without waiting for its clients, and removes its data.
func (s *Server) Stop() {
	if s.process != nil {
		_ = s.process.Signal(syscall.SIGINT) // it may have ended
		<-s.exited
	}
	_ = os.RemoveAll(s.folder)
}

// childrenOf returns the child processes of a process, from /proc.
func childrenOf(parent int) (children []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, file := range all {
		if fields := stat(file); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			children = append(children, pid)
		}
	}
	return children
}

func isZombie(pid int) bool {
	fields := stat(fmt.Sprintf("/proc/%d/stat", pid))
	return len(fields) == 0 || fields[0] == "Z"
}

// stat returns the fields of /proc/<pid>/stat from the state and the parent on. Before them is the
// name of the program in parentheses, which may contain blanks.
func stat(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil // it has ended
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}
