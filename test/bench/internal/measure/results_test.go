package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoSections = `# Page

<!-- begin bench-a -->
old a
<!-- end bench-a -->

between

<!-- begin bench-ab -->
old ab
<!-- end bench-ab -->
`

func TestBenchReplacesOnlyItsOwnSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(twoSections), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // writing twice gives the same page
		if err := writeSection(file, "a", "\n2 cores\n\n| new |\n"); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(twoSections, "old a\n", "\n2 cores\n\n| new |\n\n", 1)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestBenchIsRefusedAPageWithoutItsSection(t *testing.T) {
	tests := []struct{ name, text, section, want string }{
		{"no section", "# Page\n", "x", `"<!-- begin bench-a -->" occurs 0 times, want once`},
		{"no end", "<!-- begin bench-a -->\n", "x", `"<!-- end bench-a -->" occurs 0 times, want once`},
		{"two sections", twoSections + twoSections, "x", `"<!-- begin bench-a -->" occurs 2 times, want once`},
		{"wrong order", "<!-- end bench-a -->\n<!-- begin bench-a -->\n", "x", `"<!-- end bench-a -->" comes before "<!-- begin bench-a -->"`},
		{
			"section of another bench inside", "<!-- begin bench-a -->\n<!-- begin bench-b -->\n<!-- end bench-b -->\n<!-- end bench-a -->\n", "x",
			"the section of bench-a has the marker of another bench",
		},
		{
			"end in the section of another bench", "<!-- begin bench-a -->\n<!-- begin bench-b -->\n<!-- end bench-a -->\n<!-- end bench-b -->\n", "x",
			"the section of bench-a has the marker of another bench",
		},
		{"marker in the results", twoSections, "<!-- end bench-b -->", "the results of bench-a have a marker"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := replaceSection(tt.text, "a", tt.section); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestPageHasASectionForEveryBench also checks that the Makefile has a target for every bench.
func TestPageHasASectionForEveryBench(t *testing.T) {
	const root = "../../../.."
	pages, sections := map[string]string{}, 0
	for _, page := range []string{pageOfBenches, pageOfScale} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = string(text)
		sections += strings.Count(string(text), beginOf)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	benches, err := filepath.Glob(filepath.Join(root, "test/bench/*/main.go"))
	if err != nil || len(benches) == 0 {
		t.Fatalf("found %d benches: %v", len(benches), err)
	}
	for _, main := range benches {
		bench := filepath.Base(filepath.Dir(main))
		if _, err := replaceSection(pages[pageOf(bench)], bench, "x"); err != nil {
			t.Errorf("%s: %v", pageOf(bench), err)
		}
		if !strings.Contains(string(makefile), "\nbench-"+bench+":") {
			t.Errorf("the Makefile has no target bench-%s", bench)
		}
		source, err := os.ReadFile(main)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(source), `measure.OpenResults("`+bench+`", `) {
			t.Errorf("%s does not publish as bench %q", main, bench)
		}
	}
	if sections != len(benches) {
		t.Errorf("the pages have %d sections for %d benches", sections, len(benches))
	}
}
