package measure

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// upTo returns n times, from n milliseconds down to one.
func upTo(n int) Times {
	t := Times{}
	for i := n; i > 0; i-- {
		t.Each = append(t.Each, time.Duration(i)*time.Millisecond)
		t.Took += t.Each[len(t.Each)-1]
	}
	return t
}

func TestPercentiles(t *testing.T) {
	for _, test := range []struct {
		n          int
		percentile float64
		want       float64
	}{
		{0, 0.5, 0},
		{1, 0.5, 1}, {1, 0.99, 1},
		{2, 0.5, 2},
		{3, 0.5, 2},
		{100, 0, 1}, {100, 0.5, 51}, {100, 0.99, 100}, {100, 1, 100},
		{1000, 0.99, 991},
	} {
		times := upTo(test.n)
		before := slices.Clone(times.Each)
		if got := times.Milliseconds(test.percentile); got != test.want {
			t.Errorf("percentile %g of 1 to %d ms is %g, want %g", test.percentile, test.n, got, test.want)
		}
		if !slices.Equal(times.Each, before) {
			t.Errorf("percentile %g of %d times changes their order", test.percentile, test.n)
		}
	}
}

func TestRatesAndSums(t *testing.T) {
	both := upTo(4).With(upTo(1)) // 10 and 1 ms
	if len(both.Each) != 5 || both.Took != 11*time.Millisecond {
		t.Errorf("4 and 1 times are %d, which took %s", len(both.Each), both.Took)
	}
	if got := (Times{Each: both.Each, Took: 2 * time.Second}).PerSecond(); got != 2.5 {
		t.Errorf("5 in 2 s are %g a second, want 2.5", got)
	}
	if got := Total(map[string]int{"a": 1, "b": 2}); got != 3 {
		t.Errorf("1 and 2 are %d", got)
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}} {
		before := slices.Clone(test.values)
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %g, want %g", before, got, test.want)
		}
		if !slices.Equal(test.values, before) {
			t.Errorf("median of %v changes their order", before)
		}
	}
}

func TestSpreadRunsEveryPieceOnce(t *testing.T) {
	const n = 100
	for _, callers := range []int{1, 7, 2 * n} {
		var did [n]atomic.Int64
		times, err := Spread(t.Context(), n, callers, func(_ context.Context, i int) (time.Duration, error) {
			did[i].Add(1)
			return time.Duration(i), nil
		})
		if err != nil || len(times.Each) != n || times.Took <= 0 {
			t.Fatalf("%d callers: %d times, which took %s: %v", callers, len(times.Each), times.Took, err)
		}
		for i := range n {
			if did[i].Load() != 1 || times.Each[i] != time.Duration(i) {
				t.Errorf("%d callers: piece %d was done %d times and took %d", callers, i, did[i].Load(), times.Each[i])
			}
		}
	}
}

func TestTogetherReturnsAllTimes(t *testing.T) {
	broken := errors.New("broken")
	work := func(worker int, _ time.Time) ([]time.Duration, error) {
		each := slices.Repeat([]time.Duration{time.Duration(worker)}, worker)
		if worker == 4 {
			return each, broken
		}
		return each, nil
	}
	for workers, want := range map[int]error{4: nil, 5: broken} {
		times, err := Together(workers, work)
		if len(times.Each) != workers*(workers-1)/2 || times.Took <= 0 || !errors.Is(err, want) {
			t.Errorf("%d workers return %d times: %v, want %v", workers, len(times.Each), err, want)
		}
	}
}

func TestSpreadStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	var last atomic.Int64
	_, err := Spread(t.Context(), 1000, 1, func(_ context.Context, i int) (time.Duration, error) {
		last.Store(int64(i))
		if i == 3 {
			return 0, broken
		}
		return 0, nil
	})
	if !errors.Is(err, broken) || last.Load() != 3 {
		t.Errorf("piece 3 fails: the last piece is %d, the error %v", last.Load(), err)
	}
}
