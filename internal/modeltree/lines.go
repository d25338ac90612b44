package modeltree

import (
	"bytes"
	"slices"
)

// mergeLines merges the lines of two texts with a common base (Khanna, Kunal and Pierce, "A Formal
// Investigation of Diff3", 2007). Lines of the base that both texts have divide them into chunks. A
// chunk that one side did not change is taken from the other. It returns false if both changed a
// chunk in different ways.
func mergeLines(base, ours, theirs []byte) (merged []byte, ok bool) {
	ids := map[string]int{}
	b, o, t := split(base, ids), split(ours, ids), split(theirs, ids)
	inOurs, inTheirs := match(b.ids, o.ids), match(b.ids, t.ids)
	merged = make([]byte, 0, max(len(ours), len(theirs)))
	var atBase, atOurs, atTheirs int
	for {
		stable := atBase
		for stable < len(b.ids) && (inOurs[stable] < 0 || inTheirs[stable] < 0) {
			stable++
		}
		endOurs, endTheirs := len(o.ids), len(t.ids)
		if stable < len(b.ids) {
			endOurs, endTheirs = inOurs[stable], inTheirs[stable]
		}
		chunk, merges := mergeChunk(b.part(atBase, stable), o.part(atOurs, endOurs), t.part(atTheirs, endTheirs))
		if !merges {
			return nil, false
		}
		merged = append(merged, chunk...)
		if stable == len(b.ids) {
			return merged, true
		}
		merged = append(merged, b.part(stable, stable+1).text...)
		atBase, atOurs, atTheirs = stable+1, endOurs+1, endTheirs+1
	}
}

// mergeChunk merges a chunk of lines.
func mergeChunk(base, ours, theirs lines) (text []byte, ok bool) {
	switch {
	case slices.Equal(ours.ids, theirs.ids) || slices.Equal(theirs.ids, base.ids):
		return ours.text, true
	case slices.Equal(ours.ids, base.ids):
		return theirs.text, true
	}
	return nil, false
}

// lines are the lines of a text, each with its line break. Equal lines have the same id.
type lines struct {
	text []byte
	ids  []int
	ends []int // in text
}

// split returns the lines of a text. ids has the ids of lines so far.
func split(text []byte, ids map[string]int) lines {
	l := lines{text: text}
	for start := 0; start < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		id, known := ids[string(text[start:end])]
		if !known {
			id = len(ids)
			ids[string(text[start:end])] = id
		}
		l.ids, l.ends = append(l.ids, id), append(l.ends, end)
		start = end
	}
	return l
}

// part returns the lines from one up to another.
func (l lines) part(from, to int) lines {
	start := func(line int) int {
		if line == 0 {
			return 0
		}
		return l.ends[line-1]
	}
	return lines{text: l.text[start(from):start(to)], ids: l.ids[from:to]}
}
