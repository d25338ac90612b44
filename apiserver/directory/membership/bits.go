package membership

import mathbits "math/bits"

// wordSize is the number of positions in a word.
const wordSize = 64

// bits is a set of positions from 0, with one bit each.
type bits []uint64

// newBits returns an empty set for positions below n.
func newBits(n int) bits { return make(bits, (n+wordSize-1)/wordSize) }

func (b bits) has(i int) bool {
	return i/wordSize < len(b) && b[i/wordSize]&(1<<(i%wordSize)) != 0
}

func (b bits) add(i int) { b[i/wordSize] |= 1 << (i % wordSize) }

func (b bits) remove(i int) { b[i/wordSize] &^= 1 << (i % wordSize) }

func (b bits) count() int {
	n := 0
	for _, word := range b {
		n += mathbits.OnesCount64(word)
	}
	return n
}

// positions returns the positions in ascending order.
func (b bits) positions() []int {
	var all []int
	for w, word := range b {
		for ; word != 0; word &= word - 1 {
			all = append(all, w*wordSize+mathbits.TrailingZeros64(word))
		}
	}
	return all
}
