package dbt

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// reference is a column, or several of a composite key, that refers to columns of another model.
type reference struct {
	from, to       *cube
	columns, field []string
}

// relation is the argument of ref() in a test or constraint: a model, of a package, of a version.
var relation = regexp.MustCompile(`\bref\(\s*['"]([^'"]+)['"]\s*(?:,\s*['"]([^'"]+)['"]\s*)?(?:,\s*(?:v|version)\s*=\s*['"]?([^'",)\s]+)['"]?\s*)?\)`)

// expression is the older form of a foreign key: table (column, …).
var expression = regexp.MustCompile(`^\s*(?i:references\s+)?([^\s()]+)\s*\(([^()]+)\)`)

// references returns the relationships tests and foreign keys between cubes, in an order that depends on
// the manifest only.
func (c *conversion) references() []*reference {
	finder := newFinder(c.cubes)
	var all []*reference
	add := func(r *reference) {
		if r != nil && r.from != nil && r.to != nil {
			all = append(all, r)
		}
	}
	for _, n := range c.manifest.tests {
		if n.Test.Name == "relationships" {
			add(c.tested(finder, n))
		}
	}
	for _, cube := range c.cubes {
		for i := range cube.Columns {
			for j := range cube.Columns[i].Constraints {
				add(finder.constrained(cube, &cube.Columns[i].Constraints[j], []text{cube.Columns[i].Name}))
			}
		}
		for i := range cube.Constraints {
			add(finder.constrained(cube, &cube.Constraints[i], cube.Constraints[i].Columns))
		}
	}
	slices.SortStableFunc(all, func(a, b *reference) int {
		return cmp.Or(cmp.Compare(a.from.UniqueID, b.from.UniqueID), cmp.Compare(a.to.UniqueID, b.to.UniqueID), cmp.Compare(a.position(), b.position()))
	})
	return all
}

// position is the place of the first column of a reference among those of its model.
func (r *reference) position() int {
	if d := r.from.dimension(r.columns[0]); d != nil {
		return d.index
	}
	return len(r.from.dimensions)
}

// tested returns the reference of a relationships test; nil if it is not between two cubes.
func (c *conversion) tested(finder *finder, n *node) *reference {
	field, column := string(n.Test.Arguments.Field), n.testedColumn()
	// A test on some of the rows says nothing about the others, but a join of them is none the worse.
	if field == "" || column == "" || n.Config.Enabled != nil && !*n.Config.Enabled {
		return nil
	}
	to := finder.named(string(n.Test.Arguments.To), n.DependsOn.Nodes)
	return &reference{from: c.testedModel(n), to: to, columns: []string{column}, field: []string{field}}
}

// testedModel returns the cube of the model that a test is for; nil if there is none.
func (c *conversion) testedModel(n *node) *cube {
	if n.AttachedNode != "" {
		return c.byID[n.AttachedNode]
	}
	// Before dbt 1.5: among the nodes on which the test depends, that which its argument names.
	if len(n.DependsOn.Nodes) == 1 {
		return c.byID[n.DependsOn.Nodes[0]]
	}
	argument := relation.FindStringSubmatch(string(n.Test.Arguments.Model))
	for _, id := range n.DependsOn.Nodes {
		if cube := c.byID[id]; cube != nil && argument != nil && string(cube.Name) == lastOf(argument) {
			return cube
		}
	}
	return nil
}

// lastOf returns the model of a match of relation.
func lastOf(match []string) string { return cmp.Or(match[2], match[1]) }

// finder finds the cubes that texts refer to.
type finder struct {
	byName  map[string][]*cube
	byTable map[string][]*cube
}

// maxSameName is how many cubes of one name are found: those of several packages or versions.
const maxSameName = 100

func newFinder(cubes []*cube) *finder {
	f := &finder{map[string][]*cube{}, map[string][]*cube{}}
	add := func(to map[string][]*cube, name string, c *cube) {
		if len(to[name]) < maxSameName {
			to[name] = append(to[name], c)
		}
	}
	for _, c := range cubes {
		add(f.byName, string(c.Name), c)
		add(f.byTable, strings.ToLower(string(cmp.Or(c.Alias, c.Name))), c)
	}
	return f
}

// named returns the cube that a call of ref() refers to; nil if there is none. If several packages or
// versions have a model of the name, it is one of the nodes on which the text depends.
func (f *finder) named(call string, dependsOn []text) *cube {
	match := relation.FindStringSubmatch(call)
	if match == nil {
		return nil
	}
	candidates := f.byName[lastOf(match)]
	if match[2] != "" {
		candidates = filter(candidates, func(c *cube) bool { return string(c.PackageName) == match[1] })
	}
	if match[3] != "" {
		candidates = filter(candidates, func(c *cube) bool { return string(c.Version) == match[3] })
	}
	if len(candidates) > 1 && len(dependsOn) > 0 {
		candidates = filter(candidates, func(c *cube) bool { return slices.Contains(dependsOn, c.UniqueID) })
	}
	if len(candidates) == 0 {
		return nil
	}
	return candidates[0]
}

func filter(cubes []*cube, keep func(*cube) bool) []*cube {
	return slices.DeleteFunc(slices.Clone(cubes), func(c *cube) bool { return !keep(c) })
}

// constrained returns the reference of a foreign key; nil for other constraints and for those to tables
// that are not of cubes.
func (f *finder) constrained(from *cube, by *rule, columns []text) *reference {
	if by.Type != "foreign_key" || len(columns) == 0 {
		return nil
	}
	target, fields := string(by.To), asStrings(by.ToColumns)
	if target == "" {
		match := expression.FindStringSubmatch(string(by.Expression))
		if match == nil {
			return nil
		}
		target = match[1]
		for field := range strings.SplitSeq(match[2], ",") {
			fields = append(fields, unquoted(field))
		}
	}
	if len(fields) != len(columns) || slices.Contains(fields, "") || slices.Contains(columns, "") {
		return nil
	}
	to := f.named(target, from.DependsOn.Nodes)
	if to == nil && !strings.Contains(target, "(") {
		to = f.table(target)
	}
	return &reference{from: from, to: to, columns: asStrings(columns), field: fields}
}

// table returns the cube of a table: database.schema.name, or the end of it.
func (f *finder) table(name string) *cube {
	parts := strings.Split(strings.ToLower(strings.NewReplacer(`"`, "", "`", "").Replace(name)), ".")
	slices.Reverse(parts)
	for _, c := range f.byTable[parts[0]] {
		have := []string{parts[0], strings.ToLower(string(c.Schema)), strings.ToLower(string(c.Database))}
		if len(parts) <= len(have) && slices.Equal(parts, have[:len(parts)]) {
			return c
		}
	}
	return nil
}

func asStrings(texts []text) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = string(t)
	}
	return out
}
