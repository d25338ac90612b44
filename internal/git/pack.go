package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

const (
	// maxPackObjects bounds the index, which is built in memory: about 300 bytes
	// an object.
	maxPackObjects = 1_000_000
	// maxObjectSize bounds one object, which the library inflates in memory,
	// bytes. Git hosts reject files of 100 MB and more.
	maxObjectSize = 128 << 20

	objectCacheSize = 8 * cache.MiByte
	// streamedSize is the size from which a file is streamed, not read into
	// memory.
	streamedSize = 1 << 20
)

var (
	errPackSize      = errors.New("pack too large")
	errPackObjects   = errors.New("too many objects")
	errObjectSize    = errors.New("object too large")
	errMalformedPack = errors.New("malformed pack")
)

// localFailure is an error of the local file system, not of the remote.
type localFailure struct{ err error }

// Error implements error.
func (e *localFailure) Error() string { return e.err.Error() }

func failLocally(err error) error {
	if err == nil {
		return nil
	}
	return &localFailure{err}
}

// pack is a downloaded pack file in a folder with the layout of .git.
type pack struct {
	dir  string
	file string
}

// storePack writes a pack of at most limit bytes into dir.
func storePack(ctx context.Context, dir string, r io.Reader, limit int64) (*pack, error) {
	p := &pack{dir: dir, file: filepath.Join(dir, "objects", "pack", "incoming")}
	if err := os.MkdirAll(filepath.Dir(p.file), 0o700); err != nil {
		return nil, failLocally(err)
	}
	file, err := os.OpenFile(p.file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, failLocally(err)
	}
	n, err := io.Copy(localWriter{file}, io.LimitReader(contextReader{ctx, r}, limit+1))
	if closeErr := file.Close(); err == nil {
		err = failLocally(closeErr)
	}
	if err == nil && n > limit {
		err = errPackSize
	}
	return p, err
}

// localWriter wraps its errors in localFailure.
type localWriter struct{ w io.Writer }

// Write implements io.Writer.
func (l localWriter) Write(p []byte) (int, error) {
	n, err := l.w.Write(p)
	return n, failLocally(err)
}

// contextReader is a reader that fails when its context ends.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// packReader is a seekable reader that fails when its context ends.
type packReader struct {
	contextReader
	io.Seeker
}

// open checks and indexes the pack, and returns it as an object store.
func (p *pack) open(ctx context.Context) (*filesystem.Storage, error) {
	file, err := os.Open(p.file)
	if err != nil {
		return nil, failLocally(err)
	}
	defer file.Close()
	if err := checkPack(packReader{contextReader{ctx, file}, file}); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, failLocally(err)
	}
	if err := p.index(packReader{contextReader{ctx, file}, file}); err != nil {
		return nil, err
	}
	return filesystem.NewStorageWithOptions(osfs.New(p.dir), cache.NewObjectLRU(objectCacheSize), filesystem.Options{
		KeepDescriptors:      true,
		LargeObjectThreshold: streamedSize,
	}), nil
}

func (p *pack) remove() error { return os.RemoveAll(p.dir) }

// checkPack scans a pack and returns an error if the number of objects, the
// size of an object or the declared target size of a delta exceeds its limit:
// the library inflates objects in memory.
func checkPack(r io.ReadSeeker) error {
	scanner := packfile.NewScanner(r)
	_, count, err := scanner.Header()
	if err != nil {
		return malformed(err)
	}
	if count > maxPackObjects {
		return errPackObjects
	}
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return malformed(err)
		}
		if header.Length > maxObjectSize {
			return errObjectSize
		}
		var start prefix
		if _, _, err := scanner.NextObject(&start); err != nil {
			return malformed(err)
		}
		if header.Type.IsDelta() && start.deltaTarget() > maxObjectSize {
			return errObjectSize
		}
	}
	return nil
}

// malformed wraps err in errMalformedPack unless it is a context's error.
func malformed(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", errMalformedPack, err)
}

// prefix is a writer that stores the first bytes: enough for the two sizes at
// the start of a delta.
type prefix struct {
	bytes [20]byte
	n     int
}

// Write implements io.Writer; it never fails.
func (p *prefix) Write(b []byte) (int, error) {
	p.n += copy(p.bytes[p.n:], b)
	return len(b), nil
}

// deltaTarget returns the target size of a delta, gitformat-pack(5) heading
// "Deltified representation". Building the index detects a malformed delta.
func (p *prefix) deltaTarget() uint64 {
	rest := p.bytes[:p.n]
	_, rest = deltaSize(rest)
	target, _ := deltaSize(rest)
	return target
}

func deltaSize(b []byte) (size uint64, rest []byte) {
	for i, c := range b {
		size |= uint64(c&0x7f) << (7 * min(i, 9))
		if c&0x80 == 0 {
			return size, b[i+1:]
		}
	}
	return size, nil
}

// index writes the pack's index and renames both files to their final names.
// Building the index hashes every object, which verifies the content.
func (p *pack) index(r io.ReadSeeker) error {
	writer := new(idxfile.Writer)
	parser, err := packfile.NewParser(packfile.NewScanner(r), writer)
	if err != nil {
		return malformed(err)
	}
	checksum, err := parser.Parse()
	if err != nil {
		return malformed(err)
	}
	index, err := writer.Index()
	if err != nil {
		return malformed(err)
	}
	return failLocally(p.name(checksum, index))
}

func (p *pack) name(checksum plumbing.Hash, index *idxfile.MemoryIndex) error {
	name := filepath.Join(filepath.Dir(p.file), "pack-"+checksum.String())
	file, err := os.OpenFile(name+".idx", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = idxfile.NewEncoder(file).Encode(index)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(p.file, name+".pack")
}
