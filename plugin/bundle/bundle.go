// Package bundle writes a support archive: objects, events and logs, without secrets.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/internal/masking"
)

// lastApplied is the annotation in which kubectl keeps a copy of the object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Bundle are the files of an archive. Secrets are hidden when it is written: values of fields and
// variables by their names, credentials by their forms, and known values wherever they are.
type Bundle struct {
	files    []file
	problems []string
	known    masking.Known
}

type file struct {
	name string
	// content is a text as []byte, or a JSON value that is written as YAML.
	content any
}

// Hide hides a value, of a key of a Secret, in all files.
func (b *Bundle) Hide(name, value string) { b.known.Add(name, value) }

// Problem records that something could not be read.
func (b *Bundle) Problem(what string, err error) {
	b.problems = append(b.problems, fmt.Sprintf("%s: %v", what, err))
}

// Problems is the number of things that could not be read.
func (b *Bundle) Problems() int { return len(b.problems) }

// Object adds an object, or any other value, as YAML.
func (b *Bundle) Object(name string, value any) error {
	masked, err := Masked(value)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.files = append(b.files, file{name, masked})
	return nil
}

// Text adds a text, such as a log.
func (b *Bundle) Text(name string, data []byte) {
	b.files = append(b.files, file{name, data})
}

// Masked returns a value as JSON without its secrets, and objects without what describes them twice.
func Masked(value any) (any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var decoded any
	if err := json.Unmarshal(data, &decoded); err != nil {
		return nil, err
	}
	strip(decoded)
	return masking.Value(decoded), nil
}

// strip removes managedFields and the copy of kubectl from an object, or from the items of a list.
func strip(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			strip(item)
		}
	case map[string]any:
		if items, ok := v["items"].([]any); ok {
			strip(items)
		}
		metadata, _ := v["metadata"].(map[string]any)
		delete(metadata, "managedFields")
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, lastApplied)
	}
}

// Write writes the archive, a tar.gz whose files are below root. The same files give the same archive.
func (b *Bundle) Write(w io.Writer, root string, modified time.Time) error {
	files := slices.Clone(b.files)
	if len(b.problems) > 0 {
		files = append(files, file{"problems.txt", []byte(strings.Join(b.problems, "\n") + "\n")})
	}
	slices.SortStableFunc(files, func(x, y file) int { return strings.Compare(x.name, y.name) })
	replacer := b.known.Replacer()
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, f := range files {
		data, err := f.masked(replacer)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		header := &tar.Header{Name: path.Join(root, f.name), Mode: 0o600, Size: int64(len(data)), ModTime: modified, Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

// masked returns the content of a file without known values and credentials. In an object, known values are hidden
// before it is encoded: YAML breaks long lines at spaces, and doubles quotes.
func (f file) masked(known *strings.Replacer) ([]byte, error) {
	text, isText := f.content.([]byte)
	if !isText {
		var err error
		if text, err = yaml.Marshal(replace(f.content, known)); err != nil {
			return nil, err
		}
	}
	return mask(text, known), nil
}

// replace returns a JSON value whose strings are replaced.
func replace(value any, replacer *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		return replacer.Replace(v)
	case []any:
		replaced := make([]any, len(v))
		for i := range v {
			replaced[i] = replace(v[i], replacer)
		}
		return replaced
	case map[string]any:
		replaced := make(map[string]any, len(v))
		for name, inner := range v {
			replaced[replacer.Replace(name)] = replace(inner, replacer)
		}
		return replaced
	}
	return value
}

// mask hides known values and credentials in a text.
func mask(data []byte, known *strings.Replacer) []byte {
	lines := strings.Split(known.Replace(string(bytes.ToValidUTF8(data, []byte("?")))), "\n")
	masking.Lines(lines)
	return []byte(strings.Join(lines, "\n"))
}
