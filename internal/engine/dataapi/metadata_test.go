package dataapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine/dataapi"
)

func TestEntities(t *testing.T) {
	const meta = `{"cubes":[
		{"name":"orders","title":"Orders","description":"All","type":"cube","sql":"SELECT secret","measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count","sql":"x"}],"dimensions":[{"name":"orders.id","type":"number","primaryKey":true},{"name":"orders.at"}]},
		{"name":"sales","type":"view","segments":[{"name":"sales.big"}]},
		{"name":"old"}]}`
	const want = `{"entities":[` +
		`{"name":"orders","title":"Orders","description":"All","type":"cube",` +
		`"measures":[{"name":"orders.count","title":"Orders Count","shortTitle":"Count","type":"number","aggType":"count"}],` +
		`"dimensions":[{"name":"orders.id","type":"number","primaryKey":true},{"name":"orders.at"}],"segments":[]},` +
		`{"name":"sales","type":"view","measures":[],"dimensions":[],"segments":[{"name":"sales.big"}]},` +
		`{"name":"old","type":"cube","measures":[],"dimensions":[],"segments":[]}]}` + "\n"
	if got, err := entities(strings.NewReader(meta)); err != nil || got != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for _, empty := range []string{`{"cubes":[]}`, `{"cubes":null}`, `{}`, `{"compilerId":{"a":[1]}}`} {
		if got, err := entities(strings.NewReader(empty)); err != nil || got != "{\"entities\":[]}\n" {
			t.Errorf("%s: %s, %v", empty, got, err)
		}
	}
}

// entities returns the listing of entities.
func entities(meta io.Reader) (string, error) {
	var out bytes.Buffer
	err := dataapi.Entities(&out, meta)
	return out.String(), err
}

// TestValuesOfEntities: the listing has the values that are neither null, empty nor false, and is valid JSON in any case.
func TestValuesOfEntities(t *testing.T) {
	for member, want := range map[string]string{
		`{"name":"a","title":null,"primaryKey":false,"description":""}`: `{"name":"a"}`,
		`{}`:                                  `{"name":""}`,
		`{"name":"a","name":"b"}`:             `{"name":"b"}`,
		`{"name":"a","title":"b\u00e9é\n"}`:   `{"name":"a","title":"béé\n"}`,
		`{"name":"a","title":"<&>\u2028"}`:    "{\"name\":\"a\",\"title\":\"<&>\u2028\"}",
		`{"name":"a","title":"\ud800"}`:       "{\"name\":\"a\",\"title\":\"\ufffd\"}",
		"{\"name\":\"a\",\"title\":\"\xff\"}": "{\"name\":\"a\",\"title\":\"\ufffd\"}",
		`{"meta":{"name":"b","list":[{}]},"name":"a","x":[1,{"name":"c"}],"primaryKey":true}`: `{"name":"a","primaryKey":true}`,
	} {
		want = `{"entities":[{"name":"","type":"cube","measures":[` + want + `],"dimensions":[],"segments":[]}]}` + "\n"
		got, err := entities(strings.NewReader(`{"cubes":[{"measures":[` + member + `]}]}`))
		if err != nil || got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s: %q, %v, want %q", member, got, err, want)
		}
	}
	for _, wrong := range []string{`{"name":1}`, `{"name":{}}`, `{"title":true}`, `{"primaryKey":"true"}`, `"a"`, `[]`} {
		if got, err := entities(strings.NewReader(`{"cubes":[{"measures":[` + wrong + `]}]}`)); !errors.Is(err, dataapi.ErrMalformed) {
			t.Errorf("%s: %s, %v", wrong, got, err)
		}
	}
}

func TestMetadataThatCannotBeListed(t *testing.T) {
	broken := errors.New("connection reset")
	many := func(before, repeated string, size int) io.Reader {
		return strings.NewReader(before + strings.Repeat(repeated, size/len(repeated)))
	}
	for name, tc := range map[string]struct {
		meta io.Reader
		want error
	}{
		"HTML":                 {strings.NewReader("<html>"), dataapi.ErrMalformed},
		"a list":               {strings.NewReader("[]"), dataapi.ErrMalformed},
		"empty":                {strings.NewReader(""), dataapi.ErrMalformed},
		"cubes that are text":  {strings.NewReader(`{"cubes":"a"}`), dataapi.ErrMalformed},
		"a name that is none":  {strings.NewReader(`{"cubes":[{"name":1}]}`), dataapi.ErrMalformed},
		"truncated":            {strings.NewReader(`{"cubes":[{"name":"a"}`), dataapi.ErrMalformed},
		"a broken connection":  {io.MultiReader(strings.NewReader(`{"cubes":[`), iotest.ErrReader(broken)), broken},
		"a long document":      {many(`{"more":[],"cubes":[{"x":[0],"meta":0`, `,"meta":"aaaaaaaaaaaa"`, 9<<20), dataapi.ErrTooLarge},
		"a long listing":       {many(`{"cubes":[{"name":"a","dataSource":"b"}`, `,{"name":"a","dataSource":"b"}`, 7<<20), dataapi.ErrTooLarge},
		"a long value":         {many(`{"cubes":[{"name":"`, `a`, 3<<20), dataapi.ErrTooLarge},
		"a long skipped value": {many(`{"cubes":[{"meta":[0`, `,0`, 3<<20), dataapi.ErrTooLarge},
		"deep nesting":         {many(`{"cubes":[{"meta":`, `[`, 1<<19), dataapi.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := io.ReadAll(tc.meta)
			again := func() io.Reader {
				if err != nil {
					return io.MultiReader(bytes.NewReader(all), iotest.ErrReader(err))
				}
				return bytes.NewReader(all)
			}
			if _, err := entities(again()); !errors.Is(err, tc.want) {
				t.Errorf("entities: %v, want %v", err, tc.want)
			}
			if _, err := dataapi.DataSources(again(), nil); !errors.Is(err, tc.want) {
				t.Errorf("data sources: %v, want %v", err, tc.want)
			}
		})
	}
}

func TestDataSources(t *testing.T) {
	env := func(pairs ...string) (out []v1alpha1.EnvVar) {
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, v1alpha1.EnvVar{Name: pairs[i], Value: &pairs[i+1]})
		}
		return out
	}
	const named = `{"cubes":[{"name":"a","dataSource":"second","measures":[{}]},{"name":"b","dataSource":"default"},{"dataSource":"second","name":"c"}]}`
	for name, tc := range map[string]struct {
		meta string
		env  []v1alpha1.EnvVar
		want []dataapi.DataSource
		err  error
	}{
		"one":             {`{}`, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres"}}, nil},
		"several":         {`{}`, env("CUBEJS_DATASOURCES", "default, second", "CUBEJS_DB_TYPE", "postgres", "CUBEJS_DS_SECOND_DB_TYPE", "duckdb"), []dataapi.DataSource{{Name: "default", Type: "postgres"}, {Name: "second", Type: "duckdb"}}, nil},
		"in the model":    {named, env("CUBEJS_DB_TYPE", "postgres"), []dataapi.DataSource{{Name: "default", Type: "postgres", Entities: []string{"b"}}, {Name: "second", Entities: []string{"a", "c"}}}, nil},
		"unknown":         {`{"cubes":[{"name":"a"}]}`, nil, nil, dataapi.ErrNoDataSources},
		"type in secrets": {`{}`, []v1alpha1.EnvVar{{Name: "CUBEJS_DB_TYPE", ValueFrom: &v1alpha1.EnvVarSource{}}}, nil, dataapi.ErrNoDataSources},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := dataapi.DataSources(strings.NewReader(tc.meta), tc.env)
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// FuzzEntities: a listing is valid JSON, or there is one of the known errors.
func FuzzEntities(f *testing.F) {
	for _, seed := range []string{
		`{"cubes":[{"name":"a","measures":[{"name":"a.b","primaryKey":true}],"segments":null}]}`,
		`{"compilerId":"x","cubes":[{"measures":[{"title":"\ud800"}]},{"type":"view"}]}`, `{"cubes":[[]]}`, "{\"cubes\":[{\"title\":\"\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		listing, err := entities(bytes.NewReader(meta))
		switch {
		case err == nil && !json.Valid([]byte(listing)):
			t.Errorf("%q: %q", meta, listing)
		case err != nil && !errors.Is(err, dataapi.ErrMalformed) && !errors.Is(err, dataapi.ErrTooLarge):
			t.Errorf("%q: %v", meta, err)
		}
	})
}

// BenchmarkEntities derives the listing of 37,000 measures, from 7 MiB of metadata.
func BenchmarkEntities(b *testing.B) {
	measure := `{"name":"orders.count","title":"Orders Count","type":"number","meta":{"padding":"` + strings.Repeat("x", 100) + `"}}`
	cube := `{"name":"orders","type":"cube","measures":[` + measure + strings.Repeat(","+measure, 99) + `]}`
	meta := fmt.Sprintf(`{"cubes":[%s%s]}`, cube, strings.Repeat(","+cube, 369))
	var out bytes.Buffer
	b.SetBytes(int64(len(meta)))
	b.ReportAllocs()
	for b.Loop() {
		out.Reset()
		if err := dataapi.Entities(&out, strings.NewReader(meta)); err != nil {
			b.Fatal(err)
		}
	}
}
