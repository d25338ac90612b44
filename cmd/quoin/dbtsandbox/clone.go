package dbtsandbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/quoin-dev/quoin/cmd/quoin/modelfetch"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/git"
)

// Names of files in a dbt project.
const (
	projectFile  = "dbt_project.yml"
	profilesFile = "profiles.yml"
)

// maxProjectFile bounds dbt_project.yml, bytes.
const maxProjectFile = 1 << 20

// cloneOptions are the flags of dbt-clone.
type cloneOptions struct {
	url, ref, path, target string
	credentialsDir         string
	timeout                time.Duration
	allowInsecure          bool
	profile                dbt.Profile
}

func parseClone(args []string, output io.Writer) (cloneOptions, error) {
	o := cloneOptions{}
	flags := flag.NewFlagSet("quoin dbt-clone", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.url, "url", "", "repository: https://host/path or ssh://user@host/path (required)")
	flags.StringVar(&o.ref, "ref", "", "branch or tag; the default branch when empty")
	flags.StringVar(&o.path, "path", "", "folder of the dbt project in the repository; its root when empty")
	flags.StringVar(&o.target, "target", "", "absolute path of the folder to write; an existing folder is replaced (required)")
	flags.StringVar(&o.credentialsDir, "credentials-dir", "", "mounted Secret, as of quoin model-fetch")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "timeout of all attempts together")
	flags.BoolVar(&o.allowInsecure, "allow-insecure-git", false, "allow http:// for the repository: for tests and isolated networks")
	flags.StringVar(&o.profile.Adapter, "adapter", "", "adapter of dbt in the generated profile, such as postgres")
	flags.StringVar(&o.profile.Target, "profile-target", "dev", "name of the target of the profile")
	flags.StringVar(&o.profile.Schema, "schema", "", "schema in the generated profile; the project's own profiles.yml is used when empty")
	flags.StringVar(&o.profile.Database, "database", "", "database in the generated profile")
	flags.BoolVar(&o.profile.Connects, "connects", false, "fail if dbt cannot connect to the data source with the generated profile")
	if err := parse(flags, args, "url", "target"); err != nil {
		return o, err
	}
	if o.timeout <= 0 {
		return o, errors.New("--timeout must be positive")
	}
	return o, git.ValidateURL(o.url, git.Options{AllowInsecure: o.allowInsecure})
}

// Clone is the command dbt-clone. It fetches a dbt project, and writes the profile with which dbt parses
// it. It returns the exit code: 0 success, 1 failure, 2 invalid flags.
func Clone(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return newCommand(stdout, stderr).clone(ctx, args)
}

func (c command) clone(ctx context.Context, args []string) int {
	o, err := parseClone(args, c.stderr)
	return c.run(ctx, err, o.timeout, func(ctx context.Context) error {
		if err := c.fetch(ctx, o); err != nil {
			return err
		}
		return o.writeProfile()
	})
}

// fetch fetches the commit of the ref.
func (c command) fetch(ctx context.Context, o cloneOptions) error {
	creds, err := modelfetch.ReadCredentials(o.url, o.credentialsDir)
	if err != nil {
		return err
	}
	client := git.New(git.Options{AllowInsecure: o.allowInsecure})
	return c.retry(ctx, modelfetch.IsTransient, func() error {
		ref, commit, err := client.Resolve(ctx, o.url, creds, o.ref)
		if err != nil {
			return err
		}
		result, err := client.Fetch(ctx, git.FetchOptions{URL: o.url, Creds: creds, Commit: commit, Ref: ref, Path: o.path, Dir: o.target})
		if err == nil {
			c.printf("Wrote commit %s of %s to %s (files: %d, bytes: %d)", commit, ref, o.target, result.Files, result.Bytes)
		}
		return err
	})
}

// writeProfile checks that the folder is a dbt project, and writes the profile if a schema is given.
func (o cloneOptions) writeProfile() error {
	project, err := readFile(filepath.Join(o.target, projectFile), maxProjectFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: the folder %q of the repository has none: it is not a dbt project; set path", projectFile, o.path)
	}
	if err != nil {
		return err
	}
	profiles := filepath.Join(o.target, profilesFile)
	if o.profile.Schema == "" {
		if _, err := os.Stat(profiles); err != nil {
			return fmt.Errorf("%s: the dbt project has none; set schema, so that one is generated", profilesFile)
		}
		return nil
	}
	text, err := o.profile.Of(project)
	if err != nil {
		return err
	}
	return os.WriteFile(profiles, text, 0o644)
}

// readFile reads a file of limited size.
func readFile(name string, limit int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", filepath.Base(name), limit)
	}
	return data, err
}
