package queries

import (
	"bufio"
	"encoding/json"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/quoin-dev/quoin/internal/query"
	"github.com/quoin-dev/quoin/internal/query/controls"
)

// arrowRows is the number of rows in a record batch.
const arrowRows = 8192

// timeLayout is that of times in results.
const timeLayout = "2006-01-02T15:04:05"

// writeArrow writes a result as a stream of Apache Arrow. Numbers that are no 64-bit integers become floating-point numbers,
// and times have milliseconds and no time zone. The time zone of the query is in the metadata of the schema.
func writeArrow(out *bufio.Writer, result *query.Result, _ []controls.Outcome) (err error) {
	fields := make([]arrow.Field, len(result.Columns))
	for i, c := range result.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: arrowType(result, i), Nullable: true}
	}
	metadata := arrow.NewMetadata([]string{"timeZone", "limitReached"}, []string{result.TimeZone, strconv.FormatBool(result.LimitReached)})
	schema := arrow.NewSchema(fields, &metadata)
	records := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer records.Release()
	w := ipc.NewWriter(out, ipc.WithSchema(schema))
	for from := 0; from < len(result.Rows); from += arrowRows {
		for _, row := range result.Rows[from:min(from+arrowRows, len(result.Rows))] {
			for i, v := range row {
				appendValue(records.Field(i), v)
			}
		}
		batch := records.NewRecordBatch()
		err := w.Write(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return w.Close()
}

// arrowType returns the type of a column: that of its values, if all of them fit, and otherwise of strings or floating-point numbers.
func arrowType(result *query.Result, column int) arrow.DataType {
	switch result.Columns[column].Type {
	case query.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case query.Integer:
		if all(result, column, isInteger) {
			return arrow.PrimitiveTypes.Int64
		}
		return arrow.PrimitiveTypes.Float64
	case query.Number:
		return arrow.PrimitiveTypes.Float64
	case query.Time:
		if all(result, column, isTime) {
			return &arrow.TimestampType{Unit: arrow.Millisecond}
		}
	}
	return arrow.BinaryTypes.String
}

// all reports whether the values of a column that are not null have a property.
func all(result *query.Result, column int, has func(v any) bool) bool {
	for _, row := range result.Rows {
		if row[column] != nil && !has(row[column]) {
			return false
		}
	}
	return true
}

func isInteger(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	_, err := n.Int64()
	return err == nil
}

func isTime(v any) bool {
	text, ok := v.(string)
	if !ok {
		return false
	}
	_, err := time.Parse(timeLayout, text)
	return err == nil
}

// appendValue appends a value of the type of a column.
func appendValue(to array.Builder, v any) {
	switch to := to.(type) {
	case *array.BooleanBuilder:
		if b, ok := v.(bool); ok {
			to.Append(b)
			return
		}
	case *array.Int64Builder:
		if n, ok := v.(json.Number); ok {
			i, _ := n.Int64() // arrowType has checked it
			to.Append(i)
			return
		}
	case *array.Float64Builder:
		if n, ok := v.(json.Number); ok {
			f, _ := n.Float64() // beyond its range it is infinite
			to.Append(f)
			return
		}
	case *array.TimestampBuilder:
		if text, ok := v.(string); ok {
			at, _ := time.Parse(timeLayout, text) // arrowType has checked it
			to.Append(arrow.Timestamp(at.UnixMilli()))
			return
		}
	case *array.StringBuilder:
		if text, ok := v.(string); ok {
			to.Append(text)
			return
		}
	}
	to.AppendNull()
}
