package chat

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// TestLineBufferMatchesList compares a buffer with a list of lines after random operations.
func TestLineBufferMatchesList(t *testing.T) {
	const first = 7
	random := rand.New(rand.NewPCG(1, 2))
	b, copied := &lineBuffer{base: first}, &lineBuffer{}
	var all []string // all[i] has the sort first+1+i
	for range 5000 {
		switch random.IntN(4) {
		case 0: // keep
			through := b.base + random.Int64N(b.last()-b.base+1)
			size := random.IntN(500)
			before := b.base
			b.keep(through, size)
			length := func(after int64) int { return len(strings.Join(all[after-first:through-first], "")) }
			if b.base < before || b.base > through || length(b.base) > size || b.base > before && length(b.base-1) <= size {
				t.Fatalf("keep(%d, %d): the base %d becomes %d; the lines after it have %d bytes", through, size, before, b.base, length(b.base))
			}
		default:
			length := random.IntN(60)
			if random.IntN(100) == 0 {
				length = 2 * keptCapacity
			}
			line := stream.Delta("a", strings.Repeat("x", length), stream.PathFinal)
			line.Sort = b.last() + 1
			if err := b.add(&line); err != nil {
				t.Fatal(err)
			}
			text, _ := line.Encode()
			all = append(all, string(text))
		}
		after := b.base + random.Int64N(b.last()-b.base+1)
		through := after + random.Int64N(b.last()-after+1)
		b.copyTo(copied, after, through)
		for name, c := range map[string]struct {
			got  [][]byte
			want []string
		}{
			"appendTo": {b.appendTo(nil, after), all[after-first:]},
			"copyTo":   {copied.appendTo(nil, after), all[after-first : through-first]},
		} {
			if diff := cmp.Diff(fmt.Sprintf("%q", c.want), fmt.Sprintf("%q", c.got)); diff != "" {
				t.Fatalf("%s after %d through %d: %s", name, after, through, diff)
			}
		}
	}
	b.keep(b.last(), 0)
	if b.last() != first+int64(len(all)) || len(b.ends) != 0 || cap(b.text) > keptCapacity {
		t.Errorf("without lines the buffer has the last sort %d, %d lines and a capacity of %d bytes", b.last(), len(b.ends), cap(b.text))
	}
}

// TestLineBufferIsUsedAgain: streams that are stored as fast as they are received need no further memory.
func TestLineBufferIsUsedAgain(t *testing.T) {
	line := stream.Delta("a", "some text ", stream.PathFinal)
	text, err := line.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b, read := &lineBuffer{}, &lineBuffer{}
	var list [][]byte
	piece := func() {
		b.text = append(b.text, text...) // as add does, without the pool of encoders
		b.ends = append(b.ends, len(b.text))
		b.copyTo(read, b.last()-1, b.last())
		list = read.appendTo(list[:0], b.last()-1)
		b.keep(b.last()-1, maxKept)
	}
	for range 100 {
		piece()
	}
	if n := testing.AllocsPerRun(1000, piece); n > 0 {
		t.Errorf("%.1f allocations for a line", n)
	}
}
