package dbt

import (
	"fmt"
	"slices"
	"strings"
)

// join is a join of a cube.
type join struct {
	to           *cube
	relationship string
	sql          string
}

// markForeign marks the dimensions that refer to other models.
func (c *conversion) markForeign(references []*reference) {
	for _, r := range references {
		for _, column := range r.columns {
			if d := r.from.dimension(column); d != nil && r.from != r.to {
				d.foreign = true
			}
		}
	}
}

// addJoins adds a join for each reference to another cube. Columns that are not documented become
// dimensions, and the referenced ones are of the key of their cube. Two cubes have one join.
func (c *conversion) addJoins(references []*reference) {
	type pair struct{ from, to *cube }
	joined := map[pair]string{}
	for _, r := range references {
		at := pair{r.from, r.to}
		switch existing, twice := joined[at]; {
		case r.from == r.to:
			c.model.warn("the reference of %s to itself is left out: a cube cannot join itself", clip(string(r.from.UniqueID)))
			continue
		case twice && existing != r.key():
			c.model.warn("the reference of %s by %s to %s is left out: there is another one, and two cubes have one join",
				clip(string(r.from.UniqueID)), clip(strings.Join(r.columns, ", ")), clip(string(r.to.UniqueID)))
			continue
		case twice:
			continue
		}
		own, others := c.ensure(r.from, r.columns), c.ensure(r.to, r.field)
		if own == nil || others == nil {
			continue
		}
		joined[at] = r.key()
		for _, d := range others {
			d.key = true
		}
		r.from.joins = append(r.from.joins, &join{to: r.to, relationship: "many_to_one", sql: condition(own, r.to.name, others)})
		if c.options.reverseJoins() {
			r.to.joins = append(r.to.joins, &join{to: r.from, relationship: "one_to_many", sql: condition(others, r.from.name, own)})
		}
	}
	c.checkJoins()
}

// key identifies the columns of a reference.
func (r *reference) key() string {
	return strings.ToLower(strings.Join(r.columns, "\x00") + "\x00\x00" + strings.Join(r.field, "\x00"))
}

// ensure returns the dimensions of columns, which it adds if they are not documented; nil if one cannot
// be written in SQL.
func (c *conversion) ensure(of *cube, names []string) []*dimension {
	var found []*dimension
	for _, name := range names {
		bare := unquoted(name)
		d := of.dimension(bare)
		if d == nil {
			isQuoted := bare != name
			d = c.addDimension(of, &column{Name: text(bare), Quote: &isQuoted})
		}
		if d == nil {
			return nil
		}
		found = append(found, d)
	}
	return found
}

// condition returns the condition of a join.
func condition(own []*dimension, other string, others []*dimension) string {
	parts := make([]string, len(own))
	for i := range own {
		parts[i] = fmt.Sprintf("%s = %s", own[i].in("CUBE"), others[i].in(other))
	}
	return strings.Join(parts, " AND ")
}

// in returns the dimension of a cube in SQL: its column if it is named like a keyword.
func (d *dimension) in(cube string) string {
	if keywords[d.name] {
		return fmt.Sprintf("{%s}.%s", cube, strings.TrimPrefix(d.sql, "{CUBE}."))
	}
	return fmt.Sprintf("{%s.%s}", cube, d.name)
}

// keywords are those of Python. The compiler of data models reads what is in braces as Python, in which they are not
// names.
var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true, "await": true, "break": true, "class": true,
	"continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true, "finally": true, "for": true, "from": true, "global": true,
	"if": true, "import": true, "in": true, "is": true, "lambda": true, "nonlocal": true, "not": true, "or": true, "pass": true, "raise": true,
	"return": true, "try": true, "while": true, "with": true, "yield": true,
}

// checkJoins removes the joins between cubes of which one has no key: with them the data model does not
// compile. It removes a second join to a cube, too.
func (c *conversion) checkJoins() {
	keyless := map[*cube]bool{}
	for _, cube := range c.cubes {
		keyless[cube] = !slices.ContainsFunc(cube.dimensions, func(d *dimension) bool { return d.key })
		if keyless[cube] && len(cube.joins) > 0 {
			c.model.warn("the joins of %s are left out: it has no primary key; declare one in dbt, or the tests unique and not_null for a column", clip(string(cube.UniqueID)))
			cube.joins = nil
		}
	}
	for _, of := range c.cubes {
		seen := make(map[*cube]bool, len(of.joins))
		of.joins = slices.DeleteFunc(of.joins, func(j *join) bool {
			left := seen[j.to] || keyless[j.to]
			seen[j.to] = true
			return left
		})
		slices.SortFunc(of.joins, func(a, b *join) int { return strings.Compare(a.to.name, b.to.name) })
	}
}
