// Package plugin is `kubectl quoin`: commands that show an installation and its deployments, explain
// what is wrong, and edit versions (docs/plugin.md).
//
// A command reads objects, calls a pure function of tree, cause, edit, check or bundle, and prints or
// writes the result.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// The names of the executable under which it is the plugin, and its completion for kubectl.
const (
	Name           = "kubectl-quoin"
	completionName = "kubectl_complete-quoin"
)

// Exit codes.
const (
	exitDone = 0
	// exitFailed: a call failed, or an object does not exist.
	exitFailed = 1
	// exitUsage: invalid usage.
	exitUsage = 2
	// exitNotReady: the calls succeeded, and the answer is no: not ready, or a check failed.
	exitNotReady = 3
)

// Options are the surroundings of the plugin.
type Options struct {
	// Version of the binary.
	Version string
	// Stdin, Stdout and Stderr are those of the process.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Invoked returns the arguments of the plugin if the name of the executable is one of the plugin's.
func Invoked(args []string) (rest []string, ok bool) {
	if len(args) == 0 {
		return nil, false
	}
	switch strings.TrimSuffix(filepath.Base(args[0]), ".exe") {
	case Name:
		return args[1:], true
	case completionName:
		return append([]string{cobra.ShellCompRequestCmd}, args[1:]...), true
	}
	return nil, false
}

// errNotReady ends a command that has printed its answer, which is no.
var errNotReady = errors.New("not ready")

// failure is an error of a command, as opposed to one of its usage.
type failure struct{ error }

// Unwrap returns the error.
func (f failure) Unwrap() error { return f.error }

// Run runs the plugin and returns the exit code.
func Run(ctx context.Context, args []string, o Options) int {
	// Libraries must not write to the terminal: an error is one line.
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &session{Options: o}
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(o.Stdin)
	root.SetOut(o.Stdout)
	root.SetErr(o.Stderr)
	command, err := root.ExecuteContextC(ctx)
	var failed failure
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNotReady):
		return exitNotReady
	case errors.As(err, &failed):
		fmt.Fprintln(o.Stderr, "error:", s.describe(failed.error))
		return exitFailed
	}
	fmt.Fprintf(o.Stderr, "error: %s\nSee '%s -h'.\n", oneLine(err.Error()), command.CommandPath())
	return exitUsage
}

// newRoot returns the command with its subcommands.
func newRoot(s *session) *cobra.Command {
	root := &cobra.Command{
		Use:   Name,
		Short: "Show, explain and change analytics deployments",
		Long: `Shows an installation of Quoin and its deployments, explains what is wrong with one, and changes
the version that it runs.

Exit codes: 0 success; 1 a call failed or an object does not exist; 2 invalid usage; 3 the answer is
no: a deployment is not ready, or a check failed.`,
		Example: `  # What is installed, and what is not ready
  kubectl quoin status
  # Follow a rollout
  kubectl quoin get analytics -n demo -w
  # Why is it not ready, and what to do
  kubectl quoin why analytics -n demo`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl quoin"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       s.Version,
	}
	s.flags.register(root)
	root.AddGroup(
		&cobra.Group{ID: groupRead, Title: "Show and explain:"},
		&cobra.Group{ID: groupEdit, Title: "Change versions:"},
		&cobra.Group{ID: groupAPI, Title: "Use the APIs:"},
	)
	for _, build := range []func(*session) *cobra.Command{
		statusCommand, getCommand, whyCommand, versionsCommand, usersCommand, auditCommand, checkCommand, bundleCommand,
		pinCommand, holdCommand, followCommand, rollbackCommand, retryCommand, promoteCommand,
		tokenCommand, curlCommand, psqlCommand, keysCommand, exportCommand,
	} {
		root.AddCommand(build(s))
	}
	return root
}

// Groups of commands in the help.
const (
	groupRead = "read"
	groupEdit = "edit"
	groupAPI  = "api"
)

// run returns a RunE whose errors are failures, as opposed to those of the usage.
func run(work func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		err := work(command.Context(), args)
		if err == nil || errors.Is(err, errNotReady) {
			return err
		}
		return failure{err}
	}
}
