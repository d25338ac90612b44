// Command dbt measures the conversion of manifests of dbt with 500, 1,000 and 5,000 models: time and
// memory, each in a process of its own.
//
//	make bench-dbt
//	go run ./test/bench/dbt -models 1000
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

const (
	// columns is the number of columns of a model.
	columns = 20
	// maxMemory is the bar for the memory of the process in MiB.
	maxMemory = 300
	// maxGrowth is the bar for the time of the most models, divided by that of a tenth of them.
	maxGrowth = 13
)

// options are the flags.
type options struct {
	models, runs int
	convert      string
	docs         *bool
}

func main() {
	o := options{docs: measure.DocsFlag()}
	flag.IntVar(&o.models, "models", 5000, "the largest `number` of models")
	flag.IntVar(&o.runs, "runs", 5, "`number` of conversions of each manifest")
	flag.StringVar(&o.convert, "convert", "", "convert one `manifest` and print the figures; the bench starts itself with it")
	flag.Parse()
	process.Main("dbt", func(ctx context.Context) error {
		if o.convert != "" {
			return convert(o.convert)
		}
		return run(ctx, o)
	})
}

// figures are those of a conversion.
type figures struct {
	Took  time.Duration
	Peak  float64
	Files int
}

// convert converts a manifest and prints the figures.
func convert(name string) error {
	begin := time.Now()
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	manifest, err := dbt.Read(f)
	if err != nil {
		return err
	}
	model, err := manifest.Convert(dbt.Options{})
	if err != nil {
		return err
	}
	took := time.Since(begin)
	memory, err := process.MemoryOf(os.Getpid())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(figures{took, memory.Peak, len(model.Files)})
}

func run(ctx context.Context, o options) error {
	if err := process.CheckFlags(map[string]int{"models": 10, "runs": 1}); err != nil {
		return err
	}
	results, err := measure.OpenResults("dbt", *o.docs)
	if err != nil {
		return err
	}
	directory, err := os.MkdirTemp("", "quoin-dbt-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	r := &measure.Report{}
	for _, models := range []int{o.models / 10, o.models / 5, o.models} {
		if err := measureModels(ctx, o, r, directory, models); err != nil {
			return err
		}
	}
	growth := r.Find(what(o.models)).Milliseconds(0.5) / r.Find(what(o.models/10)).Milliseconds(0.5)
	r.AtMost(fmt.Sprintf("time of %d models ÷ time of %d", o.models, o.models/10), growth, maxGrowth, "")
	setup := fmt.Sprintf("models of %d columns with two tests and one reference each; reading and converting, in a process of its own", columns)
	return results.Publish(setup, func(w io.Writer) {
		r.PrintBars(w)
		r.PrintRows(w, "Times")
	})
}

func what(models int) string { return fmt.Sprintf("%d models", models) }

// measureModels measures the conversion of a manifest with a number of models.
func measureModels(ctx context.Context, o options, r *measure.Report, directory string, models int) error {
	name := filepath.Join(directory, fmt.Sprintf("%d.json", models))
	size, err := writeManifest(name, models)
	if err != nil {
		return err
	}
	times, peak := measure.Times{}, 0.0
	for range o.runs {
		var got figures
		output, err := exec.CommandContext(ctx, os.Args[0], "-convert", name).Output()
		if err != nil {
			return fmt.Errorf("convert %d models: %w", models, err)
		}
		if err := json.Unmarshal(output, &got); err != nil {
			return err
		}
		if got.Files != models {
			return fmt.Errorf("%d files of %d models", got.Files, models)
		}
		times.Each, times.Took, peak = append(times.Each, got.Took), times.Took+got.Took, max(peak, got.Peak)
	}
	r.Add(what(models), times, "%.1f MiB of manifest, %.0f MiB of memory at most", float64(size)/(1<<20), peak)
	if models == o.models {
		r.AtMost(fmt.Sprintf("peak memory of the process with %d models", models), peak, maxMemory, " MiB")
	}
	return nil
}

// writeManifest writes a manifest of the size of real ones, and returns its length.
func writeManifest(name string, models int) (int64, error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	w := bufio.NewWriter(f)
	fmt.Fprint(w, `{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json","dbt_version":"1.12.3","adapter_type":"postgres","project_name":"shop"},"nodes":{`)
	for i := range models {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		writeModel(w, i)
	}
	fmt.Fprint(w, `},"sources":{},"macros":{}}`)
	if err := w.Flush(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// code is the SQL of a model.
var code = strings.Repeat("select something from somewhere; ", 40)

// writeModel writes a model and its tests.
func writeModel(w io.Writer, i int) {
	id := fmt.Sprintf("model.shop.entity_%d", i)
	fmt.Fprintf(w, `%[1]q:{"unique_id":%[1]q,"resource_type":"model","name":"entity_%[2]d","alias":"entity_%[2]d","package_name":"shop","path":"marts/entity_%[2]d.sql","database":"warehouse","schema":"analytics","relation_name":"\"warehouse\".\"analytics\".\"entity_%[2]d\"","description":"Entities of kind %[2]d.","raw_code":%[3]q,"config":{"materialized":"table","enabled":true,"meta":{},"tags":[]},"columns":{`, id, i, code)
	for j := range columns {
		column := fmt.Sprintf("column_%d_amount", j)
		switch j {
		case 0:
			column = fmt.Sprintf("entity_%d_id", i)
		case 1:
			column = "parent_id"
		}
		if j > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `%[1]q:{"name":%[1]q,"description":"What column %[2]d of a row has.","meta":{},"data_type":"numeric(12,2)","constraints":[],"quote":null,"tags":[]}`, column, j)
	}
	fmt.Fprint(w, `}}`)
	writeTests(w, id, i)
}

// writeTests writes the tests of a model: its key, and a reference to the model before it.
func writeTests(w io.Writer, id string, i int) {
	key := fmt.Sprintf("entity_%d_id", i)
	for _, name := range []string{"unique", "not_null"} {
		fmt.Fprintf(w, `,"test.shop.%[1]s_%[2]d":{"resource_type":"test","attached_node":%[3]q,"column_name":%[4]q,"config":{"severity":"ERROR","error_if":"!= 0"},"test_metadata":{"name":%[1]q,"kwargs":{"column_name":%[4]q}}}`, name, i, id, key)
	}
	if i > 0 {
		fmt.Fprintf(w, `,"test.shop.relationships_%[1]d":{"resource_type":"test","attached_node":%[2]q,"column_name":"parent_id","depends_on":{"nodes":["model.shop.entity_%[3]d",%[2]q]},"config":{},"test_metadata":{"name":"relationships","kwargs":{"column_name":"parent_id","to":"ref('entity_%[3]d')","field":"entity_%[3]d_id"}}}`,
			i, id, i-1)
	}
}
