package dbt

import (
	"slices"
	"strings"
)

// kind is the type of a dimension.
type kind string

// The kinds.
const (
	boolean    kind = "boolean"
	number     kind = "number"
	characters kind = "string"
	moment     kind = "time"
)

// types are the types of warehouses that are not characters, in lower case and without parameters.
var types = map[string]kind{
	"bool": boolean, "boolean": boolean,

	"int": number, "integer": number, "bigint": number, "smallint": number, "tinyint": number, "byteint": number, "mediumint": number,
	"int2": number, "int4": number, "int8": number, "int16": number, "int32": number, "int64": number, "int128": number, "int256": number, "hugeint": number,
	"uint8": number, "uint16": number, "uint32": number, "uint64": number, "uint128": number, "uint256": number, "ubigint": number, "uinteger": number, "usmallint": number, "utinyint": number,
	"long": number, "short": number, "serial": number, "bigserial": number, "smallserial": number, "serial4": number, "serial8": number,
	"decimal": number, "dec": number, "numeric": number, "number": number, "bignumeric": number, "bigdecimal": number, "money": number,
	"decimal32": number, "decimal64": number, "decimal128": number, "decimal256": number, "fixed": number,
	"float": number, "float4": number, "float8": number, "float16": number, "float32": number, "float64": number, "double": number, "double precision": number, "real": number,

	"date": moment, "date32": moment, "datetime": moment, "datetime64": moment, "smalldatetime": moment, "time": moment, "timetz": moment,
	"time without time zone": moment, "time with time zone": moment,
	"timestamp": moment, "timestamptz": moment, "timestampltz": moment, "timestampntz": moment, "timestamp_ntz": moment, "timestamp_ltz": moment, "timestamp_tz": moment,
	"timestamp without time zone": moment, "timestamp with time zone": moment, "timestamp with local time zone": moment,
	"timestamp_s": moment, "timestamp_ms": moment, "timestamp_ns": moment,
}

// wrappers are types of ClickHouse around another type.
var wrappers = []string{"nullable(", "lowcardinality("}

// kindOf returns the type of the dimension for a column, by its declared type, and without one by its
// name. Types that are not known, such as json and arrays, are characters.
func kindOf(declared, name string) kind {
	declared = strings.ToLower(strings.TrimSpace(declared))
	if declared == "" {
		return kindByName(name)
	}
	for {
		i := slices.IndexFunc(wrappers, func(w string) bool { return strings.HasPrefix(declared, w) })
		if i < 0 {
			break
		}
		declared = strings.TrimSpace(strings.TrimSuffix(declared[len(wrappers[i]):], ")"))
	}
	if known, ok := types[withoutParameters(declared)]; ok {
		return known
	}
	return characters
}

// withoutParameters returns a type without what is in parentheses or angle brackets:
// "timestamp without time zone" for "timestamp(6) without time zone". That of an array keeps its
// brackets.
func withoutParameters(declared string) string {
	var out strings.Builder
	depth := 0
	for _, r := range declared {
		switch r {
		case '(', '<':
			depth++
			out.WriteByte(' ')
		case ')', '>':
			depth--
		default:
			if depth <= 0 {
				out.WriteRune(r)
			}
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// Beginnings, ends and whole names of columns by which a type is guessed.
var (
	timeSuffixes   = []string{"_at", "_date", "_time", "_timestamp", "_datetime", "_ts"}
	timeNames      = []string{"date", "time", "timestamp", "datetime"}
	flagPrefixes   = []string{"is_", "has_", "was_", "can_"}
	flagSuffixes   = []string{"_flag"}
	numberPrefixes = []string{"num_", "number_of_", "count_"}
	numberSuffixes = []string{"_id", "_count", "_quantity", "_qty", "_pct", "_percent", "_percentage", "_rate", "_ratio", "_score", "_sum", "_avg"}
	numberNames    = []string{"id", "count", "quantity", "qty", "age", "score"}
)

func kindByName(name string) kind {
	name = strings.ToLower(name)
	is := func(names []string, match func(name, part string) bool) bool {
		return slices.ContainsFunc(names, func(part string) bool { return match(name, part) })
	}
	equal := func(name, part string) bool { return name == part }
	switch {
	case is(flagPrefixes, strings.HasPrefix), is(flagSuffixes, strings.HasSuffix):
		return boolean
	case is(timeNames, equal), is(timeSuffixes, strings.HasSuffix):
		return moment
	case is(numberNames, equal), is(numberPrefixes, strings.HasPrefix), is(numberSuffixes, strings.HasSuffix), isAdditive(name):
		return number
	}
	return characters
}
