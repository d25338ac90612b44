package git

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// The limits of a fetch where FetchOptions has zero.
const (
	DefaultMaxBytes = 256 << 20
	DefaultMaxFiles = 10000
)

// FetchOptions configure a fetch.
type FetchOptions struct {
	// URL is the repository, as ValidateURL allows it.
	URL string
	// Creds authenticate; see ParseCredentials.
	Creds Credentials
	// Commit is the commit to check out, 40 hex digits. SHA-256 repositories
	// are not supported.
	Commit string
	// Ref is the branch that contains the commit, "main" or "refs/heads/main".
	// Only servers that do not serve commits by name need it; empty means the
	// default branch.
	Ref string
	// Path is the sub folder to check out, slash separated and relative; empty
	// or "." is the whole tree.
	Path string
	// Nested is the name of a folder in Dir that the files are written to, unless
	// the folder at Path is a project: it contains a folder with this name and,
	// beside it, a file with one of the names in ProjectFiles. Dir/Nested exists
	// after a fetch even if it is empty. If Nested is empty, the files are
	// written to Dir.
	Nested       string
	ProjectFiles []string
	// Omit reports whether a file is not written to Nested, by its path in the
	// folder at Path. It is not called for projects, and may be nil.
	Omit func(name string) bool
	// Dir is the absolute path of the target folder. It is replaced by a rename,
	// so it must not be a mount point. Its parent is created if missing, and
	// must be writable.
	Dir string
	// MaxBytes limits the total size of the files; zero means DefaultMaxBytes.
	// The limit of the download is 4 times that plus 64 MiB.
	MaxBytes int64
	// MaxFiles limits the number of files and the number of folders; zero means
	// DefaultMaxFiles.
	MaxFiles int
}

// FetchResult describes the files that a fetch wrote.
type FetchResult struct {
	// Files is the number of files, including copies of symbolic links.
	Files int
	// Bytes is their total size.
	Bytes int64
}

// Fetch checks out the sub folder of one commit into o.Dir. The commit's hash
// verifies the content.
//
// The data-plane server that reads the folder follows symbolic links and reads
// dot folders (it would load a copy in them a second time). Therefore:
//
//   - Files and folders whose name starts with a dot, including .git, are
//     omitted; so are submodules.
//   - A symbolic link that resolves, inside the commit's tree, to a regular
//     file becomes a copy of that file. Any other link (absolute, out of the
//     tree, to a folder, dangling) fails the fetch with ErrInvalidTree.
//   - Files have mode 0644, folders 0755; folders without files are omitted.
//
// The commit is downloaded without its history if the server supports that;
// otherwise with a short history of the branch, then with the full history.
//
// Dir is replaced by a rename. A killed fetch leaves at most a hidden folder
// next to it, which the next fetch into the same Dir removes. Concurrent
// fetches into the same Dir are not allowed.
//
// The error is an *Error of one of the kinds, or wraps ErrInvalidURL,
// ErrInvalidOptions or the error of the local file system. A failed fetch does
// not change Dir.
func (c *Client) Fetch(ctx context.Context, o FetchOptions) (FetchResult, error) {
	f, err := c.newFetch(o)
	if err != nil {
		return FetchResult{}, err
	}
	work, err := newWorkspace(f.Dir)
	if err != nil {
		return FetchResult{}, err
	}
	defer work.remove()
	store, err := f.download(ctx, work)
	if err != nil {
		return FetchResult{}, err
	}
	defer store.Close()
	result, err := f.checkOut(ctx, store, work)
	if err != nil {
		return FetchResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return FetchResult{}, f.remote.transportError(ctx, err)
	}
	return result, work.place()
}

// Validate checks the options without using the network or the file system.
// The error wraps ErrInvalidURL or ErrInvalidOptions.
func (o FetchOptions) Validate(options Options) error {
	_, err := New(options).newFetch(o)
	return err
}

// fetch is a Fetch in progress, with validated and defaulted options.
type fetch struct {
	FetchOptions
	client *Client
	remote remote
	commit plumbing.Hash
	path   []string // the components of Path
}

func (c *Client) newFetch(o FetchOptions) (*fetch, error) {
	r, err := parseURL(o.URL, c.options)
	if err != nil {
		return nil, err
	}
	f := &fetch{FetchOptions: o, client: c, remote: r}
	if f.commit, err = parseCommit(o.Commit); err != nil {
		return nil, err
	}
	if f.path, err = parsePath(o.Path); err != nil {
		return nil, err
	}
	if !filepath.IsAbs(o.Dir) || filepath.Dir(filepath.Clean(o.Dir)) == filepath.Clean(o.Dir) {
		return nil, invalid(ErrInvalidOptions, "target %q: want an absolute path of a folder", o.Dir)
	}
	f.Dir = filepath.Clean(o.Dir)
	if o.Nested != "" && !validName(o.Nested) {
		return nil, invalid(ErrInvalidOptions, "nested folder %q: want the name of a folder", o.Nested)
	}
	if o.MaxBytes < 0 || o.MaxFiles < 0 {
		return nil, invalid(ErrInvalidOptions, "limits must not be negative")
	}
	if o.MaxBytes == 0 {
		f.MaxBytes = DefaultMaxBytes
	}
	if o.MaxFiles == 0 {
		f.MaxFiles = DefaultMaxFiles
	}
	return f, nil
}

// parseCommit parses a full object name.
func parseCommit(s string) (plumbing.Hash, error) {
	hex := len(strings.Trim(s, "0123456789abcdefABCDEF")) == 0
	switch {
	case hex && len(s) == 40:
		return plumbing.NewHash(s), nil
	case hex && len(s) == 64:
		return plumbing.Hash{}, invalid(ErrInvalidOptions, "commit %q: SHA-256 repositories are not supported", s)
	}
	return plumbing.Hash{}, invalid(ErrInvalidOptions, "commit %q: want 40 hex digits", s)
}

// parsePath splits a sub folder's path into components, none for the whole
// tree.
func parsePath(s string) ([]string, error) {
	trimmed := strings.TrimSuffix(strings.TrimPrefix(s, "./"), "/")
	if trimmed == "" || trimmed == "." {
		if strings.HasPrefix(s, "/") {
			return nil, invalid(ErrInvalidOptions, "path %q: want a relative path", s)
		}
		return nil, nil
	}
	parts := strings.Split(trimmed, "/")
	for _, part := range parts {
		if !validName(part) || strings.EqualFold(part, ".git") {
			return nil, invalid(ErrInvalidOptions, "path %q: want a relative path without . and .. in it", s)
		}
	}
	return parts, nil
}

// validName reports whether the name of a tree entry is a valid file name.
func validName(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxNameLength &&
		!strings.ContainsAny(name, "/\\\x00")
}

// isHidden reports whether an entry is omitted because of its name.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") }

// displayPath returns the sub folder for messages.
func (f *fetch) displayPath() string {
	if len(f.path) == 0 {
		return "."
	}
	return path.Join(f.path...)
}
