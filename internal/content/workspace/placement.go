package workspace

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/store"
)

// MaxPlacements is the maximum number of placements of a report.
const MaxPlacements = 200

// maxAddress is the maximum number of bytes of each part of the address of a placement.
const maxAddress = 1024

// Names of events.
var (
	connectedReport    = audit.Declare("Connected report to spreadsheet")
	disconnectedReport = audit.Declare("Disconnected report from spreadsheet")
	refreshedReport    = audit.Declare("Refreshed report")
)

// Placement is where a spreadsheet has the result of a report.
type Placement struct {
	// ID is unique in the account.
	ID       int64
	ReportID int64
	// ExternalWorkbook identifies the spreadsheet, ResultLocation the first cell of the result. Both are unique in the report.
	ExternalWorkbook, ResultLocation string
	Details
	// QueryChecksum is that of the report when its result was read; empty if that is unknown.
	QueryChecksum         string
	PlacedAt, RefreshedAt time.Time
	// PlacedBy and RefreshedBy are <kind>:<id>.
	PlacedBy, RefreshedBy string
}

// Details are what clients store of a placement.
type Details struct {
	Host          string `json:"host,omitempty"`
	WorkbookName  string `json:"workbookName,omitempty"`
	SheetID       string `json:"sheetId,omitempty"`
	SheetName     string `json:"sheetName,omitempty"`
	AnchorCell    string `json:"anchorCell,omitempty"`
	EndResultCell string `json:"endResultCell,omitempty"`
	// ResultChecksum is a JSON object in canonical form; empty if it is unknown.
	ResultChecksum string `json:"resultChecksum,omitempty"`
}

// PlacementChange is a placement to store. Its parts that are nil stay.
type PlacementChange struct {
	// ID is the placement to change; that of the location if 0.
	ID                                                            int64
	ExternalWorkbook, ResultLocation                              string
	Host, WorkbookName, SheetID, SheetName, AnchorCell, EndResult *string
	ResultChecksum                                                Object
	// AddressOnly is set if the result has moved but was not read again.
	AddressOnly bool
}

// Address selects a placement of a report. Parts that are empty select any.
type Address struct {
	ID                                                               int64
	ExternalWorkbook, ResultLocation, SheetID, SheetName, AnchorCell string
}

// splitLocation returns the sheet and the cell of a location such as 'Q1'!A1; both are empty if it does not have both.
func splitLocation(location string) (sheet, cell string) {
	i := strings.LastIndexByte(location, '!')
	if i <= 0 || i == len(location)-1 {
		return "", ""
	}
	sheet, cell = location[:i], location[i+1:]
	if n := len(sheet); n > 2 && sheet[0] == '\'' && sheet[n-1] == '\'' {
		sheet = strings.ReplaceAll(sheet[1:n-1], "''", "'")
	}
	return sheet, strings.ReplaceAll(cell, "$", "")
}

// Connect stores a placement of a report that the caller sees. The same request again changes nothing.
func (w *Workspace) Connect(ctx context.Context, s content.Scope, by Caller, id int64, in PlacementChange) (r *Report, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		if r, err = reportFor(ctx, tx, s, by, id, access.View); err != nil {
			return err
		}
		return w.connectIfAny(ctx, tx, s, by, r, &in)
	})
	return r, err
}

func (w *Workspace) connectIfAny(ctx context.Context, tx *store.Tx, s content.Scope, by Caller, r *Report, in *PlacementChange) error {
	if in == nil {
		return nil
	}
	if err := checkAddress(in); err != nil {
		return err
	}
	all, err := placements(ctx, tx, s, []int64{r.ID})
	if err != nil {
		return err
	}
	before, err := placementOf(all[r.ID], in)
	if err != nil {
		return err
	}
	now := w.now()
	after := Placement{ReportID: r.ID, PlacedAt: now, PlacedBy: by.Owner}
	if before != nil {
		after = *before
	} else if len(all[r.ID]) >= MaxPlacements {
		return content.Errorf(content.Conflict, "resultLocation: report %d has %d placements already; allowed: %d", r.ID, len(all[r.ID]), MaxPlacements)
	}
	if err := after.apply(in); err != nil {
		return err
	}
	if !in.AddressOnly {
		after.QueryChecksum = r.Checksum
	}
	if before != nil && after == *before {
		return nil
	}
	if !in.AddressOnly {
		after.RefreshedAt, after.RefreshedBy = now, by.Owner
	}
	if before == nil {
		if after.ID, err = tx.NextID(ctx, s.Account.UID, "report_placement"); err != nil {
			return err
		}
	}
	if err := storePlacement(ctx, tx, s, &after, before == nil); err != nil {
		return err
	}
	return w.recordPlacement(ctx, tx, connectedReport, r, before, &after)
}

// checkAddress returns an error for a placement without an address, or one with parts that are too long.
func checkAddress(in *PlacementChange) error {
	for _, part := range []struct{ field, value string }{
		{"externalWorkbookId", in.ExternalWorkbook}, {"resultLocation", in.ResultLocation}, {"host", deref(in.Host)}, {"workbookName", deref(in.WorkbookName)},
		{"sheetId", deref(in.SheetID)}, {"sheetName", deref(in.SheetName)}, {"anchorCell", deref(in.AnchorCell)}, {"endResultCell", deref(in.EndResult)},
	} {
		if len(part.value) > maxAddress {
			return content.Errorf(content.Invalid, "%s: it has %d bytes; allowed: %d", part.field, len(part.value), maxAddress)
		}
		if err := content.CheckText(part.field, part.value); err != nil {
			return err
		}
	}
	if in.ExternalWorkbook == "" || in.ResultLocation == "" {
		return content.Errorf(content.Invalid, "externalWorkbookId: %q goes with resultLocation %q; allowed: both, or neither", in.ExternalWorkbook, in.ResultLocation)
	}
	return nil
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// placementOf returns the placement that a change concerns; nil for a new one.
func placementOf(all []Placement, in *PlacementChange) (*Placement, error) {
	var byID, byLocation *Placement
	for i := range all {
		if p := &all[i]; p.ID == in.ID {
			byID = p
		}
		if p := &all[i]; p.ExternalWorkbook == in.ExternalWorkbook && p.ResultLocation == in.ResultLocation {
			byLocation = p
		}
	}
	switch {
	case in.ID == 0:
		return byLocation, nil
	case byID == nil:
		return nil, content.Errorf(content.NotFound, "placementId: the report has no such placement")
	case byLocation != nil && byLocation != byID:
		return nil, content.Errorf(content.Conflict, "resultLocation: %q is that of placement %d", clip(in.ResultLocation), byLocation.ID)
	}
	return byID, nil
}

// apply sets the parts of a change. The sheet and the cell are those of the location unless they are given.
func (p *Placement) apply(in *PlacementChange) error {
	if p.ResultLocation != in.ResultLocation {
		p.SheetName, p.AnchorCell = splitLocation(in.ResultLocation)
	}
	p.ExternalWorkbook, p.ResultLocation = in.ExternalWorkbook, in.ResultLocation
	for _, part := range []struct {
		to   *string
		from *string
	}{
		{&p.Host, in.Host}, {&p.WorkbookName, in.WorkbookName}, {&p.SheetID, in.SheetID}, {&p.SheetName, in.SheetName}, {&p.AnchorCell, in.AnchorCell},
		{&p.EndResultCell, in.EndResult},
	} {
		if part.from != nil {
			*part.to = *part.from
		}
	}
	if in.ResultChecksum == nil {
		return nil
	}
	text, err := encode("resultChecksum", in.ResultChecksum)
	p.ResultChecksum = text
	return err
}

// Disconnect removes the placement of a report with an address, if there is one. Without a placement id, the address needs
// the sheet and the cell.
func (w *Workspace) Disconnect(ctx context.Context, s content.Scope, by Caller, id int64, at Address) (r *Report, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		if r, err = reportFor(ctx, tx, s, by, id, access.View); err != nil {
			return err
		}
		p, err := addressed(ctx, tx, s, id, at)
		if err != nil || p == nil {
			return err
		}
		const statement = "DELETE FROM report_placement WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3"
		if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, p.ID); err != nil {
			return fmt.Errorf("delete placement %d: %w", p.ID, err)
		}
		return w.recordPlacement(ctx, tx, disconnectedReport, r, p, nil)
	})
	return r, err
}

// addressed returns the placement with an address; nil if there is none.
func addressed(ctx context.Context, q store.Querier, s content.Scope, report int64, at Address) (*Placement, error) {
	if at.SheetName == "" && at.AnchorCell == "" {
		at.SheetName, at.AnchorCell = splitLocation(at.ResultLocation)
	}
	if at.ID == 0 && (at.SheetName == "" || at.AnchorCell == "") {
		return nil, nil
	}
	all, err := placements(ctx, q, s, []int64{report})
	if err != nil {
		return nil, err
	}
	var found *Placement
	for i := range all[report] {
		p := &all[report][i]
		if at.ID != 0 && p.ID != at.ID || !matches(p.ExternalWorkbook, at.ExternalWorkbook) || !matches(p.SheetID, at.SheetID) ||
			!matches(p.SheetName, at.SheetName) || !matches(p.AnchorCell, at.AnchorCell) {
			continue
		}
		if found != nil {
			return nil, content.Errorf(content.Conflict, "externalWorkbookId: placements %d and %d have this sheet and cell; name the spreadsheet", found.ID, p.ID)
		}
		found = p
	}
	return found, nil
}

// matches reports whether a part of an address selects a value.
func matches(value, wanted string) bool { return wanted == "" || value == wanted }

// Refresh records that the result of a report was read again: for the placement with an address, or without one for the only
// placement, if the report has one.
func (w *Workspace) Refresh(ctx context.Context, s content.Scope, by Caller, id int64, at Address, result Object) (r *Report, err error) {
	err = w.change(ctx, s, func(tx *store.Tx) error {
		if r, err = reportFor(ctx, tx, s, by, id, access.View); err != nil {
			return err
		}
		p, err := refreshed(ctx, tx, s, id, at)
		if err != nil {
			return err
		}
		r.RefreshedBy = by.Owner
		if err := updateReport(ctx, tx, s, r); err != nil {
			return err
		}
		if p == nil {
			return w.recordPlacement(ctx, tx, refreshedReport, r, nil, nil)
		}
		after := *p
		after.QueryChecksum, after.RefreshedAt, after.RefreshedBy = r.Checksum, w.now(), by.Owner
		if result != nil {
			if after.ResultChecksum, err = encode("resultChecksum", result); err != nil {
				return err
			}
		}
		if err := storePlacement(ctx, tx, s, &after, false); err != nil {
			return err
		}
		return w.recordPlacement(ctx, tx, refreshedReport, r, p, &after)
	})
	return r, err
}

// refreshed returns the placement that a refresh concerns; nil for none.
func refreshed(ctx context.Context, q store.Querier, s content.Scope, report int64, at Address) (*Placement, error) {
	if at != (Address{}) {
		p, err := addressed(ctx, q, s, report, at)
		if err == nil && p == nil {
			return nil, content.Errorf(content.NotFound, "the report has no placement at this address; allowed: a placementId, or a sheet and a cell of one")
		}
		return p, err
	}
	all, err := placements(ctx, q, s, []int64{report})
	if err != nil || len(all[report]) != 1 {
		return nil, err
	}
	return &all[report][0], nil
}

// Placements returns the placements of a report, by id.
func (w *Workspace) Placements(ctx context.Context, s content.Scope, report int64) (out []Placement, err error) {
	err = w.DB.Read(ctx, func(q store.Querier) error {
		found, err := placements(ctx, q, s, []int64{report})
		out = found[report]
		return err
	})
	return out, err
}

// placements returns the placements of reports by id.
func placements(ctx context.Context, q store.Querier, s content.Scope, reports []int64) (map[int64][]Placement, error) {
	const query = `SELECT id, report_id, external_workbook, result_location, details, query_checksum, placed_at, placed_by, refreshed_at, refreshed_by
		FROM report_placement WHERE account_uid = $1 AND deployment_uid = $2 AND report_id IN (%s) ORDER BY id`
	out := map[int64][]Placement{}
	err := eachOf(ctx, q, query, []any{s.Account.UID, s.Deployment.UID}, reports, func(rows *sql.Rows) error {
		var p Placement
		var placed, refreshed int64
		var details string
		err := rows.Scan(&p.ID, &p.ReportID, &p.ExternalWorkbook, &p.ResultLocation, &details, &p.QueryChecksum, &placed, &p.PlacedBy, &refreshed, &p.RefreshedBy)
		if err == nil {
			err = json.Unmarshal([]byte(details), &p.Details)
		}
		p.PlacedAt = time.UnixMicro(placed).UTC()
		if refreshed != 0 {
			p.RefreshedAt = time.UnixMicro(refreshed).UTC()
		}
		out[p.ReportID] = append(out[p.ReportID], p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read placements: %w", err)
	}
	return out, nil
}

// storePlacement stores a placement.
func storePlacement(ctx context.Context, tx *store.Tx, s content.Scope, p *Placement, isNew bool) error {
	details, err := json.Marshal(p.Details)
	if err != nil {
		return fmt.Errorf("placement %d: %w", p.ID, err)
	}
	refreshed := int64(0)
	if !p.RefreshedAt.IsZero() {
		refreshed = p.RefreshedAt.UnixMicro()
	}
	statement := `UPDATE report_placement SET report_id = $4, external_workbook = $5, result_location = $6, details = $7, query_checksum = $8, placed_at = $9,
		placed_by = $10, refreshed_at = $11, refreshed_by = $12 WHERE account_uid = $1 AND deployment_uid = $2 AND id = $3`
	if isNew {
		statement = `INSERT INTO report_placement (account_uid, deployment_uid, id, report_id, external_workbook, result_location, details, query_checksum,
			placed_at, placed_by, refreshed_at, refreshed_by) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`
	}
	_, err = tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, p.ID, p.ReportID, p.ExternalWorkbook, p.ResultLocation, string(details), p.QueryChecksum,
		p.PlacedAt.UnixMicro(), p.PlacedBy, refreshed, p.RefreshedBy)
	if err != nil {
		return fmt.Errorf("store placement %d: %w", p.ID, err)
	}
	return nil
}

// fields returns the fields of a placement that events show.
func (p *Placement) fields() map[string]any {
	if p == nil {
		return nil
	}
	return map[string]any{"externalWorkbookId": p.ExternalWorkbook, "resultLocation": p.ResultLocation, "querySHA256": p.QueryChecksum}
}

// recordPlacement stores the event of a change; both are nil if it concerns no placement.
func (w *Workspace) recordPlacement(ctx context.Context, tx *store.Tx, name string, r *Report, before, after *Placement) error {
	object := audit.Object{Kind: "Report", Name: r.Name, ID: strconv.FormatInt(r.ID, 10)}
	return w.Record.Change(ctx, tx, name, object, before.fields(), after.fields())
}
