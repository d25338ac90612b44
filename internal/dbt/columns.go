package dbt

import (
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// dimension is a dimension of a cube.
type dimension struct {
	// column is the name of the column.
	column      string
	name        string
	sql         string
	kind        kind
	description string
	// index is the position among the dimensions of the cube.
	index int
	// key reports whether the column is of the primary key, and foreign whether it refers to another
	// model.
	key, foreign bool
}

// measure is a measure of a cube.
type measure struct{ name, aggregate, sql string }

// addDimensions adds a dimension for each documented column.
func (c *conversion) addDimensions(to *cube) {
	for i := range to.Columns {
		c.addDimension(to, &to.Columns[i])
	}
}

// addDimension adds a dimension for a column and returns it; nil if the column cannot be written in SQL.
func (c *conversion) addDimension(to *cube, column *column) *dimension {
	name := string(column.Name)
	if d := to.exact[name]; d != nil {
		return d
	}
	sql, err := c.warehouse.column(name, ptr.Deref(column.Quote, false))
	if err != nil {
		c.model.warn("column %q of %s is left out: %s", clip(name), clip(string(to.UniqueID)), err)
		return nil
	}
	d := &dimension{
		column: name, name: to.members.unique(identifier(name)), sql: sql, kind: c.kindOf(to, column),
		description: strings.TrimSpace(string(column.Description)), index: len(to.dimensions),
	}
	to.dimensions = append(to.dimensions, d)
	to.exact[name] = d
	if lower := strings.ToLower(name); to.folded[lower] == nil {
		to.folded[lower] = d
	}
	return d
}

// kindOf returns the type of the dimension for a column: by its declared type, else by that in the catalog, else by its
// name.
func (c *conversion) kindOf(of *cube, column *column) kind {
	declared, name := string(column.DataType), string(column.Name)
	if c.options.Types != nil && strings.TrimSpace(declared) == "" {
		if found, ok := c.options.Types.kindOf(of.UniqueID, name); ok {
			return found
		}
	}
	return kindOf(declared, name)
}

// dimension returns the dimension of a column; nil if there is none. Names of columns may differ in
// case, as most warehouses ignore it.
func (c *cube) dimension(column string) *dimension {
	if d := c.exact[column]; d != nil {
		return d
	}
	return c.folded[strings.ToLower(column)]
}

// additive are the parts of names of columns whose sum has a meaning.
var additive = []string{"amount", "price", "cost", "total", "value"}

func isAdditive(column string) bool {
	return slices.ContainsFunc(additive, func(part string) bool { return strings.Contains(strings.ToLower(column), part) })
}

// addMeasures adds the number of rows, and the sums of additive columns.
func (c *conversion) addMeasures(to *cube) {
	if !c.options.measures() {
		return
	}
	to.measures = append(to.measures, measure{name: to.members.unique("count"), aggregate: "count"})
	for _, d := range to.dimensions {
		if d.kind == number && isAdditive(d.column) && !d.key && !d.foreign {
			to.measures = append(to.measures, measure{name: to.members.unique(identifier("total_" + d.column)), aggregate: "sum", sql: d.sql})
		}
	}
}
