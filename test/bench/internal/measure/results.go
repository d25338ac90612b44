package measure

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// The files with the results of benches, relative to the root of the repository, where the benches run.
const (
	pageOfBenches = "docs/operations/sizing.md"
	pageOfScale   = "docs/operations/fleet.md"
)

// pageOf returns the file with the results of a bench.
func pageOf(bench string) string {
	if strings.HasPrefix(bench, "scale-") {
		return pageOfScale
	}
	return pageOfBenches
}

// DocsFlag defines the flag -docs: whether the results replace those in the documentation.
func DocsFlag() *bool {
	return flag.Bool("docs", false, "replace this bench's section in docs/operations with the results")
}

// Results publishes the results of one bench: on stdout and, with -docs, in the section of the page that belongs to
// the bench.
type Results struct {
	bench string
	docs  bool
	load  string // before the bench
}

// OpenResults returns the Results of a bench, or an error if its section cannot be written. It is called before the
// bench measures.
func OpenResults(bench string, docs bool) (*Results, error) {
	if docs {
		page := pageOf(bench)
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		if _, err := replaceSection(string(text), bench, ""); err != nil {
			return nil, fmt.Errorf("%s: %w", page, err)
		}
	}
	return &Results{bench: bench, docs: docs, load: Load()}, nil
}

// Print writes the setup of the run, the machine and the tables to stdout.
func (r *Results) Print(setup string, tables func(io.Writer)) {
	fmt.Print(r.text(setup, tables))
}

// Publish prints the results and, with -docs, replaces the section of the page.
func (r *Results) Publish(setup string, tables func(io.Writer)) error {
	text := r.text(setup, tables)
	fmt.Print(text)
	if !r.docs {
		return nil
	}
	return writeSection(pageOf(r.bench), r.bench, text)
}

func (r *Results) text(setup string, tables func(io.Writer)) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s; load averages %s before and %s after.\n%s.\n\n", time.Now().Format(time.DateOnly), machine(), r.load, Load(), setup)
	tables(&text)
	return text.String()
}

// machine describes the processor, the memory, the operating system and the version of Go.
func machine() string {
	text := fmt.Sprintf("%d cores", runtime.NumCPU())
	if memory, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib float64
		if _, err := fmt.Sscanf(string(memory), "MemTotal: %f kB", &kib); err == nil {
			text += fmt.Sprintf(", %.0f GiB", kib/(1<<20))
		}
	}
	return fmt.Sprintf("%s, %s/%s, %s", text, runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// writeSection replaces the section of a bench in a file. A crash leaves the old file or the new one.
func writeSection(file, bench, section string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	replaced, err := replaceSection(string(text), bench, section)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(file), ".section-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.WriteString(replaced)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(temporary.Name(), 0o644)
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}

const (
	markerPrefix = "<!-- "
	beginOf      = markerPrefix + "begin bench-"
	endOf        = markerPrefix + "end bench-"
	markerSuffix = " -->\n"
)

// replaceSection returns the text with another section of a bench. The section is between two lines that name the
// bench, <!-- begin bench-x --> and <!-- end bench-x -->. Both must be there once, in this order, without the marker
// of another bench between them; so no bench can write into the section of another one.
func replaceSection(text, bench, section string) (string, error) {
	begin, end := beginOf+bench+markerSuffix, endOf+bench+markerSuffix
	for _, marker := range []string{begin, end} {
		if n := strings.Count(text, marker); n != 1 {
			return "", fmt.Errorf("%q occurs %d times, want once", strings.TrimSpace(marker), n)
		}
	}
	before, rest, _ := strings.Cut(text, begin)
	old, after, found := strings.Cut(rest, end)
	switch {
	case !found:
		return "", fmt.Errorf("%q comes before %q", strings.TrimSpace(end), strings.TrimSpace(begin))
	case hasMarker(old):
		return "", fmt.Errorf("the section of bench-%s has the marker of another bench", bench)
	case hasMarker(section):
		return "", fmt.Errorf("the results of bench-%s have a marker", bench)
	}
	return before + begin + "\n" + strings.TrimSpace(section) + "\n\n" + end + after, nil
}

func hasMarker(text string) bool {
	return strings.Contains(text, beginOf) || strings.Contains(text, endOf)
}
