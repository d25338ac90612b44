package controls

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operator is what an operator of dashboards means.
type operator struct {
	// number and time are the operators of the data API for members of these types, and other that for the rest; ""
	// if the operator has no meaning there.
	number, time, other string
	// values is how many values it has: 0, 1, 2, or many.
	values int
	// ignoresCase is true if the data API compares without regard to case.
	ignoresCase bool
}

const many = -1

var operators = map[string]operator{
	"equals":                {"equals", "equals", "equals", many, false},
	"not_equals":            {"notEquals", "notEquals", "notEquals", many, false},
	"greater_than":          {"gt", "afterDate", "", 1, false},
	"greater_than_or_equal": {"gte", "afterOrOnDate", "", 1, false},
	"less_than":             {"lt", "beforeDate", "", 1, false},
	"less_than_or_equal":    {"lte", "beforeOrOnDate", "", 1, false},
	"contains":              {"", "", "contains", many, true},
	"not_contains":          {"", "", "notContains", many, true},
	"starts_with":           {"", "", "startsWith", many, true},
	"not_starts_with":       {"", "", "notStartsWith", many, true},
	"ends_with":             {"", "", "endsWith", many, true},
	"not_ends_with":         {"", "", "notEndsWith", many, true},
	"is_null":               {"notSet", "notSet", "notSet", 0, false},
	"is_not_null":           {"set", "set", "set", 0, false},
	"is_empty":              {"", "", "equals", 0, false},
	"is_not_empty":          {"", "", "notEquals", 0, false},
	"between":               {"between", "inDateRange", "", 2, false},
	"custom":                {"", "custom", "", 1, false},
}

// Operators returns the names of the operators, sorted.
func Operators() []string {
	names := make([]string, 0, len(operators))
	for name := range operators {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// isCleared reports whether a filter has neither operator nor value.
func (f Filter) isCleared() bool { return f.Operator == "" && f.Value == nil }

func (f Filter) name() string {
	if f.Operator == "" {
		return "equals"
	}
	return f.Operator
}

func (f Filter) validate(path string) error {
	if f.isCleared() {
		return nil
	}
	o, ok := operators[f.name()]
	if !ok {
		return &InvalidError{path + ".operator", fmt.Sprintf("%.100q; allowed: %s", f.Operator, strings.Join(Operators(), ", "))}
	}
	values, err := f.values(path)
	switch {
	case err != nil:
		return err
	case o.values == many && len(values) == 0:
		return &InvalidError{path + ".value", "operator " + f.name() + " needs a value"}
	case o.values > 0 && len(values) != o.values:
		return &InvalidError{path + ".value", fmt.Sprintf("operator %s needs %d value(s), and has %d", f.name(), o.values, len(values))}
	}
	return nil
}

// values returns the values as the data API has them.
func (f Filter) values(path string) ([]string, error) {
	list, isList := f.Value.([]any)
	if !isList && f.Value != nil {
		list = []any{f.Value}
	}
	const maxValues = 1000
	if len(list) > maxValues {
		return nil, &InvalidError{path + ".value", fmt.Sprintf("%d values; allowed: %d", len(list), maxValues)}
	}
	var out []string
	for i, v := range list {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case bool:
			out = append(out, strconv.FormatBool(v))
		case json.Number:
			out = append(out, v.String())
		case float64:
			out = append(out, strconv.FormatFloat(v, 'f', -1, 64))
		default:
			at := path + ".value"
			if isList {
				at += fmt.Sprintf("[%d]", i)
			}
			return nil, &InvalidError{at, "expected a string, number or boolean"}
		}
	}
	return out, nil
}

var dateForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)

// filter adds a filter to the query. It returns whether it did, and why not or what is different.
func (a *application) filter(f Filter) (applied bool, reason string) {
	if f.isCleared() {
		return true, ""
	}
	if !a.query.uses(view(f.Member)) {
		return false, fmt.Sprintf("the query does not use %s", view(f.Member))
	}
	o, member := operators[f.name()], a.members[f.Member]
	name := o.other
	switch member.Type {
	case "time":
		name = o.time
	case "number":
		name = o.number
	case "":
		if o.time != o.other || o.number != o.other {
			return false, "the type of the member is not known: it does not exist or is not visible"
		}
	}
	if name == "" {
		return false, fmt.Sprintf("operator %s is not for members of type %s", f.name(), member.Type)
	}
	values, err := f.values("")
	if err != nil {
		return false, err.Error()
	}
	switch {
	case name == "custom":
		a.addRange(f.Member, values[0])
	case name == "between" || name == "inDateRange":
		a.addBetween(f, name, values)
	case member.Type == "time" && o.values == many && !slices.ContainsFunc(values, func(v string) bool { return !dateForm.MatchString(v) }):
		a.addDates(f.Member, name, values)
	case f.name() == "is_empty" || f.name() == "is_not_empty":
		a.add(f.Member, name, "")
	default:
		a.add(f.Member, name, values...)
	}
	if sensitive := f.CaseSensitive; sensitive != nil && *sensitive == o.ignoresCase && o.values == many && member.Type != "time" && member.Type != "number" {
		if *sensitive {
			return true, "the data API compares without regard to case"
		}
		return true, "the data API compares with regard to case"
	}
	return true, ""
}

func condition(member, operator string, values ...string) map[string]any {
	out := map[string]any{"member": member, "operator": operator}
	if len(values) > 0 {
		out["values"] = values
	}
	return out
}

func (a *application) add(member, operator string, values ...string) {
	a.query.Filters = append(a.query.Filters, condition(member, operator, values...))
}

// addBetween adds the conditions of a range, whose ends may be excluded.
func (a *application) addBetween(f Filter, name string, values []string) {
	start, end := f.StartInclusive == nil || *f.StartInclusive, f.EndInclusive == nil || *f.EndInclusive
	isTime := name == "inDateRange"
	if isTime && start && end {
		a.add(f.Member, name, values...)
		return
	}
	pick := func(number, time string) string {
		if isTime {
			return time
		}
		return number
	}
	from, to := pick("gt", "afterDate"), pick("lt", "beforeDate")
	if start {
		from = pick("gte", "afterOrOnDate")
	}
	if end {
		to = pick("lte", "beforeOrOnDate")
	}
	a.add(f.Member, from, values[0])
	a.add(f.Member, to, values[1])
}

// addDates adds conditions on whole days: a time that equals a date is within the day.
func (a *application) addDates(member, name string, values []string) {
	if name == "notEquals" {
		for _, v := range values {
			a.add(member, "notInDateRange", v, v)
		}
		return
	}
	var days []any
	for _, v := range values {
		days = append(days, condition(member, "inDateRange", v, v))
	}
	if len(days) == 1 {
		a.query.Filters = append(a.query.Filters, days[0])
		return
	}
	a.query.Filters = append(a.query.Filters, map[string]any{"or": days})
}

// addRange adds a range in words, such as last 7 days, which only time dimensions can have.
func (a *application) addRange(member, words string) {
	a.query.TimeDimensions = append(a.query.TimeDimensions, map[string]any{"dimension": member, "dateRange": words})
}
