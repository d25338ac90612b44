package modeltree

import "sort"

const (
	// maxCells bounds the table of the longest common subsequence. Longer parts of texts without a line
	// that occurs once in both are not matched: they count as changed.
	maxCells = 1 << 20
	// maxAnchorDepth bounds how often a part is divided by lines that occur once in both.
	maxAnchorDepth = 64
)

// match matches lines of a with equal lines of b, in order. It returns, for each line of a, that of b
// or -1. First are matched the lines that both begin and end with, then those that occur once in both,
// then the longest common subsequences of what is between them.
func match(a, b []int) []int {
	m := matcher{a: a, b: b, matched: make([]int, len(a))}
	for i := range m.matched {
		m.matched[i] = -1
	}
	m.match(span{0, len(a), 0, len(b)}, 0)
	return m.matched
}

// matcher has the state of match.
type matcher struct {
	a, b    []int
	matched []int
}

// span is a part of a and a part of b.
type span struct{ fromA, toA, fromB, toB int }

func (m *matcher) match(s span, depth int) {
	for s.fromA < s.toA && s.fromB < s.toB && m.a[s.fromA] == m.b[s.fromB] {
		m.matched[s.fromA] = s.fromB
		s.fromA, s.fromB = s.fromA+1, s.fromB+1
	}
	for s.fromA < s.toA && s.fromB < s.toB && m.a[s.toA-1] == m.b[s.toB-1] {
		s.toA, s.toB = s.toA-1, s.toB-1
		m.matched[s.toA] = s.toB
	}
	if s.fromA == s.toA || s.fromB == s.toB || depth > maxAnchorDepth {
		return
	}
	anchors := m.anchors(s)
	if len(anchors) == 0 {
		m.longest(s)
		return
	}
	for _, anchor := range anchors {
		m.matched[anchor.a] = anchor.b
		m.match(span{s.fromA, anchor.a, s.fromB, anchor.b}, depth+1)
		s.fromA, s.fromB = anchor.a+1, anchor.b+1
	}
	m.match(s, depth+1)
}

// pair is a line of a and an equal one of b.
type pair struct{ a, b int }

// anchors returns the longest sequence of lines that occur once in both parts and have the same
// order in both.
func (m *matcher) anchors(s span) []pair {
	type occurrence struct{ inA, inB, b int }
	found := map[int]*occurrence{}
	for _, id := range m.a[s.fromA:s.toA] {
		if found[id] == nil {
			found[id] = &occurrence{}
		}
		found[id].inA++
	}
	for i := s.fromB; i < s.toB; i++ {
		if o := found[m.b[i]]; o != nil {
			o.inB, o.b = o.inB+1, i
		}
	}
	var unique []pair
	for i := s.fromA; i < s.toA; i++ {
		if o := found[m.a[i]]; o.inA == 1 && o.inB == 1 {
			unique = append(unique, pair{i, o.b})
		}
	}
	return longestIncreasing(unique)
}

// longestIncreasing returns the longest subsequence in which b increases too.
func longestIncreasing(all []pair) []pair {
	var tails []int // the last pair of the best subsequence of each length
	before := make([]int, len(all))
	for i, p := range all {
		length := sort.Search(len(tails), func(n int) bool { return all[tails[n]].b >= p.b })
		before[i] = -1
		if length > 0 {
			before[i] = tails[length-1]
		}
		if length == len(tails) {
			tails = append(tails, i)
		} else {
			tails[length] = i
		}
	}
	longest := make([]pair, len(tails))
	if len(tails) == 0 {
		return nil
	}
	for i, n := tails[len(tails)-1], len(tails)-1; n >= 0; i, n = before[i], n-1 {
		longest[n] = all[i]
	}
	return longest
}

// longest matches a longest common subsequence, if the parts are short enough.
func (m *matcher) longest(s span) {
	rows, columns := s.toA-s.fromA, s.toB-s.fromB
	if rows > maxCells/columns {
		return
	}
	// length[i][j] is that of the subsequence of the lines from i and from j.
	length := make([][]int32, rows+1)
	for i := range length {
		length[i] = make([]int32, columns+1)
	}
	for i := rows - 1; i >= 0; i-- {
		for j := columns - 1; j >= 0; j-- {
			if m.a[s.fromA+i] == m.b[s.fromB+j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < rows && j < columns; {
		switch {
		case m.a[s.fromA+i] == m.b[s.fromB+j]:
			m.matched[s.fromA+i] = s.fromB + j
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
}
