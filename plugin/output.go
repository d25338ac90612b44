package plugin

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// output is the value of -o.
type output struct {
	format    string
	noHeaders bool
	formats   []string
	// validate, if not nil, checks the other flags and the arguments: its error is one of usage.
	validate func(args []string) error
}

// register adds -o to a command that reads.
func (o *output) register(command *cobra.Command, more ...string) {
	o.formats = append([]string{"table", "json", "yaml"}, more...)
	command.Flags().StringVarP(&o.format, "output", "o", "table", "Output format. One of: ("+strings.Join(o.formats, ", ")+").")
	command.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Do not print the headers of a table.")
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.formats, cobra.ShellCompDirectiveNoFileComp))
	command.PreRunE = func(_ *cobra.Command, args []string) error {
		if o.validate != nil {
			if err := o.validate(args); err != nil {
				return err
			}
		}
		if !slices.Contains(o.formats, o.format) {
			return fmt.Errorf("-o is %q, must be one of %s", o.format, strings.Join(o.formats, ", "))
		}
		return nil
	}
}

// print prints a value as JSON or YAML, or as text.
func (o *output) print(w io.Writer, value any, text func(io.Writer) error) error {
	switch o.format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "    ")
		return encoder.Encode(value)
	case "yaml":
		data, err := yaml.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	return text(w)
}

// separator returns what separates the values of a stream: that of documents for YAML.
func (o *output) separator() string {
	if o.format == "yaml" {
		return "---\n"
	}
	return "\n"
}

// withoutBreaks replaces what would break a row of a table.
var withoutBreaks = strings.NewReplacer("\r", "", "\n", " ", "\t", " ")

// table prints rows below headers, as kubectl does.
func (o *output) table(w io.Writer, headers []string, rows [][]string) error {
	table := &metav1.Table{}
	for _, name := range headers {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for _, row := range rows {
		cells := make([]any, len(row))
		for i, cell := range row {
			cells[i] = withoutBreaks.Replace(cell)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{}})
	}
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: o.noHeaders}).PrintObj(table, w)
}

// age returns the time since a time as kubectl writes it.
func (s *session) age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(s.Now().Sub(since))
}
