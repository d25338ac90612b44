package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// methods are the methods of the REST API.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// maxBody is the number of bytes of a body that is sent: a dbt manifest may have 50 MiB.
const maxBody = 64 << 20

func curlCommand(s *session) *cobra.Command {
	f, method, data := &apiFlags{}, "", ""
	c := &cobra.Command{
		Use:     "curl PATH",
		GroupID: groupAPI,
		Short:   "Call the REST API of an account",
		Long: `Sends a request to a documented path, through the aggregated API with the credentials of the
kubeconfig, or with an API key to the account's own address, and prints the response. The exit code is 1
if the status is 400 or more.`,
		Example: `  kubectl quoin curl /api/v1/deployments -n demo
  kubectl quoin curl /api/v1/deployments -n demo -d @deployment.json
  QUOIN_API_KEY=… kubectl quoin curl /api/v1/users/me --url https://demo.example.com`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f.register(c)
	c.Flags().StringVarP(&method, "request", "X", "", "Method: GET, or POST with --data, when empty.")
	c.Flags().StringVarP(&data, "data", "d", "", "Body in JSON; @file reads it from a file, @- from the standard input.")
	c.PreRunE = func(_ *cobra.Command, args []string) error {
		switch {
		case !strings.HasPrefix(args[0], "/"):
			return fmt.Errorf("the path %q must begin with a slash, such as /api/v1/deployments", args[0])
		case method != "" && !slices.Contains(methods, method):
			return fmt.Errorf("--request is %q, must be one of %s", method, strings.Join(methods, ", "))
		}
		return nil
	}
	c.RunE = run(func(ctx context.Context, args []string) error {
		body, err := s.body(ctx, data)
		if err != nil {
			return err
		}
		r := request{method: method, path: args[0], body: body}
		if r.method == "" {
			r.method = http.MethodGet
			if body != nil {
				r.method = http.MethodPost
			}
		}
		a, err := s.api(ctx, f, r)
		if a != nil {
			if _, err := s.Stdout.Write(a.body); err != nil {
				return err
			}
			if len(a.body) > 0 && a.body[len(a.body)-1] != '\n' {
				fmt.Fprintln(s.Stdout)
			}
		}
		return err
	})
	return c
}

// body returns the body of --data, or nil.
func (s *session) body(ctx context.Context, data string) ([]byte, error) {
	name, isFile := strings.CutPrefix(data, "@")
	switch {
	case data == "":
		return nil, nil
	case !isFile:
		return []byte(data), nil
	}
	var body []byte
	var err error
	read := make(chan struct{})
	go func() {
		defer close(read)
		body, err = s.readBody(name)
	}()
	select {
	case <-read:
		return body, err
	case <-ctx.Done(): // a read of a terminal or a pipe does not end with Ctrl-C
		return nil, ctx.Err()
	}
}

// readBody reads a file, or the standard input.
func (s *session) readBody(name string) ([]byte, error) {
	from := s.Stdin
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the file that the user names
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	body, err := io.ReadAll(io.LimitReader(from, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("--data: the body is larger than 64 MiB")
	}
	return body, err
}
