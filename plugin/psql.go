package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/plugin/portforward"
)

// sqlConnection is the structured output of `psql`.
type sqlConnection struct {
	Host string `json:"host"`
	Port int32  `json:"port"`
	User string `json:"user"`
	// PasswordSecret and PasswordKey name the password.
	PasswordSecret string `json:"passwordSecret"`
	PasswordKey    string `json:"passwordKey"`
	Command        string `json:"command"`
}

// psqlOptions are the flags of `psql`.
type psqlOptions struct {
	output
	environment string
	exec        bool
}

func psqlCommand(s *session) *cobra.Command {
	o := &psqlOptions{}
	c := &cobra.Command{
		Use:     "psql NAME [-- ARGS]",
		GroupID: groupAPI,
		Short:   "Print the connection of the SQL API, or run psql",
		Long: `Prints how to connect to the SQL API of production through the gateway. With --exec, forwards a port to a
pod of the environment with kubectl port-forward and runs psql on it: this needs psql, permission to
forward ports, and permission to read the environment's Secret.`,
		Example: `  kubectl quoin psql analytics -n demo
  kubectl quoin psql analytics -n demo --exec -- -c 'SELECT 1'`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completeDeployment,
	}
	o.register(c)
	c.Flags().StringVar(&o.environment, "environment", "", "Name of the environment, with --exec; production when empty.")
	c.Flags().BoolVar(&o.exec, "exec", false, "Run psql through a forwarded port.")
	c.RunE = run(func(ctx context.Context, args []string) error {
		if len(args) > 1 && !o.exec {
			return errors.New("arguments of psql need --exec")
		}
		return s.psql(ctx, o, args[0], args[1:])
	})
	return c
}

func (s *session) psql(ctx context.Context, o *psqlOptions, name string, arguments []string) error {
	c, key, err := s.inNamespace(name)
	if err != nil {
		return err
	}
	d := &v1alpha1.Deployment{}
	if err := c.Get(ctx, key, d); err != nil {
		return err
	}
	e, err := environmentOf(ctx, c, d, o.environment)
	if err != nil {
		return err
	}
	if e.Status.APICredentials == nil {
		return fmt.Errorf("the environment %s has no addresses yet: kubectl quoin why %s -n %s", e.Name, d.Name, d.Namespace)
	}
	if o.exec {
		return s.execPsql(ctx, c, e, arguments)
	}
	if e.Spec.Type != v1alpha1.EnvironmentProduction { // its host is that of production, whose password is another one
		return fmt.Errorf("the gateway serves SQL of production only, and %s is a %s environment: use --exec", e.Name, e.Spec.Type)
	}
	sql := e.Status.APICredentials.SQL
	connection := sqlConnection{
		Host: sql.Host, Port: sql.Port, User: engine.SQLUser, PasswordSecret: e.Status.CredentialsSecret, PasswordKey: engine.KeySQLPassword,
		Command: fmt.Sprintf(`psql "host=%s port=%d user=%s sslmode=require"`, sql.Host, sql.Port, engine.SQLUser),
	}
	return o.print(s.Stdout, connection, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "export PGPASSWORD=$(kubectl get secret %s -n %s -o jsonpath='{.data.%s}' | base64 -d)\n%s\n",
			connection.PasswordSecret, e.Namespace, connection.PasswordKey, connection.Command)
		return err
	})
}

// execPsql runs psql on a forwarded port of a ready pod. Ctrl-C is for psql, which cancels its query and continues.
func (s *session) execPsql(ctx context.Context, c client.Reader, e *v1alpha1.Environment, arguments []string) error {
	program, err := exec.LookPath("psql")
	if err != nil {
		return errors.New("psql is not installed: install the PostgreSQL client, or connect without --exec")
	}
	secret := &corev1.Secret{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Status.CredentialsSecret}, secret); err != nil {
		return err
	}
	// ctx ends with Ctrl-C, running does not. The other signals of a terminal do not reach kubectl either, so they are handled here.
	running, release := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer release()
	port, stop, err := portforward.Start(ctx, running, e.Namespace, engine.APIName(e.Name), engine.PortSQL, s.connectionArguments())
	if err != nil {
		return err
	}
	defer stop()
	command := exec.CommandContext(running, program, append([]string{"-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", engine.SQLUser}, arguments...)...) //nolint:gosec // the user's own arguments, without a shell
	command.Env = append(os.Environ(), "PGPASSWORD="+string(secret.Data[engine.KeySQLPassword]), "PGSSLMODE=disable")
	command.Stdin, command.Stdout, command.Stderr = s.Stdin, s.Stdout, s.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("psql: %w", err)
	}
	return nil
}

// connectionArguments returns the flags of the connection that were given, for kubectl.
func (s *session) connectionArguments() []string {
	var arguments []string
	s.flags.connection.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || f.Name == "namespace" {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			arguments = append(arguments, "--"+f.Name+"="+value)
		}
	})
	return arguments
}
