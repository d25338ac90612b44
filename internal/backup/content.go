package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"

	"github.com/quoin-dev/quoin/internal/store"
)

// Database is the content store in a database.
type Database struct {
	// URL of the database, as in store.Open.
	URL    string
	Owners []store.Owner
	Log    *slog.Logger
}

// Dump implements Content.
func (d Database) Dump(ctx context.Context, write func(store.Record) error) error {
	return store.Dump(ctx, d.URL, d.Owners, write)
}

// Check implements Content.
func (d Database) Check(ctx context.Context, id string) error {
	return store.CheckLoad(ctx, d.URL, d.Owners, id)
}

// Load implements Content.
func (d Database) Load(ctx context.Context, h Header, next func() (store.Record, error)) error {
	_, err := store.Load(ctx, d.URL, d.Log, d.Owners, h.ID, next)
	return err
}

// Command is the content store that another process reaches: `quoin backup` or `quoin restore` with
// --content-only in a pod, for example by kubectl exec. The archive is on its standard output or input.
type Command struct {
	Args []string
	// Stderr receives its messages.
	Stderr io.Writer
}

func (c Command) command(ctx context.Context) *exec.Cmd {
	command := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) //nolint:gosec // the administrator's command
	command.Stderr = c.Stderr
	return command
}

func (c Command) failed(err error) error {
	return fmt.Errorf("command %q: %w", strings.Join(c.Args, " "), err)
}

// Dump implements Content.
func (c Command) Dump(ctx context.Context, write func(store.Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	command := c.command(ctx)
	output, err := command.StdoutPipe()
	if err != nil {
		return c.failed(err)
	}
	if err := command.Start(); err != nil {
		return c.failed(err)
	}
	err = copyContent(output, write)
	if err != nil {
		cancel() // otherwise it may wait for its output to be read
	}
	if ended := command.Wait(); ended != nil {
		return errors.Join(c.failed(ended), err)
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// copyContent reads the content of an archive.
func copyContent(from io.Reader, write func(store.Record) error) error {
	r, err := newReader(from)
	if err != nil {
		return err
	}
	if !r.header.Content {
		return errors.New("the archive has no content")
	}
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if l.Content != nil {
			if err := write(*l.Content); err != nil {
				return err
			}
		}
	}
}

// Check implements Content: the command has not been started.
func (c Command) Check(context.Context, string) error { return nil }

// Load implements Content.
func (c Command) Load(ctx context.Context, h Header, next func() (store.Record, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	command := c.command(ctx)
	command.Stdout = c.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return c.failed(err)
	}
	if err := command.Start(); err != nil {
		return c.failed(err)
	}
	h.Objects, h.Secrets = false, false
	sent := sendContent(input, h, next)
	// Without its last line the archive is truncated, and the command writes nothing.
	_ = input.Close()
	if err := command.Wait(); err != nil {
		return errors.Join(c.failed(err), sent)
	}
	return sent
}

// sendContent writes an archive with the records of next.
func sendContent(to io.Writer, h Header, next func() (store.Record, error)) error {
	w, err := newWriter(to, h)
	if err != nil {
		return err
	}
	for {
		record, err := next()
		if errors.Is(err, io.EOF) {
			return w.close()
		}
		if err != nil {
			return err
		}
		if err := w.write(line{Content: &record}); err != nil {
			return err
		}
	}
}
