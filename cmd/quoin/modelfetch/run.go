package modelfetch

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/quoin-dev/quoin/internal/git"
)

// Exit codes of the command.
const (
	exitDone   = 0
	exitFailed = 1 // a retry may succeed
	exitUsage  = 2 // invalid flags
)

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	jitter     = 0.2
)

// Run is the command. It fetches the commit of the flags in args and retries
// transient errors within --timeout. It writes progress to stdout and the error
// to stderr and to the termination message. It returns the exit code: 0
// success, 1 failure, 2 invalid flags.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := command{
		fetch: func(o options) fetchFunc {
			return git.New(git.Options{AllowInsecure: o.allowInsecure}).Fetch
		},
		sleep:       sleep,
		stdout:      stdout,
		stderr:      stderr,
		termination: TerminationLog,
	}
	return c.run(ctx, args)
}

// fetchFunc checks out a commit.
type fetchFunc func(context.Context, git.FetchOptions) (git.FetchResult, error)

// command is Run with dependencies that tests replace.
type command struct {
	fetch          func(options) fetchFunc
	sleep          func(context.Context, time.Duration) error
	stdout, stderr io.Writer
	termination    string // a file
}

func (c command) run(ctx context.Context, args []string) int {
	o, err := parseOptions(args, c.stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		c.fail(err)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := c.ensure(ctx, o); err != nil {
		c.fail(err)
		return exitFailed
	}
	return exitDone
}

// ensure fetches the commit unless the target already holds it.
func (c command) ensure(ctx context.Context, o options) error {
	m := newMarker(o)
	if m.matches() {
		c.printf("Commit %s is already in %s", m.Commit, o.target)
		return nil
	}
	creds, err := ReadCredentials(o.url, o.credentialsDir)
	if err != nil {
		return err
	}
	// Before the target changes: a marker must not be stale.
	if err := m.remove(); err != nil {
		return err
	}
	c.printf("Fetching commit %s of %s", m.Commit, o.url)
	result, err := c.retry(ctx, c.fetch(o), o.fetchOptions(creds))
	if err != nil {
		return err
	}
	if err := addConfiguration(o.target); err != nil {
		return err
	}
	c.printf("Wrote %s (files: %d, bytes: %d)", o.target, result.Files, result.Bytes)
	return m.write()
}

// retry fetches until it succeeds, the error is permanent, or the timeout
// expires.
func (c command) retry(ctx context.Context, fetch fetchFunc, o git.FetchOptions) (result git.FetchResult, err error) {
	err = Retry{Transient: IsTransient, Printf: c.printf, sleep: c.sleep}.Do(ctx, func() (err error) {
		result, err = fetch(ctx, o)
		return err
	})
	return result, err
}

// Retry repeats what fails with transient errors.
type Retry struct {
	// FirstDelay is the delay after the first failure; zero means a second. Later ones double, up to
	// MaxDelay; zero means 30 seconds.
	FirstDelay, MaxDelay time.Duration
	// Transient reports whether a retry may succeed.
	Transient func(error) bool
	// Printf reports the errors that are retried.
	Printf func(format string, args ...any)

	sleep func(context.Context, time.Duration) error
}

// Do calls do until it succeeds, its error is not transient, or the context ends. If the context ends a call, the error is
// that of the call before.
func (r Retry) Do(ctx context.Context, do func() error) error {
	if r.sleep == nil {
		r.sleep = sleep
	}
	var last error
	for delay := cmp.Or(r.FirstDelay, firstDelay); ; delay = min(2*delay, cmp.Or(r.MaxDelay, maxDelay)) {
		err := do()
		if err == nil || !r.Transient(err) {
			return err
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("gave up: %w", last)
		}
		wait := withJitter(delay)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return fmt.Errorf("gave up: %w", err)
		}
		r.Printf("Retrying in %s: %v", wait.Round(100*time.Millisecond), err)
		if r.sleep(ctx, wait) != nil {
			return fmt.Errorf("gave up: %w", last)
		}
	}
}

// IsTransient reports whether a retry may succeed. It cannot, for example, if
// the server is not trusted: the certificate or the host key in the Secret is
// wrong.
func IsTransient(err error) bool {
	return errors.Is(err, git.ErrUnreachable) && !git.Permanent(err)
}

// withJitter randomizes a delay, so that many pods do not retry at once.
func withJitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (1 + jitter*(2*rand.Float64()-1)))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (c command) printf(format string, args ...any) {
	fmt.Fprintf(c.stdout, format+"\n", args...)
}

func (c command) fail(err error) {
	fmt.Fprintf(c.stderr, "model-fetch: %v\n", err)
	WriteTermination(c.termination, "model-fetch: "+err.Error())
}
