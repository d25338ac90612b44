package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/internal/backup"
)

// archiveFlags are the flags of `quoin backup` and `quoin restore`.
type archiveFlags struct {
	kubeconfig, file, databaseURL               string
	excludeSecrets, excludeContent, contentOnly bool
	// command reaches the content store.
	command []string
}

func (f *archiveFlags) register(fs *flag.FlagSet, file, command string) {
	registerKubeconfig(fs, &f.kubeconfig)
	fs.StringVar(&f.file, "file", "", file)
	fs.StringVar(&f.databaseURL, "database-url", os.Getenv("DATABASE_URL"), "`URL` of the content store: sqlite:///path/file.db or postgres://…; not with a command after --, "+command)
	fs.BoolVar(&f.excludeSecrets, "exclude-secrets", false, "leave out the Secrets that Quoin has created: issued tokens and SQL passwords become invalid after a restore")
	fs.BoolVar(&f.excludeContent, "exclude-content", false, "leave out the content store")
	fs.BoolVar(&f.contentOnly, "content-only", false, "leave out the objects")
}

// parse parses the flags. Arguments after the flags are the command.
func (f *archiveFlags) parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	f.command = fs.Args()
	text := f.problem()
	if text == "" {
		return nil
	}
	fmt.Fprintln(fs.Output(), fs.Name()+":", text)
	return errors.New(text)
}

// problem returns the problem with the flags, or "".
func (f *archiveFlags) problem() string {
	switch {
	case f.file == "":
		return "--file is required"
	case f.excludeContent && f.contentOnly:
		return "--exclude-content and --content-only exclude each other"
	case f.excludeContent && len(f.command) > 0:
		return fmt.Sprintf("unexpected argument %q: --exclude-content leaves out the content store", f.command[0])
	case !f.excludeContent && f.databaseURL == "" && len(f.command) == 0:
		return "the content store is required: --database-url, a command after --, or --exclude-content"
	case f.contentOnly && len(f.command) > 0:
		return "--content-only requires --database-url, not a command"
	case !isDatabase(f.databaseURL):
		return "--database-url must begin with sqlite:/// or postgres://" // without the URL, which may contain a password
	}
	return ""
}

// content returns the content store; nil if it is left out. The command is preferred, because the URL
// may be that of the environment.
func (f *archiveFlags) content(stderr io.Writer) backup.Content {
	switch {
	case f.excludeContent:
		return nil
	case len(f.command) > 0:
		return backup.Command{Args: f.command, Stderr: stderr}
	}
	return backup.Database{URL: f.databaseURL, Owners: apiserver.ContentOwners(), Log: slog.New(slog.NewTextHandler(stderr, nil))}
}

// client returns a client of the cluster; nil if the objects are left out.
func (f *archiveFlags) client(userAgent string) (client.Client, error) {
	if f.contentOnly {
		return nil, nil // no client is used
	}
	config, err := restConfig(f.kubeconfig, userAgent)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

type backupFlags struct {
	archiveFlags
	namespace string
}

func parseBackupFlags(args []string, stderr io.Writer) (*backupFlags, error) {
	f := &backupFlags{}
	fs := newFlagSet("quoin backup", stderr)
	f.register(fs, "`file` of the archive, which is created or replaced with mode 0600; - is the standard output", "which writes an archive of the content to its standard output")
	fs.StringVar(&f.namespace, "namespace", "quoin-system", "`namespace` of Quoin")
	return f, f.parse(fs, args)
}

// runBackup runs `quoin backup`.
func runBackup(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	f, err := parseBackupFlags(args, stderr)
	if err != nil {
		return exitCode(err)
	}
	summary, err := f.run(ctx, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "quoin backup:", err)
		return 1
	}
	fmt.Fprintf(stderr, "Copied %d objects and %d rows of content\n", summary.Objects, summary.Rows)
	return 0
}

func (f *backupFlags) run(ctx context.Context, stdout, stderr io.Writer) (backup.Summary, error) {
	options := backup.Options{Version: readBuild().Version, Namespace: f.namespace, Secrets: !f.excludeSecrets, Content: f.content(stderr)}
	c, err := f.client("quoin-backup")
	if err != nil {
		return backup.Summary{}, err
	}
	if c != nil {
		options.Reader = c
	}
	if f.file == "-" {
		return backup.Write(ctx, stdout, options)
	}
	// A file that exists is kept until the archive is complete.
	file, err := os.CreateTemp(filepath.Dir(f.file), "."+filepath.Base(f.file)+"-*") // mode 0600
	if err != nil {
		return backup.Summary{}, err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after it was renamed
	summary, err := backup.Write(ctx, file, options)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return summary, err
	}
	return summary, os.Rename(file.Name(), f.file)
}

// runRestore runs `quoin restore`.
func runRestore(ctx context.Context, args []string, _, stderr io.Writer) int {
	f, err := parseRestoreFlags(args, stderr)
	if err != nil {
		return exitCode(err)
	}
	summary, err := f.run(ctx, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "quoin restore:", err)
		return 1
	}
	for _, skipped := range summary.Skipped {
		fmt.Fprintln(stderr, "Not restored:", skipped)
	}
	fmt.Fprintf(stderr, "Restored %d objects (%d existed) and %d rows of content\n", summary.Objects, summary.Existing, summary.Rows)
	return 0
}

func parseRestoreFlags(args []string, stderr io.Writer) (*archiveFlags, error) {
	f := &archiveFlags{}
	fs := newFlagSet("quoin restore", stderr)
	f.register(fs, "`file` of the archive; - is the standard input, with --content-only", "which reads an archive of the content from its standard input")
	if err := f.parse(fs, args); err != nil {
		return f, err
	}
	if f.file == "-" && !f.contentOnly {
		text := "--file - requires --content-only: the archive is read several times"
		fmt.Fprintln(stderr, "quoin restore:", text)
		return f, errors.New(text)
	}
	return f, nil
}

func (f *archiveFlags) run(ctx context.Context, stderr io.Writer) (backup.Summary, error) {
	content := f.content(stderr)
	if f.file == "-" {
		return backup.LoadOnly(ctx, os.Stdin, content)
	}
	c, err := f.client("quoin-restore")
	if err != nil {
		return backup.Summary{}, err
	}
	r := &backup.Restore{Client: c, Secrets: !f.excludeSecrets, Content: content, Owners: apiserver.ContentOwners(), Clock: time.Now}
	return r.Run(ctx, func() (io.ReadCloser, error) { return os.Open(f.file) })
}
