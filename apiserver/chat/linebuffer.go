package chat

import (
	"slices"

	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// keptCapacity is the size of the largest buffer of lines that is used again.
const keptCapacity = 16 << 10

// lineBuffer has consecutive lines of a thread as stream.Line.Encode returns them. Its memory is used again: an answer has thousands
// of short lines.
type lineBuffer struct {
	// base is the sort of the line before the first one.
	base int64
	text []byte
	// ends are where the lines end in text.
	ends []int
}

// last returns the sort of the last line.
func (b *lineBuffer) last() int64 { return b.base + int64(len(b.ends)) }

// add adds a line.
func (b *lineBuffer) add(line *stream.Line) error {
	text, err := line.AppendTo(b.text)
	if err != nil {
		return err
	}
	b.text, b.ends = text, append(b.ends, len(text))
	return nil
}

// end returns where the line of a sort ends in text.
func (b *lineBuffer) end(sort int64) int {
	if sort == b.base {
		return 0
	}
	return b.ends[sort-b.base-1]
}

// appendTo appends the lines after a sort through the last one to a list. They are valid until lines are forgotten.
func (b *lineBuffer) appendTo(list [][]byte, after int64) [][]byte {
	begin := b.end(after)
	for _, end := range b.ends[after-b.base:] {
		list = append(list, b.text[begin:end:end])
		begin = end
	}
	return list
}

// copyTo replaces other lines with those after a sort through another one.
func (b *lineBuffer) copyTo(to *lineBuffer, after, through int64) {
	to.reset(after)
	begin := b.end(after)
	to.text = append(to.text, b.text[begin:b.end(through)]...)
	for _, end := range b.ends[after-b.base : through-b.base] {
		to.ends = append(to.ends, end-begin)
	}
}

// reset removes all lines. Those that are added next are after a sort.
func (b *lineBuffer) reset(base int64) {
	if cap(b.text) > keptCapacity {
		*b = lineBuffer{}
	}
	b.base, b.text, b.ends = base, b.text[:0], b.ends[:0]
}

// keep forgets the first lines through a sort, except the last of these that are not longer than a number of bytes together.
func (b *lineBuffer) keep(through int64, size int) {
	cut := b.end(through) - size
	if cut <= 0 {
		return
	}
	n, _ := slices.BinarySearch(b.ends, cut)
	b.forget(b.base + int64(n) + 1)
}

// forget removes the lines through a sort.
func (b *lineBuffer) forget(through int64) {
	n, cut := int(through-b.base), b.end(through)
	b.base = through
	b.text = append(b.text[:0], b.text[cut:]...)
	b.ends = append(b.ends[:0], b.ends[n:]...)
	for i := range b.ends {
		b.ends[i] -= cut
	}
	if cap(b.text) > keptCapacity && len(b.text) <= keptCapacity/2 {
		b.text = slices.Clone(b.text)
	}
}
