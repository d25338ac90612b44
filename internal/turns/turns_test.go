package turns

import (
	"slices"
	"strconv"
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

// queueCase is a use of an empty queue, and the items that are left in it.
type queueCase struct {
	use  func(q *Queue[string, int])
	want []int
}

func check(t *testing.T, cases map[string]queueCase) {
	t.Helper()
	for name, c := range cases {
		var q Queue[string, int]
		c.use(&q)
		if got := drain(&q); !slices.Equal(got, c.want) || len(q.items) != 0 {
			t.Errorf("%s: got %v, want %v; %d owners are left", name, got, c.want, len(q.items))
		}
	}
}

func TestTurns(t *testing.T) {
	check(t, map[string]queueCase{
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
		"removed": {func(q *Queue[string, int]) {
			q.Push("a", 1)
			q.Push("b", 2)
			q.Push("a", 3)
			q.Remove("a", 1)
			q.Remove("b", 2)
		}, []int{3}},
	})
}

func TestFirstItems(t *testing.T) {
	check(t, map[string]queueCase{
		"a first item comes before further ones": {func(q *Queue[string, int]) {
			q.Push("a", 1)
			q.Push("a", 2)
			q.Push("b", 3)
			q.Pop()
			q.Push("c", 4)
		}, []int{3, 4, 2}},
		"a first item after the turn of its owner": {func(q *Queue[string, int]) {
			for i := range 3 {
				q.Push("a", i)
			}
			q.Push("b", 10)
			q.Push("c", 20)
			q.Push("c", 21)
			for range 3 {
				q.Pop() // 0, 10 and 20
			}
			q.Push("b", 11)
			q.Pop() // 1
			q.Push("d", 30)
		}, []int{30, 11, 21, 2}},
		"first again after the turns of all": {func(q *Queue[string, int]) {
			for i := range 4 {
				q.Push("a", i)
			}
			q.Push("b", 10)
			for range 4 {
				q.Pop() // 0, 10, 1 and 2
			}
			q.Push("b", 11)
		}, []int{11, 3}},
		"a further item after eight first ones": {func(q *Queue[string, int]) {
			q.Push("a", 0)
			q.Push("a", 1)
			for i := range 10 {
				q.Push(strconv.Itoa(i), 10+i)
			}
		}, []int{0, 10, 11, 12, 13, 14, 15, 16, 1, 17, 18, 19}},
	})
}

func TestRemove(t *testing.T) {
	var q Queue[string, int]
	q.Push("a", 1)
	if q.Remove("b", 1) || q.Remove("a", 2) || !q.Remove("a", 1) || q.Remove("a", 1) || !q.IsEmpty() {
		t.Error("an item is removed once, and only for its owner")
	}
}
