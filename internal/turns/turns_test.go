package turns

import (
	"slices"
	"testing"
)

// drain returns the remaining items.
func drain(q *Queue[string, int]) (items []int) {
	for !q.IsEmpty() {
		item, _ := q.Pop()
		items = append(items, item)
	}
	return items
}

func TestTurns(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(q *Queue[string, int])
		want []int
	}{
		"empty":              {func(*Queue[string, int]) {}, nil},
		"order of one owner": {func(q *Queue[string, int]) { q.Push("a", 1); q.Push("a", 2); q.Push("a", 3) }, []int{1, 2, 3}},
		"turns": {func(q *Queue[string, int]) {
			for i := range 3 {
				q.Push("a", i)
			}
			q.Push("b", 10)
			q.Push("c", 20)
			q.Push("b", 11)
		}, []int{0, 10, 20, 1, 11, 2}},
		"a turn that was taken": {func(q *Queue[string, int]) {
			q.Push("a", 1)
			q.Push("a", 2)
			q.Push("b", 3)
			q.Pop()
			q.Push("c", 4)
		}, []int{3, 2, 4}},
		"removed": {func(q *Queue[string, int]) {
			q.Push("a", 1)
			q.Push("b", 2)
			q.Push("a", 3)
			q.Remove("a", 1)
			q.Remove("b", 2)
		}, []int{3}},
	} {
		var q Queue[string, int]
		c.use(&q)
		if got := drain(&q); !slices.Equal(got, c.want) || len(q.items) != 0 {
			t.Errorf("%s: got %v, want %v; %d owners are left", name, got, c.want, len(q.items))
		}
	}
}

func TestRemove(t *testing.T) {
	var q Queue[string, int]
	q.Push("a", 1)
	if q.Remove("b", 1) || q.Remove("a", 2) || !q.Remove("a", 1) || q.Remove("a", 1) || !q.IsEmpty() {
		t.Error("an item is removed once, and only for its owner")
	}
}
