// Package controls applies the controls of a dashboard, which are filters, time grains and member switchers, to a JSON
// query of the data API. It is pure.
//
// A control narrows or changes what the query of a report shows. It decides nothing about what a person may see: that
// is in the person's token. A control only adds filters, and removes none that the query has.
package controls

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Controls and their values, in the order in which they apply: switchers, grains, filters.
type Controls struct {
	Filters   []Filter   `json:"filters,omitempty"`
	Grains    []Grain    `json:"timeGrains,omitempty"`
	Switchers []Switcher `json:"memberSwitchers,omitempty"`
}

// Empty reports whether there is no control.
func (c Controls) Empty() bool { return len(c.Filters)+len(c.Grains)+len(c.Switchers) == 0 }

// Filter on a member.
type Filter struct {
	// Member is <view>.<member>.
	Member string `json:"member"`
	// Operator is one of the operators of dashboards; equals if empty. A filter without operator and value is
	// cleared: it does not apply.
	Operator string `json:"operator,omitempty"`
	// Value is a string, number or boolean, or an array of them.
	Value any `json:"value,omitempty"`
	// StartInclusive and EndInclusive are for between; true if nil.
	StartInclusive *bool `json:"startInclusive,omitempty"`
	EndInclusive   *bool `json:"endInclusive,omitempty"`
	CaseSensitive  *bool `json:"caseSensitive,omitempty"`
}

// Grain is the granularity of a time dimension.
type Grain struct {
	Member string `json:"member"`
	Grain  string `json:"grain"`
}

// Switcher replaces a member by another one of the same view and kind.
type Switcher struct {
	// Member is the member of the report that is replaced.
	Member string `json:"member"`
	// Selected is the name of the other one, without the view.
	Selected string `json:"selected"`
}

// Member is what is known about a member that the person may see.
type Member struct {
	// Kind is measure or dimension.
	Kind string
	// Type is string, number, boolean or time.
	Type string
}

// The kinds of members.
const (
	Measure   = "measure"
	Dimension = "dimension"
)

// Outcome describes whether and how a control was applied.
type Outcome struct {
	// Control is its path in Controls, such as filters[0].
	Control string `json:"control"`
	Member  string `json:"member"`
	Applied bool   `json:"applied"`
	// Reason why it was skipped, or how it was applied differently.
	Reason string `json:"reason,omitempty"`
}

// Applied is a query with controls.
type Applied struct {
	Query json.RawMessage
	// Outcomes has one element for each control.
	Outcomes []Outcome
	// Names has the names that columns had without controls, by the names that they have now.
	Names map[string]string
}

// InvalidError is a control that can apply to no query.
type InvalidError struct{ Path, Reason string }

// Error implements error.
func (e *InvalidError) Error() string { return e.Path + ": " + e.Reason }

var (
	memberForm = regexp.MustCompile(`^[\pL_][\pL\pN_]*\.[\pL_][\pL\pN_]*$`)
	nameForm   = regexp.MustCompile(`^[\pL_][\pL\pN_]{0,127}$`)
)

// Validate returns an *InvalidError for the first control that is malformed.
func (c Controls) Validate() error {
	for i, s := range c.Switchers {
		path := fmt.Sprintf("memberSwitchers[%d]", i)
		if err := checkMember(path, s.Member); err != nil {
			return err
		}
		if !nameForm.MatchString(s.Selected) {
			return &InvalidError{path + ".selected", fmt.Sprintf("%.100q; expected the name of a member without its view", s.Selected)}
		}
	}
	for i, g := range c.Grains {
		path := fmt.Sprintf("timeGrains[%d]", i)
		if err := checkMember(path, g.Member); err != nil {
			return err
		}
		if !nameForm.MatchString(g.Grain) {
			return &InvalidError{path + ".grain", fmt.Sprintf("%.100q; expected a granularity, such as day or month", g.Grain)}
		}
	}
	for i, f := range c.Filters {
		path := fmt.Sprintf("filters[%d]", i)
		if err := checkMember(path, f.Member); err != nil {
			return err
		}
		if err := f.validate(path); err != nil {
			return err
		}
	}
	return nil
}

func checkMember(path, member string) error {
	if !memberForm.MatchString(member) {
		return &InvalidError{path + ".member", fmt.Sprintf("%.100q; expected <view>.<member>", member)}
	}
	return nil
}

// Apply applies controls to a JSON query. members has the members that the person may see, by name; it may be
// incomplete, and controls that need an unknown one are skipped.
func Apply(query json.RawMessage, c Controls, members map[string]Member) (*Applied, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	q, err := parse(query)
	if err != nil {
		return nil, err
	}
	a := &application{query: q, members: members, out: &Applied{Names: map[string]string{}}}
	for i, s := range c.Switchers {
		reason := a.replace(s)
		a.report(fmt.Sprintf("memberSwitchers[%d]", i), s.Member, reason == "", reason)
	}
	for i, g := range c.Grains {
		reason := a.grain(g)
		a.report(fmt.Sprintf("timeGrains[%d]", i), g.Member, reason == "", reason)
	}
	for i, f := range c.Filters {
		applied, reason := a.filter(f)
		a.report(fmt.Sprintf("filters[%d]", i), f.Member, applied, reason)
	}
	a.out.Query, err = q.marshal()
	return a.out, err
}

// Skip returns the outcomes of controls none of which can apply to a query, for instance because its SQL has no
// equivalent JSON query.
func Skip(c Controls, reason string) []Outcome {
	a := &application{out: &Applied{}}
	for i, s := range c.Switchers {
		a.report(fmt.Sprintf("memberSwitchers[%d]", i), s.Member, false, reason)
	}
	for i, g := range c.Grains {
		a.report(fmt.Sprintf("timeGrains[%d]", i), g.Member, false, reason)
	}
	for i, f := range c.Filters {
		a.report(fmt.Sprintf("filters[%d]", i), f.Member, false, reason)
	}
	return a.out.Outcomes
}

// application is controls being applied to a query.
type application struct {
	query   *query
	members map[string]Member
	out     *Applied
}

func (a *application) report(control, member string, applied bool, reason string) {
	a.out.Outcomes = append(a.out.Outcomes, Outcome{control, member, applied, reason})
}

// view returns the view of a member.
func view(member string) string {
	name, _, _ := strings.Cut(member, ".")
	return name
}

// grain changes the granularity of a time dimension, or returns why not.
func (a *application) grain(g Grain) string {
	reason := "the query does not use the member"
	for _, t := range a.query.TimeDimensions {
		if t["dimension"] != g.Member {
			continue
		}
		before, ok := t["granularity"].(string)
		if !ok || before == "" {
			reason = "the query does not group by a granularity of the member"
			continue
		}
		if before != g.Grain {
			t["granularity"] = g.Grain
			a.out.Names[g.Member+"."+g.Grain] = a.nameBefore(g.Member) + "." + before
		}
		return ""
	}
	return reason
}

// nameBefore returns the name that a member had before the switchers.
func (a *application) nameBefore(member string) string {
	if name, ok := a.out.Names[member]; ok {
		return name
	}
	return member
}

// replace replaces a member wherever the query returns it or orders by it, or returns why not.
func (a *application) replace(s Switcher) string {
	selected := view(s.Member) + "." + s.Selected
	if selected == s.Member {
		return ""
	}
	if !a.query.returns(s.Member) {
		return "the query does not return the member"
	}
	before, known := a.members[s.Member]
	after, isVisible := a.members[selected]
	switch {
	case !isVisible:
		return fmt.Sprintf("member %s does not exist or is not visible", selected)
	case known && (before.Kind != after.Kind || (before.Type == "time") != (after.Type == "time")):
		return fmt.Sprintf("%s is a %s of type %s, and %s a %s of type %s", s.Member, before.Kind, before.Type, selected, after.Kind, after.Type)
	case a.query.returns(selected):
		return fmt.Sprintf("the query returns %s already", selected)
	}
	a.query.replace(s.Member, selected)
	a.out.Names[selected] = a.nameBefore(s.Member)
	for _, t := range a.query.TimeDimensions {
		if grain, ok := t["granularity"].(string); ok && t["dimension"] == selected {
			a.out.Names[selected+"."+grain] = s.Member + "." + grain
		}
	}
	return ""
}
