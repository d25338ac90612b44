package dbt

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// addKeys marks the dimensions of the primary key of a cube: those of a declared constraint, else one
// column with the tests unique and not_null, else one column by its name.
func (c *conversion) addKeys(of *cube, tested []string) {
	if c.addDeclaredKey(of) {
		return
	}
	var candidates []*dimension
	for _, name := range tested {
		if d := of.dimension(name); d != nil {
			candidates = append(candidates, d)
		}
	}
	if len(candidates) == 0 {
		for _, d := range of.dimensions {
			if c.isKeyName(d.column) {
				candidates = append(candidates, d)
			}
		}
	}
	if key := of.preferred(candidates); key != nil {
		key.key = true
	}
}

// addDeclaredKey marks the columns of the constraint primary_key. A constraint with a column that is not
// documented is ignored: part of a key is none.
func (c *conversion) addDeclaredKey(of *cube) bool {
	var declared []text
	for i := range of.Columns {
		for j := range of.Columns[i].Constraints {
			if of.Columns[i].Constraints[j].Type == "primary_key" {
				declared = append(declared, of.Columns[i].Name)
			}
		}
	}
	for i := range of.Constraints {
		if of.Constraints[i].Type == "primary_key" && len(of.Constraints[i].Columns) > 0 {
			declared = of.Constraints[i].Columns
		}
	}
	var key []*dimension
	for _, name := range declared {
		d := of.dimension(string(name))
		if d == nil {
			c.model.warn("the constraint primary_key of %s is ignored: column %q is not documented", clip(string(of.UniqueID)), clip(string(name)))
			return false
		}
		key = append(key, d)
	}
	for _, d := range key {
		d.key = true
	}
	return len(key) > 0
}

// isKeyName reports whether a column is a key by its name: the suffix _id also matches id.
func (c *conversion) isKeyName(column string) bool {
	column = strings.ToLower(column)
	return slices.ContainsFunc(c.options.keySuffixes(), func(suffix string) bool {
		return strings.HasSuffix(column, suffix) || column == strings.TrimLeft(suffix, "_")
	})
}

// preferred returns the best of several candidates for a key: not a column that refers to another model
// unless all do; one that is named after the model; id; the first.
func (c *cube) preferred(candidates []*dimension) *dimension {
	own := slices.DeleteFunc(slices.Clone(candidates), func(d *dimension) bool { return d.foreign })
	if len(own) == 0 {
		own = candidates
	}
	if len(own) == 0 {
		return nil
	}
	entities := entitiesOf(string(c.Name))
	best, rank := own[0], 0
	for _, d := range own {
		switch column := strings.ToLower(d.column); {
		case rank < 2 && slices.ContainsFunc(entities, func(entity string) bool {
			return strings.HasPrefix(column, entity+"_") && !strings.Contains(column[len(entity)+1:], "_")
		}):
			best, rank = d, 2
		case rank < 1 && column == "id":
			best, rank = d, 1
		}
	}
	return best
}

// layer is the prefix of models of a layer, with that of a source: "stg_" and "stg_stripe__".
var layer = regexp.MustCompile(`^(stg|staging|base|int|intermediate|dim|fct|fact|mart|rpt|agg|src|raw)_+`)

// entitiesOf returns the names of what a row of a model is, plural and singular: "orders" and "order" for
// stg_shop__orders.
func entitiesOf(model string) []string {
	name := layer.ReplaceAllString(strings.ToLower(model), "")
	if i := strings.LastIndex(name, "__"); i >= 0 {
		name = name[i+2:]
	}
	entities := []string{name}
	switch {
	case strings.HasSuffix(name, "ies"):
		entities = append(entities, strings.TrimSuffix(name, "ies")+"y")
	case strings.HasSuffix(name, "ses"), strings.HasSuffix(name, "xes"), strings.HasSuffix(name, "ches"), strings.HasSuffix(name, "shes"):
		entities = append(entities, strings.TrimSuffix(name, "es"), strings.TrimSuffix(name, "s"))
	case strings.HasSuffix(name, "s") && !strings.HasSuffix(name, "ss"):
		entities = append(entities, strings.TrimSuffix(name, "s"))
	}
	return slices.DeleteFunc(entities, func(e string) bool { return e == "" })
}

// keyTests returns, by model, the columns that have both of the tests unique and not_null.
func (c *conversion) keyTests() map[text][]string {
	type tested struct{ unique, notNull bool }
	all := map[text]map[string]*tested{}
	for _, n := range c.manifest.tests {
		if n.Test.Name == "relationships" || !n.isStrict() {
			continue
		}
		model, column := c.testedModel(n), strings.ToLower(n.testedColumn())
		if model == nil || column == "" {
			continue
		}
		if all[model.UniqueID] == nil {
			all[model.UniqueID] = map[string]*tested{}
		}
		of := all[model.UniqueID][column]
		if of == nil {
			of = &tested{}
			all[model.UniqueID][column] = of
		}
		of.unique = of.unique || n.Test.Name == "unique"
		of.notNull = of.notNull || n.Test.Name == "not_null"
	}
	keys := map[text][]string{}
	for id, columns := range all {
		// In the order of the dimensions, so that the result does not depend on that of a map.
		for _, d := range c.byID[id].dimensions {
			if of := columns[strings.ToLower(d.column)]; of != nil && of.unique && of.notNull {
				keys[id] = append(keys[id], d.column)
			}
		}
	}
	return keys
}

// isStrict reports whether a test fails for every row that violates it.
func (n *node) isStrict() bool {
	return ptr.Deref(n.Config.Enabled, true) && strings.TrimSpace(string(n.Config.Where)) == "" &&
		!strings.EqualFold(string(n.Config.Severity), "warn") &&
		slices.Contains([]string{"", "!=0", ">0", ">=1"}, strings.ReplaceAll(string(n.Config.ErrorIf), " ", "")) &&
		slices.Contains([]string{"", "count(*)"}, strings.ToLower(strings.ReplaceAll(string(n.Config.FailCalc), " ", "")))
}

// testedColumn returns the column that a test is for.
func (n *node) testedColumn() string {
	return unquoted(string(cmp.Or(n.ColumnName, n.Test.Arguments.ColumnName)))
}

// unquoted returns the name of a column without quotation marks, which tests have around columns with the
// property quote.
func unquoted(name string) string { return strings.Trim(strings.TrimSpace(name), "\"`[]") }
