package filter

import (
	"testing"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
)

var benchmarks = map[string]string{
	"eq":        `userName eq "bjensen@example.com"`,
	"folded":    `displayName co "ångs"`,
	"email":     `emails[type eq "work"].value eq "bjensen@example.com"`,
	"valuePath": `userType eq "Employee" and emails[type eq "work" and value co "@example.com"]`,
	"dateTime":  `meta.lastModified gt "2011-05-13T04:42:34Z"`,
}

func BenchmarkParse(b *testing.B) {
	for name, s := range benchmarks {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	e := mustParse(b, benchmarks["valuePath"])
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(e, schema.User); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	src := bjensen()
	for name, s := range benchmarks {
		p := compile(b, s, schema.User)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Match(src)
			}
		})
	}
}

// TestAllocations checks upper bounds on allocations, which do not depend on the machine.
func TestAllocations(t *testing.T) {
	if allocs := testing.AllocsPerRun(100, func() { _, _ = Parse(benchmarks["eq"]) }); allocs >= 20 {
		t.Errorf("Parse: %v allocations", allocs)
	}
	for _, name := range []string{"eq", "email", "valuePath"} {
		p, src := compile(t, benchmarks[name], schema.User), bjensen()
		if allocs := testing.AllocsPerRun(100, func() { p.Match(src) }); allocs > 0 {
			t.Errorf("Match of %s: %v allocations", name, allocs)
		}
	}
}
