package measure

import (
	"strings"
	"testing"
)

func TestSizes(t *testing.T) {
	s := Sizes{1}
	if err := s.Set("10,200"); err != nil || s.String() != "10,200" {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{"", "x", "0", "10,", "200,10", "-1"} {
		if err := s.Set(text); err == nil || s.String() != "10,200" {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

func TestGrowthMarksWhatIsNotProportional(t *testing.T) {
	g := Growth{Sizes: []int{100, 1000}}
	g.Total("proportional", " MiB", 5, 50)
	g.Total("with a constant part", " MiB", 50, 95)
	g.Total("quadratic", " s", 1, 100)
	g.Each("constant", "", 4, 4)
	g.Each("growing", "", 4, 8)
	g.Each("none at first", "", 0, 8)
	g.Each("not at last", " s", 4, NotMeasured)
	var text strings.Builder
	g.Print(&text, "Objects")
	want := `| Objects | 100 | 1,000 | Growth |
|---|---:|---:|---:|
| proportional | 5 MiB | 50 MiB | 1.00 |
| with a constant part | 50 MiB | 95 MiB | 0.19 |
| quadratic | 1 s | 100 s | **10.00** |
| constant | 4 | 4 | 1.00 |
| growing | 4 | 8 | **2.00** |
| none at first | 0 | 8 |  |
| not at last | 4 s | not measured |  |

`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}
