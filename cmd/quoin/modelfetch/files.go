package modelfetch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quoin-dev/quoin/internal/git"
)

const (
	// TerminationLog is the kubelet's default terminationMessagePath.
	TerminationLog = "/dev/termination-log"
	// maxTermination is the kubelet's limit of its size, bytes.
	maxTermination = 4096
	// maxKey bounds one file of the credentials, bytes: the limit of a Secret.
	maxKey = 1 << 20
)

// ReadCredentials reads a mounted Secret with a file for each key. It ignores
// names that start with a dot, which are the kubelet's. Without a folder the
// credentials are anonymous.
func ReadCredentials(url, dir string) (git.Credentials, error) {
	data := map[string][]byte{}
	if dir == "" {
		return git.ParseCredentials(url, data)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return git.Credentials{}, fmt.Errorf("read the credentials: %w", err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		value, err := readKey(filepath.Join(dir, entry.Name()))
		if err != nil {
			return git.Credentials{}, fmt.Errorf("read the credentials: key %q: %w", entry.Name(), err)
		}
		if value != nil {
			data[entry.Name()] = value
		}
	}
	return git.ParseCredentials(url, data)
}

// readKey reads a file, following the links of a Secret volume. It returns nil
// if path is not a regular file.
func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	value, err := io.ReadAll(io.LimitReader(file, maxKey+1))
	if err == nil && len(value) > maxKey {
		err = errors.New("larger than 1 MiB")
	}
	return value, err
}

// WriteTermination writes the termination message of the container, if its file
// exists.
func WriteTermination(path, message string) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return
	}
	defer file.Close()
	message = message[:min(len(message), maxTermination)]
	_, _ = io.WriteString(file, strings.ToValidUTF8(message, "")) // truncation may split a character
}
