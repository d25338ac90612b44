// Package dbtsandbox has the commands of Quoin in the pod of a dbt sync: `quoin dbt-clone` fetches the dbt
// project before dbt runs, and `quoin dbt-deliver` sends the manifest to quoin apiserver after it.
//
// Both may be killed at any time and begin again. What they report is the termination message of their
// container, which becomes the text of the failed phase.
package dbtsandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/quoin-dev/quoin/cmd/quoin/modelfetch"
)

// Exit codes of the commands.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// maxDelay is the longest delay of a retry: a user waits for the sync.
const maxDelay = 15 * time.Second

// command is one of the commands, with dependencies that tests replace.
type command struct {
	stdout, stderr io.Writer
	termination    string        // a file
	firstDelay     time.Duration // of retries; that of model-fetch if zero
}

func newCommand(stdout, stderr io.Writer) command {
	return command{stdout: stdout, stderr: stderr, termination: modelfetch.TerminationLog}
}

// parse parses flags, and checks that the required ones are set.
func parse(flags *flag.FlagSet, args []string, required ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errors.New("there are no arguments, flags only")
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return fmt.Errorf("--%s is required", name)
		}
	}
	return nil
}

// run runs a command within a timeout, and returns its exit code.
func (c command) run(ctx context.Context, invalid error, timeout time.Duration, work func(context.Context) error) int {
	if errors.Is(invalid, flag.ErrHelp) {
		return exitDone
	}
	if invalid != nil {
		c.fail(invalid)
		return exitUsage
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := work(ctx); err != nil {
		c.fail(err)
		return exitFailed
	}
	return exitDone
}

// retry calls do until it succeeds, its error is not transient, or the context ends.
func (c command) retry(ctx context.Context, transient func(error) bool, do func() error) error {
	return modelfetch.Retry{FirstDelay: c.firstDelay, MaxDelay: maxDelay, Transient: transient, Printf: c.printf}.Do(ctx, do)
}

func (c command) printf(format string, args ...any) { fmt.Fprintf(c.stdout, format+"\n", args...) }

func (c command) fail(err error) {
	fmt.Fprintln(c.stderr, err)
	modelfetch.WriteTermination(c.termination, err.Error())
}
