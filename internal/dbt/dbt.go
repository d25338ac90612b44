// Package dbt converts the manifest of a dbt project into a data model: a YAML file with one cube for
// each dbt model. It is pure: it reads a stream and returns files, and the same manifest and options
// give the same bytes.
//
//	manifest.go   reads a manifest.json, node by node
//	catalog.go    reads a catalog.json, table by table
//	select.go     which models become cubes, and their names
//	columns.go    columns to dimensions and measures
//	types.go      data types and names to types of dimensions
//	keys.go       primary keys
//	joins.go      joins
//	references.go the relations and columns that tests and constraints refer to
//	sql.go        tables and columns in the SQL of a warehouse
//	yaml.go       the files
//	profile.go    the profile with which dbt parses a project
//
// Metrics and semantic models of dbt are not converted.
package dbt

import (
	"fmt"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// MaxManifestBytes is the maximum length of a manifest.
const MaxManifestBytes = 50 << 20

// Defaults of the options.
const (
	DefaultOutputPath       = "model/cubes/dbt"
	DefaultNamePrefix       = "dbt_"
	DefaultTitlePrefix      = "(dbt) "
	DefaultPrimaryKeySuffix = "_id"
	DefaultCatalog          = "hive_metastore"
)

const (
	// maxName is the maximum length in bytes of a name of a model or column. Names are repeated in the
	// output, so without a maximum it could be much longer than the manifest.
	maxName = 255
	// maxWarnings is the maximum number of warnings of a conversion.
	maxWarnings = 200
)

// Error is the reason for which a manifest is not converted. The message is for users.
type Error struct{ Message string }

// Error implements error.
func (e *Error) Error() string { return e.Message }

func errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Options configure a conversion. Absent ones have the documented defaults.
type Options struct {
	v1alpha1.DbtOptions
	// Catalog is the first part of tables in Databricks, CUBEJS_DB_DATABRICKS_CATALOG of the deployment;
	// DefaultCatalog if empty.
	Catalog string
	// Selected are the unique ids of the models that a selector of dbt has selected; all if nil.
	Selected map[string]bool
	// Types are the types of columns in the data source, for those whose type is not declared; nil if they are
	// not known.
	Types *Catalog
}

// Directory returns the directory of the generated files, relative to the root of the data model.
func (o Options) Directory() (string, error) {
	given := o.OutputPath
	if given == "" {
		return DefaultOutputPath, nil
	}
	directory := path.Clean(strings.Trim(given, "/"))
	if directory == "." || directory == ".." || strings.HasPrefix(directory, "../") || !utf8.ValidString(given) {
		return "", errorf("outputPath: %q is not a directory in the data model", clip(given))
	}
	return directory, nil
}

func (o Options) namePrefix() string  { return ptr.Deref(o.NamePrefix, DefaultNamePrefix) }
func (o Options) titlePrefix() string { return ptr.Deref(o.TitlePrefix, DefaultTitlePrefix) }
func (o Options) measures() bool      { return ptr.Deref(o.DefaultMeasures, true) }
func (o Options) joins() bool         { return ptr.Deref(o.Joins, true) }
func (o Options) reverseJoins() bool  { return ptr.Deref(o.ReverseJoins, false) }
func (o Options) martsOnly() bool     { return ptr.Deref(o.MartsOnly, false) }

// keySuffixes returns the suffixes of key columns: a list, separated by commas. It is empty if keys are
// not detected by name.
func (o Options) keySuffixes() []string {
	var suffixes []string
	for suffix := range strings.SplitSeq(ptr.Deref(o.PrimaryKeySuffix, DefaultPrimaryKeySuffix), ",") {
		if suffix = strings.ToLower(strings.TrimSpace(suffix)); suffix != "" {
			suffixes = append(suffixes, suffix)
		}
	}
	return suffixes
}

// Stats describe a manifest.
type Stats struct {
	Models, Sources, Macros int
	// DbtVersion is that of the dbt that wrote it; empty if unknown.
	DbtVersion string
	// GeneratedAt is the time when dbt wrote it; zero if unknown.
	GeneratedAt time.Time
}

// File is a file of the data model.
type File struct {
	// Path is relative to the root of the data model.
	Path    string
	Content []byte
}

// Model is the result of a conversion.
type Model struct {
	// Files are sorted by path. Each has one cube.
	Files []File
	// Warnings name what was left out, and why. There are at most 200.
	Warnings []string

	directory string
	// present are the header lines of models that are in the manifest but not selected.
	present map[string]bool
}

// Stale returns which of the existing files of the data model are to be removed: those in the output
// directory that a conversion generated for models that are no longer in the dbt project. Files of
// models that are in the project but not selected are kept, as are files without the header of
// generated files.
func (m *Model) Stale(existing []string, read func(path string) ([]byte, error)) ([]string, error) {
	written := make(map[string]bool, len(m.Files))
	for _, f := range m.Files {
		written[f.Path] = true
	}
	var stale []string
	for _, name := range existing {
		if !strings.HasPrefix(name, m.directory+"/") || path.Ext(name) != fileSuffix || written[name] {
			continue
		}
		content, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if of, generated := modelLine(content); generated && !m.present[of] {
			stale = append(stale, name)
		}
	}
	return stale, nil
}

// warn adds a warning.
func (m *Model) warn(format string, args ...any) {
	switch n := len(m.Warnings); {
	case n < maxWarnings-1:
		m.Warnings = append(m.Warnings, fmt.Sprintf(format, args...))
	case n == maxWarnings-1:
		m.Warnings = append(m.Warnings, "there are more warnings")
	}
}

// clip shortens a name for a message.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	cut := s[:most]
	for !utf8.ValidString(cut) && cut != "" {
		cut = cut[:len(cut)-1]
	}
	return cut + "…"
}
