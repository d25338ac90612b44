package access

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
)

// maxDepth is the maximum number of folders on a path from the root. It ends recursions in a table with a cycle.
const maxDepth = 10

// Statement is the part of a statement that gives a subject its levels on the objects of a deployment:
//
//	st := access.In(s, who)
//	workbooks := st.Workbooks()
//	st.With + "SELECT id, " + workbooks.Level + " FROM workbook" + workbooks.Join +
//		" WHERE account_uid = $1 AND deployment_uid = $2 AND " + workbooks.Visible
//
// The level that is read is not limited to that of the subject: use Subject.Limited. The names of columns that a Join adds
// begin with "access_", so columns of the tables need no prefix.
type Statement struct {
	// With is the beginning of the statement: common table expressions, or nothing.
	With string
	// Args are the parameters of With: $1 is the UID of the account, $2 that of the deployment. Others follow.
	Args []any

	all, none bool
	// isWithin is set for what is directly in one folder or workbook, on which the subject has the level inherited.
	isWithin  bool
	inherited Level
}

// Rows are the parts for the rows of a table.
type Rows struct {
	// Join follows the name of the table.
	Join string
	// Level is an expression: the level on the row.
	Level string
	// Visible is a condition: whether the subject sees the row. Folders can be visible with the level None.
	Visible string
}

// The common table expressions. $3 is the owner, {subjects} are the parameters of the subjects, {groups} those of the UIDs of groups.
const (
	// given: access_given has the levels that are granted to the subject.
	given = `WITH RECURSIVE access_given (access_kind, access_id, access_given_level) AS (
	SELECT object_kind, object_id, MAX(level) FROM access_grant
	WHERE deployment_uid = $2 AND account_uid = $1 AND subject IN ({subjects}) AND group_uid IN ({groups}) GROUP BY object_kind, object_id
), access_workbook (access_workbook_id, access_workbook_level) AS (
	SELECT access_id, access_given_level FROM access_given WHERE access_kind = 'Workbook'
), access_report (access_report_id, access_report_level) AS (
	SELECT access_id, access_given_level FROM access_given WHERE access_kind = 'Report'
)`
	// owned: access_folder has the folders with a level of their own.
	owned = `, access_folder (access_folder_id, access_folder_level) AS (
	SELECT access_id, access_given_level FROM access_given WHERE access_kind = 'Folder'
	AND access_id NOT IN (SELECT id FROM folder WHERE deployment_uid = $2 AND account_uid = $1 AND owner = $3)
	UNION ALL
	SELECT id, 3 FROM folder WHERE deployment_uid = $2 AND account_uid = $1 AND owner = $3
)`
	// reached: access_reach has also those below them that inherit it. Each folder is in it once, because it has one parent and
	// those with a level of their own inherit none.
	reached = owned + `, access_reach (access_reach_id, access_reach_level, access_reach_depth) AS (
	SELECT access_folder_id, access_folder_level, 1 FROM access_folder
	UNION ALL
	SELECT folder.id, access_reach_level, access_reach_depth + 1 FROM access_reach
	JOIN folder ON folder.deployment_uid = $2 AND folder.account_uid = $1 AND folder.parent_id = access_reach_id
	WHERE access_reach_depth < {depth} AND folder.id NOT IN (SELECT access_folder_id FROM access_folder)
)`
	// way: access_way has the folders above everything that has a level of its own. A subquery reads each parent by its key; for a
	// join, PostgreSQL would read all folders, because it does not know how few rows the recursion has.
	way = `, access_start (access_start_id) AS (
	SELECT parent_id FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (SELECT access_folder_id FROM access_folder)
	UNION SELECT folder_id FROM workbook WHERE deployment_uid = $2 AND account_uid = $1 AND owner = $3
	UNION SELECT folder_id FROM workbook WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (SELECT access_workbook_id FROM access_workbook)
	UNION SELECT folder_id FROM report WHERE deployment_uid = $2 AND account_uid = $1 AND owner = $3
	UNION SELECT folder_id FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (SELECT access_report_id FROM access_report)
	UNION SELECT folder_id FROM workbook WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (
		SELECT workbook_id FROM report WHERE deployment_uid = $2 AND account_uid = $1 AND owner = $3
		UNION SELECT workbook_id FROM report WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (SELECT access_report_id FROM access_report))
), access_way (access_way_id, access_way_parent) AS (
	SELECT id, parent_id FROM folder WHERE account_uid = $1 AND deployment_uid = $2 AND id IN (SELECT access_start_id FROM access_start)
	UNION
	SELECT access_way_parent, (SELECT folder.parent_id FROM folder
		WHERE folder.account_uid = $1 AND folder.deployment_uid = $2 AND folder.id = access_way_parent)
	FROM access_way WHERE access_way_parent <> 0
)`
)

// In returns the part of a statement for a subject and a deployment.
func In(s content.Scope, who Subject) Statement {
	return newStatement(s, who, given+reached+way)
}

// Within returns the part of a statement for what is directly in one folder, or at the root, or in one workbook: level is that of
// the subject on it, and None at the root. No folder but the one is then read for the levels, so the size of the deployment does
// not matter. The statement selects the rows that are in it.
func Within(s content.Scope, who Subject, level Level) Statement {
	text := given
	if level == None { // with a level, all folders in it are visible
		text += owned + way
	}
	st := newStatement(s, who, text)
	st.isWithin, st.inherited = true, level
	return st
}

// newStatement returns the part of a statement that begins with common table expressions.
func newStatement(s content.Scope, who Subject, text string) Statement {
	st := Statement{Args: []any{s.Account.UID, s.Deployment.UID}, all: who.All, none: who.Max == None}
	if st.all || st.none {
		return st
	}
	subjects := who.subjects()
	subjects[0] = cmp.Or(who.Owner, Everyone) // which owns nothing; the first one is the owner
	ofSubjects, ofGroups := st.parameters(subjects), st.parameters(who.groupUIDs())
	st.With = strings.NewReplacer("{subjects}", ofSubjects, "{groups}", ofGroups, "{depth}", strconv.Itoa(maxDepth)).Replace(text) + " "
	return st
}

// parameters adds arguments and returns their parameters.
func (st *Statement) parameters(values []string) string {
	names := make([]string, len(values))
	for i, value := range values {
		st.Args = append(st.Args, value)
		names[i] = fmt.Sprintf("$%d", len(st.Args))
	}
	return strings.Join(names, ", ")
}

// rows returns the parts for a subject with levels of its own.
func (st Statement) rows(join, level, visible string) Rows {
	switch {
	case st.none:
		return Rows{Level: "0", Visible: "1 = 0"}
	case st.all:
		return Rows{Level: "3", Visible: "1 = 1"}
	}
	return Rows{Join: join, Level: level, Visible: visible}
}

// within returns the parts for the rows of a table in one folder or workbook.
func (st Statement) within(kind Kind, alsoVisible string) Rows {
	table := tables[kind]
	rows := Rows{
		Join:    fmt.Sprintf(" LEFT JOIN access_given ON access_kind = '%s' AND access_id = %s.id", kind, table),
		Level:   fmt.Sprintf("CASE WHEN %s.owner = $3 THEN 3 ELSE COALESCE(access_given_level, %d) END", table, st.inherited),
		Visible: "1 = 1",
	}
	if st.inherited == None {
		rows.Visible = fmt.Sprintf("(%s.owner = $3 OR access_given_level IS NOT NULL%s)", table, alsoVisible)
	}
	return st.rows(rows.Join, rows.Level, rows.Visible)
}

// Folders returns the parts for the table folder.
func (st Statement) Folders() Rows {
	const leadsOn = "folder.id IN (SELECT access_way_id FROM access_way)"
	if st.isWithin {
		return st.within(Folder, " OR "+leadsOn)
	}
	return st.rows(" LEFT JOIN access_reach ON access_reach_id = folder.id", "COALESCE(access_reach_level, 0)", "(access_reach_level IS NOT NULL OR "+leadsOn+")")
}

// Workbooks returns the parts for the table workbook.
func (st Statement) Workbooks() Rows {
	if st.isWithin {
		return st.within(Workbook, "")
	}
	return st.rows(" LEFT JOIN access_workbook ON access_workbook_id = workbook.id LEFT JOIN access_reach ON access_reach_id = workbook.folder_id",
		"CASE WHEN workbook.owner = $3 THEN 3 ELSE COALESCE(access_workbook_level, access_reach_level, 0) END",
		"(workbook.owner = $3 OR access_workbook_level IS NOT NULL OR access_reach_level IS NOT NULL)")
}

// Reports returns the parts for the table report. Those of Within are for reports in a folder that are in no workbook, or for the
// reports in a workbook.
func (st Statement) Reports() Rows {
	if st.isWithin {
		return st.within(Report, "")
	}
	return st.rows(` LEFT JOIN access_report ON access_report_id = report.id
	LEFT JOIN (SELECT id AS access_in_id, owner AS access_in_owner, folder_id AS access_in_folder FROM workbook
		WHERE account_uid = $1 AND deployment_uid = $2) AS access_in ON access_in_id = report.workbook_id
	LEFT JOIN access_workbook ON access_workbook_id = report.workbook_id
	LEFT JOIN access_reach ON access_reach_id = CASE WHEN report.workbook_id = 0 THEN report.folder_id ELSE access_in_folder END`,
		`CASE WHEN report.owner = $3 THEN 3 WHEN access_report_level IS NOT NULL THEN access_report_level
	WHEN access_in_owner = $3 THEN 3 ELSE COALESCE(access_workbook_level, access_reach_level, 0) END`,
		"(report.owner = $3 OR access_report_level IS NOT NULL OR access_in_owner = $3 OR access_workbook_level IS NOT NULL OR access_reach_level IS NOT NULL)")
}

// ReportsInFolder returns a condition for reports of a subquery that are in a folder, and not in a workbook: whether the subject
// sees them. The statement joins Folders.
func (st Statement) ReportsInFolder() string {
	return st.rows("", "", "(access_reach_level IS NOT NULL OR report.owner = $3 OR report.id IN (SELECT access_report_id FROM access_report))").Visible
}
