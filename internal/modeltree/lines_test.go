package modeltree

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestMergeLines(t *testing.T) {
	for name, test := range map[string]struct{ base, ours, theirs, merged string }{
		"all empty":                     {"", "", "", ""},
		"one side appends":              {"a\n", "a\nb\n", "a\n", "a\nb\n"},
		"both append the same":          {"a\n", "a\nb\n", "a\nb\n", "a\nb\n"},
		"one at each end":               {"a\nb\n", "0\na\nb\n", "a\nb\nc\n", "0\na\nb\nc\n"},
		"a deletion and a change":       {"a\nb\nc\nd\n", "b\nc\nd\n", "a\nb\nc\ne\n", "b\nc\ne\n"},
		"a line break at the end":       {"a\nb\nc", "x\nb\nc", "a\nb\nc\n", "x\nb\nc\n"},
		"CRLF stays":                    {"a\r\nb\r\nc\r\n", "x\r\nb\r\nc\r\n", "a\r\nb\r\ny\r\n", "x\r\nb\r\ny\r\n"},
		"equal changes beside others":   {"a\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n", "A\nb\nc\nd\ne\n", "A\nb\nc\nd\nE\n"},
		"repeated lines":                {"x\n-\nx\n-\nx\n", "x\n-\nx\n-\nx\ny\n", "z\nx\n-\nx\n-\nx\n", "z\nx\n-\nx\n-\nx\ny\n"},
		"YAML, both add a measure":      {"cubes:\n- name: a\n  measures:\n  - name: m\n- name: b\n", "cubes:\n- name: a\n  measures:\n  - name: m\n  - name: n\n- name: b\n", "cubes:\n- name: a\n  measures:\n  - name: m\n- name: b\n  x: y\n", "cubes:\n- name: a\n  measures:\n  - name: m\n  - name: n\n- name: b\n  x: y\n"},
		"a moved line and another edit": {"a\nb\nc\nd\n", "b\nc\na\nd\n", "a\nb\nc\nd\ne\n", "b\nc\na\nd\ne\n"},
	} {
		merged, ok := mergeLines([]byte(test.base), []byte(test.ours), []byte(test.theirs))
		if !ok || string(merged) != test.merged {
			t.Errorf("%s: %q, %t; want %q", name, merged, ok, test.merged)
		}
		checkMerge(t, test.base, test.ours, test.theirs)
	}
	for name, test := range map[string]struct{ base, ours, theirs string }{
		"the same line":                  {"a\n", "b\n", "c\n"},
		"a change and a deletion":        {"a\nb\nc\n", "a\nx\nc\n", "a\nc\n"},
		"insertions in the same place":   {"a\nb\n", "a\nx\nb\n", "a\ny\nb\n"},
		"adjacent lines":                 {"a\nb\n", "x\nb\n", "a\ny\n"},
		"both append without line break": {"a", "ab", "ac"},
		"line breaks of all lines":       {"a\nb\n", "a\r\nb\r\n", "x\nb\n"},
	} {
		if merged, ok := mergeLines([]byte(test.base), []byte(test.ours), []byte(test.theirs)); ok {
			t.Errorf("%s: %q", name, merged)
		}
		checkMerge(t, test.base, test.ours, test.theirs)
	}
}

// checkMerge checks what holds for all merges.
func checkMerge(t *testing.T, base, ours, theirs string) {
	t.Helper()
	b, o, th := []byte(base), []byte(ours), []byte(theirs)
	for name, test := range map[string]struct{ base, ours, theirs, want []byte }{
		"an unchanged side":          {b, b, th, th},
		"the other unchanged side":   {b, o, b, o},
		"the same change":            {b, o, o, o},
		"the same change of nothing": {nil, o, o, o},
	} {
		if merged, ok := mergeLines(test.base, test.ours, test.theirs); !ok || string(merged) != string(test.want) {
			t.Fatalf("%s of %q and %q on %q: %q, %t", name, test.ours, test.theirs, test.base, merged, ok)
		}
	}
	merged, ok := mergeLines(b, o, th)
	again, okAgain := mergeLines(b, th, o)
	if ok != okAgain || string(merged) != string(again) {
		t.Fatalf("the directions differ: %q %q %q", base, ours, theirs)
	}
	if !ok {
		return
	}
	// No line that a side added is lost, none comes from nowhere, and none that neither side deleted is
	// lost.
	count := func(text []byte, line string) (n int) {
		for l := range strings.Lines(string(text)) {
			if l == line {
				n++
			}
		}
		return n
	}
	for line := range strings.Lines(base + "\n" + ours + "\n" + theirs + "\n" + string(merged)) {
		inBase, inOurs, inTheirs, inMerged := count(b, line), count(o, line), count(th, line), count(merged, line)
		switch {
		case inBase == 0 && inMerged < max(inOurs, inTheirs),
			inMerged > 0 && inOurs == 0 && inTheirs == 0,
			inBase == 1 && inOurs == 1 && inTheirs == 1 && inMerged == 0:
			t.Fatalf("line %q is %d times in %q, %d in %q, %d in %q, %d in the merge %q", line, inBase, base, inOurs, ours, inTheirs, theirs, inMerged, merged)
		}
	}
	checkMatch(t, b, o)
}

// checkMatch checks that a match is a common subsequence.
func checkMatch(t *testing.T, a, b []byte) {
	t.Helper()
	ids := map[string]int{}
	x, y := split(a, ids), split(b, ids)
	last := -1
	for i, j := range match(x.ids, y.ids) {
		if j < 0 {
			continue
		}
		if j <= last || x.ids[i] != y.ids[j] {
			t.Fatalf("line %d of %q is matched with %d of %q", i, a, j, b)
		}
		last = j
	}
}

func TestMergeRandomLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	clean := 0
	for range 20_000 {
		base := randomLines(random, random.IntN(12))
		ours, theirs := editLines(random, base), editLines(random, base)
		texts := [3]string{strings.Join(base, ""), strings.Join(ours, ""), strings.Join(theirs, "")}
		checkMerge(t, texts[0], texts[1], texts[2])
		if _, ok := mergeLines([]byte(texts[0]), []byte(texts[1]), []byte(texts[2])); ok {
			clean++
		}
	}
	if clean < 5000 {
		t.Errorf("only %d merges had no conflict", clean)
	}
}

func randomLines(random *rand.Rand, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = string(rune('a'+random.IntN(6))) + "\n"
	}
	return lines
}

func editLines(random *rand.Rand, lines []string) []string {
	lines = slices.Clone(lines)
	for range random.IntN(3) {
		at := random.IntN(len(lines) + 1)
		end := min(len(lines), at+random.IntN(3))
		lines = slices.Replace(lines, at, end, randomLines(random, random.IntN(3))...)
	}
	return lines
}

// TestMatchIsBounded matches long texts without a line that occurs once.
func TestMatchIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	a, b := strings.Join(randomLines(random, 200_000), ""), strings.Join(randomLines(random, 200_000), "")
	allocated := testing.AllocsPerRun(1, func() { checkMatch(t, []byte(a), []byte(b)) })
	if allocated > 10_000 {
		t.Errorf("%v allocations", allocated)
	}
}

func TestLongTextsAreMatched(t *testing.T) {
	var base, ours, theirs []string
	for i := range 20_000 {
		line := strings.Repeat("x", i%50) + "\n" // none occurs once
		base, ours, theirs = append(base, line), append(ours, line), append(theirs, line)
	}
	ours[10], theirs[19_990] = "ours\n", "theirs\n"
	merged, ok := mergeLines([]byte(strings.Join(base, "")), []byte(strings.Join(ours, "")), []byte(strings.Join(theirs, "")))
	ours[19_990] = "theirs\n"
	if !ok || string(merged) != strings.Join(ours, "") {
		t.Errorf("merged: %t", ok)
	}
}

// FuzzMergeLines checks what holds for all merges.
func FuzzMergeLines(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nc\n", "a\nb\nc\nd\n")
	f.Add("a", "a\n", "b")
	f.Add("a\na\na\n", "a\na\n", "a\na\na\na\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		if len(base)+len(ours)+len(theirs) < 10_000 {
			checkMerge(t, base, ours, theirs)
		}
	})
}
