package dbt

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
)

// timeSpine is a model that dbt itself needs for metrics.
const timeSpine = "metricflow_time_spine"

// martsDirectory is the directory of marts below that of models.
const martsDirectory = "marts/"

// cube is a model that becomes a cube.
type cube struct {
	*node
	// base is the name of the file, without suffix, and of the cube, without prefix.
	base string
	// name of the cube.
	name       string
	table      string
	dimensions []*dimension
	joins      []*join
	measures   []measure

	// exact and folded are the dimensions by column, folded by that in lower case.
	exact, folded map[string]*dimension
	// members are the names of dimensions and measures.
	members names
}

// conversion is a conversion in progress.
type conversion struct {
	manifest  *Manifest
	options   Options
	warehouse warehouse
	model     *Model
	// cubes are sorted by the unique id of their models.
	cubes []*cube
	byID  map[text]*cube
}

// Convert converts a manifest. The error is an *Error.
func (m *Manifest) Convert(o Options) (*Model, error) {
	directory, err := o.Directory()
	if err != nil {
		return nil, err
	}
	c := &conversion{
		manifest: m, options: o, warehouse: warehouseOf(m.Adapter, o.Catalog), byID: map[text]*cube{},
		model: &Model{directory: directory, present: map[string]bool{}},
	}
	if err := c.selectModels(); err != nil {
		return nil, err
	}
	for _, cube := range c.cubes {
		if o.Types != nil && !o.Types.has(cube.UniqueID) {
			c.model.warn("%s is not in the catalog: dbt has not built it in the data source; types that are not declared are guessed from the names", clip(string(cube.UniqueID)))
		}
		c.addDimensions(cube)
	}
	references := c.references()
	c.markForeign(references)
	keyTests := c.keyTests()
	for _, cube := range c.cubes {
		c.addKeys(cube, keyTests[cube.UniqueID])
	}
	if o.joins() {
		c.addJoins(references)
	}
	for _, cube := range c.cubes {
		c.addMeasures(cube)
		c.model.Files = append(c.model.Files, File{Path: directory + "/" + cube.base + fileSuffix, Content: cube.yaml(o)})
	}
	slices.SortFunc(c.model.Files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return c.model, nil
}

// selectModels selects the models that become cubes, and names the cubes.
func (c *conversion) selectModels() error {
	var named, selected []*cube
	for _, n := range c.manifest.models {
		if n.Name == timeSpine || n.Config.Materialized == "ephemeral" || !ptr.Deref(n.Config.Enabled, true) {
			continue
		}
		of := &cube{node: n}
		isNamed := n.Name != "" && len(n.Name) <= maxName
		if isNamed {
			named = append(named, of)
		}
		isMart := strings.HasPrefix(strings.ReplaceAll(string(n.Path), `\`, "/"), martsDirectory)
		if c.options.martsOnly() && !isMart || c.options.Selected != nil && !c.options.Selected[string(n.UniqueID)] {
			c.model.present[headerLine(n)] = true
			continue
		}
		table, err := c.warehouse.table(n)
		switch {
		case !isNamed:
			c.model.warn("%s is left out: its name is empty or longer than %d bytes", clip(string(n.UniqueID)), maxName)
		case err != nil:
			c.model.warn("%s is left out: %s", clip(string(n.UniqueID)), err)
		default:
			of.table, of.exact, of.folded, of.members = table, map[string]*dimension{}, map[string]*dimension{}, names{}
			selected = append(selected, of)
			continue
		}
		c.model.present[headerLine(n)] = true
	}
	if len(selected) == 0 && c.options.Selected != nil {
		return errorf("no dbt models matched: the selector selects %d models, of which none can be converted", len(c.options.Selected))
	}
	if len(selected) == 0 && c.options.martsOnly() {
		return errorf("no dbt models matched: martsOnly is set, and no model can be converted whose path begins with %s", martsDirectory)
	}
	if len(selected) == 0 {
		return errorf("no dbt models matched: of the %d models of the manifest none can be converted", len(c.manifest.models))
	}
	c.nameCubes(named)
	c.cubes = selected
	for _, of := range selected {
		c.byID[of.UniqueID] = of
	}
	return nil
}

// nameCubes gives each cube a name and a file that differ from those of all others, also in systems that
// ignore case. If several models have a name, the one of the project itself keeps it, and the others have
// that of their package before it. The names do not depend on which models are selected, so that the files of
// several selections are those of the same models.
func (c *conversion) nameCubes(all []*cube) {
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b *cube) int {
		return cmp.Compare(c.rank(a), c.rank(b))
	})
	used, files := names{}, names{}
	for _, cube := range ordered {
		base := string(cube.Name)
		if cube.Version != "" && len(cube.Version) <= maxName {
			base += "_v" + string(cube.Version)
		}
		base = identifier(base)
		if files.has(base) {
			base = identifier(string(cube.PackageName) + "_" + base)
			if len(base) > maxName {
				base = base[:maxName]
			}
		}
		cube.base = files.unique(base)
		cube.name = used.unique(identifier(c.options.namePrefix() + cube.base))
	}
}

// rank is 0 for models of the project itself and 1 for those of packages.
func (c *conversion) rank(of *cube) int {
	if string(of.PackageName) == c.manifest.Project {
		return 0
	}
	return 1
}

// names are names that are used, in lower case, with the last number that was added to them.
type names map[string]int

func (n names) has(name string) bool { return n[strings.ToLower(name)] > 0 }

// unique returns a name that is not used, and marks it as used: the given one, or one with a number.
func (n names) unique(name string) string {
	key := strings.ToLower(name)
	if n[key] == 0 {
		n[key] = 1
		return name
	}
	for i := n[key] + 1; ; i++ {
		numbered := name + "_" + strconv.Itoa(i)
		if !n.has(numbered) {
			n[key], n[strings.ToLower(numbered)] = i, 1
			return numbered
		}
	}
}

// reserved are names that have a meaning in the code of a data model, or in the JavaScript that it is
// compiled to.
var reserved = map[string]bool{
	"CUBE": true, "TABLE": true, "SECURITY_CONTEXT": true, "FILTER_PARAMS": true, "FILTER_GROUP": true, "SQL_UTILS": true, "COMPILE_CONTEXT": true,
	"__proto__": true, "constructor": true, "prototype": true, "toString": true, "toLocaleString": true, "valueOf": true, "hasOwnProperty": true,
	"isPrototypeOf": true, "propertyIsEnumerable": true, "__defineGetter__": true, "__defineSetter__": true, "__lookupGetter__": true, "__lookupSetter__": true,
}

// identifier returns a name in which characters that a name of a cube or member cannot have are
// underscores.
func identifier(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	switch {
	case name == "" || name[0] >= '0' && name[0] <= '9':
		return "_" + name
	case reserved[name]:
		return name + "_"
	}
	return name
}
