package modelfetch

import (
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
	exitFailed = 1 // may go well another time
	exitUsage  = 2 // a flag is wrong: will not
)

const (
	firstDelay = time.Second
	maxDelay   = 30 * time.Second
	jitter     = 0.2
)

// Run is the command. It fetches what the flags in args say, retries what may
// pass within --timeout, writes a line a step to stdout and the error to
// stderr and to the termination message, and returns the exit code: 0 done, 1
// failed, 2 wrong flags.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := command{
		fetch: func(o options) fetchFunc {
			return git.New(git.Options{AllowInsecure: o.allowInsecure}).Fetch
		},
		sleep:       sleep,
		stdout:      stdout,
		stderr:      stderr,
		termination: terminationLog,
	}
	return c.run(ctx, args)
}

// fetchFunc checks out a commit.
type fetchFunc func(context.Context, git.FetchOptions) (git.FetchResult, error)

// command is Run with what tests replace.
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

// ensure makes the target hold the wanted commit.
func (c command) ensure(ctx context.Context, o options) error {
	m := newMarker(o)
	if m.holds() {
		c.say("Commit %s is already in %s", m.Commit, o.target)
		return nil
	}
	creds, err := readCredentials(o.url, o.credentialsDir)
	if err != nil {
		return err
	}
	// Before the target changes: a marker must never be wrong.
	if err := m.remove(); err != nil {
		return err
	}
	c.say("Fetching commit %s of %s", m.Commit, o.url)
	result, err := c.retry(ctx, c.fetch(o), o.fetchOptions(creds))
	if err != nil {
		return err
	}
	c.say("Wrote %s (files: %d, bytes: %d)", o.target, result.Files, result.Bytes)
	return m.write()
}

// retry fetches until it goes well, cannot go well, or the time is over.
func (c command) retry(ctx context.Context, fetch fetchFunc, o git.FetchOptions) (git.FetchResult, error) {
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		result, err := fetch(ctx, o)
		if err == nil || !isTransient(err) || ctx.Err() != nil {
			return result, err
		}
		wait := spread(delay)
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return git.FetchResult{}, fmt.Errorf("gave up: %w", err)
		}
		c.say("Trying again in %s: %v", wait.Round(100*time.Millisecond), err)
		if c.sleep(ctx, wait) != nil {
			return git.FetchResult{}, err
		}
	}
}

// isTransient tells what another attempt may cure. A server that is not
// trusted is not: the certificate or the host key in the Secret is wrong.
func isTransient(err error) bool {
	return errors.Is(err, git.ErrUnreachable) && !errors.Is(err, git.ErrUntrusted)
}

// spread varies a delay, so that the pods of a fleet do not come together.
func spread(d time.Duration) time.Duration {
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

func (c command) say(format string, args ...any) {
	fmt.Fprintf(c.stdout, format+"\n", args...)
}

func (c command) fail(err error) {
	fmt.Fprintf(c.stderr, "model-fetch: %v\n", err)
	writeTermination(c.termination, "model-fetch: "+err.Error())
}
