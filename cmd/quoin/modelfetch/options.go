package modelfetch

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/git"
	"k8s.io/apimachinery/pkg/api/resource"
)

const defaultTimeout = 5 * time.Minute

// modelFolder is the folder of the model in a project of the server.
const modelFolder = "model"

// options are the flags of the command.
type options struct {
	url, commit, ref, path, target string
	credentialsDir                 string
	agents                         string
	timeout                        time.Duration
	maxBytes                       byteSize
	maxFiles                       int
	allowInsecure                  bool
}

// parseOptions parses the flags; it writes errors and the help to output.
func parseOptions(args []string, output io.Writer) (options, error) {
	o := options{maxBytes: git.DefaultMaxBytes}
	flags := flag.NewFlagSet("quoin model-fetch", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.url, "url", "", "repository: https://host/path or ssh://user@host/path (required)")
	flags.StringVar(&o.commit, "commit", "", "commit to check out, 40 hex digits (required)")
	flags.StringVar(&o.ref, "ref", "", "branch that contains the commit, for servers that do not serve commits by name")
	flags.StringVar(&o.path, "path", "", "sub folder of the repository; the whole repository when empty")
	flags.StringVar(&o.target, "target", "", "absolute path of the folder to write; an existing folder is replaced (required)")
	flags.StringVar(&o.credentialsDir, "credentials-dir", "", "mounted Secret: "+
		"username and password, or bearerToken, and ca.crt; or identity, known_hosts and password")
	flags.StringVar(&o.agents, "agents", project.DefaultFolder, "folder of the files of agents, which are left out of a model that is no project")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "timeout of all attempts together")
	flags.Var(&o.maxBytes, "max-bytes", "limit on the total size of the files")
	flags.IntVar(&o.maxFiles, "max-files", git.DefaultMaxFiles, "limit on the number of files")
	flags.BoolVar(&o.allowInsecure, "allow-insecure-git", false, "allow http:// for the repository: for tests and isolated networks")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, errors.New("there are no arguments, flags only")
	}
	return o, o.validate()
}

func (o options) validate() error {
	for _, required := range []struct{ flag, value string }{
		{"url", o.url}, {"commit", o.commit}, {"target", o.target},
	} {
		if required.value == "" {
			return fmt.Errorf("--%s is required", required.flag)
		}
	}
	if o.timeout <= 0 || o.maxFiles <= 0 || o.maxBytes <= 0 {
		return errors.New("--timeout, --max-bytes and --max-files must be positive")
	}
	return o.fetchOptions(git.Credentials{}).Validate(git.Options{AllowInsecure: o.allowInsecure})
}

func (o options) fetchOptions(creds git.Credentials) git.FetchOptions {
	return git.FetchOptions{
		URL:      o.url,
		Creds:    creds,
		Commit:   o.commit,
		Ref:      o.ref,
		Path:     o.path,
		Dir:      o.target,
		MaxBytes: int64(o.maxBytes),
		MaxFiles: o.maxFiles,

		Nested:       modelFolder,
		ProjectFiles: append([]string{"docker-compose.yml", "docker-compose.yaml"}, configurations...),
		Omit:         o.isOfAgents,
	}
}

// isOfAgents reports whether a file configures agents. The server rejects a model with such a file.
func (o options) isOfAgents(name string) bool {
	rest, inFolder := strings.CutPrefix(name, o.agents+"/")
	return inFolder && project.IsRead(rest)
}

// byteSize is a flag in the notation of Kubernetes quantities: 268435456, 256Mi.
type byteSize int64

// String implements flag.Value.
func (b *byteSize) String() string {
	if b == nil || *b == 0 { // package flag calls it on the zero value
		return ""
	}
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Set implements flag.Value.
func (b *byteSize) Set(s string) error {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return errors.New("want a number of bytes such as " + strconv.Itoa(git.DefaultMaxBytes) + " or 256Mi")
	}
	*b = byteSize(q.Value())
	return nil
}
