package content

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/content/access"
	"github.com/quoin-dev/quoin/internal/content/workspace"
)

// ReportFields have the properties of a report that requests set. Absent ones stay.
type ReportFields struct {
	Name       *rest.DisplayName         `json:"name,omitempty" nullable:"true" minLength:"1" maxLength:"255"`
	Title      rest.Nullable[string]     `json:"title,omitempty" maxLength:"255" doc:"Removed when null."`
	PublicID   *string                   `json:"publicId,omitempty" nullable:"true" minLength:"12" maxLength:"12" pattern:"^[0-9A-Za-z]+$" patternDescription:"letters and digits" example:"q3Rev0lutio1" doc:"Unique in the account. A report that exists keeps its own."`
	WorkbookID rest.Nullable[int64]      `json:"workbookId,omitempty" minimum:"0" maximum:"9007199254740991" doc:"The workbook that contains it; none when null or 0. Not together with a folderId."`
	FolderID   rest.Nullable[int64]      `json:"folderId,omitempty" minimum:"0" maximum:"9007199254740991" doc:"The folder that contains it, which takes it out of a workbook; the root when null or 0, unless it is in a workbook."`
	JSONQuery  rest.Nullable[string]     `json:"jsonQuery,omitempty" maxLength:"1048576" example:"{\"measures\":[\"orders.count\"]}" doc:"A query of the data API as text: a JSON object, or a list of them. Removed when null."`
	SQLQuery   rest.Nullable[string]     `json:"sqlQuery,omitempty" maxLength:"1048576" example:"SELECT MEASURE(count) FROM orders" doc:"Removed when null."`
	PivotItems rest.Nullable[PivotItems] `json:"pivotItems,omitempty" doc:"Removed when null."`
	Meta       rest.Nullable[Object]     `json:"meta,omitempty" doc:"Replaces all properties; emptied when null."`
	Spreadsheet
}

// Spreadsheet is where a spreadsheet has the result of a report. The first two go together.
type Spreadsheet struct {
	ExternalWorkbookID *string                       `json:"externalWorkbookId,omitempty" nullable:"true" maxLength:"1024" doc:"The spreadsheet; with resultLocation."`
	ResultLocation     *string                       `json:"resultLocation,omitempty" nullable:"true" maxLength:"1024" example:"Sheet1!A1" doc:"Where the result begins."`
	EndResultCell      *string                       `json:"endResultCell,omitempty" nullable:"true" maxLength:"1024"`
	Host               *string                       `json:"host,omitempty" nullable:"true" enum:"GOOGLE_SHEETS,EXCEL"`
	WorkbookName       *string                       `json:"workbookName,omitempty" nullable:"true" maxLength:"1024"`
	SheetID            *string                       `json:"sheetId,omitempty" nullable:"true" maxLength:"1024"`
	ResultChecksum     rest.Nullable[ResultChecksum] `json:"resultChecksum,omitempty"`
}

// ResultChecksum is the checksum of a result that a client has computed.
type ResultChecksum struct {
	V      int           `json:"v" minimum:"1" maximum:"2147483647"`
	Chunks []ResultChunk `json:"chunks" maxItems:"2000"`
}

// ResultChunk is the checksum of rows of a result.
type ResultChunk struct {
	From int64  `json:"from" minimum:"0" maximum:"9007199254740991"`
	To   *int64 `json:"to,omitempty" nullable:"true" minimum:"0" maximum:"9007199254740991"`
	Hash string `json:"hash" minLength:"1" maxLength:"64"`
}

// objectOf returns a value as an opaque object; nil for nil.
func objectOf[T any](value *T) (workspace.Object, error) {
	if value == nil {
		return nil, nil
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode a property: %w", err)
	}
	return workspace.Decode(text)
}

// valueOf returns an opaque object as a value; nil for empty text.
func valueOf[T any](text string) (*T, error) {
	if text == "" {
		return nil, nil
	}
	out := new(T)
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(out); err != nil {
		return nil, fmt.Errorf("a stored property: %w", err)
	}
	return out, nil
}

// shownPivotItems returns the pivot items of a report; nil without any, and for stored ones that are not of the documented form: the
// report is shown without them.
func shownPivotItems(r *workspace.Report) *PivotItems {
	pivot, err := valueOf[PivotItems](r.PivotItems)
	if err != nil {
		return nil
	}
	return pivot
}

// Placement is where a spreadsheet has the result of a report, as documented.
type Placement struct {
	ID                string          `json:"id"`
	WorkbookID        string          `json:"workbookId" doc:"The spreadsheet."`
	ResultLocation    string          `json:"resultLocation"`
	Host              *string         `json:"host,omitempty" nullable:"true" enum:"GOOGLE_SHEETS,EXCEL"`
	WorkbookName      *string         `json:"workbookName,omitempty" nullable:"true"`
	SheetID           *string         `json:"sheetId,omitempty" nullable:"true"`
	SheetName         *string         `json:"sheetName,omitempty" nullable:"true"`
	AnchorCell        *string         `json:"anchorCell,omitempty" nullable:"true"`
	EndResultCell     *string         `json:"endResultCell,omitempty" nullable:"true"`
	QueryChecksum     *string         `json:"queryChecksum,omitempty" nullable:"true" doc:"That of the report when the result was read."`
	ResultChecksum    *ResultChecksum `json:"resultChecksum,omitempty"`
	SyncStatus        string          `json:"syncStatus" enum:"UP_TO_DATE,CHANGED,UNKNOWN" doc:"Whether the report was changed since the result was read."`
	PlacedAt          time.Time       `json:"placedAt"`
	PlacedByUserID    int64           `json:"placedByUserId" minimum:"1"`
	RefreshedAt       *time.Time      `json:"refreshedAt,omitempty" nullable:"true"`
	RefreshedByUserID *int64          `json:"refreshedByUserId,omitempty" nullable:"true"`
}

func (a *api) shownPlacement(ctx context.Context, r *workspace.Report, p *workspace.Placement) Placement {
	out := Placement{
		ID: strconv.FormatInt(p.ID, 10), WorkbookID: p.ExternalWorkbook, ResultLocation: p.ResultLocation, Host: rest.NilIfEmpty(p.Host),
		WorkbookName: rest.NilIfEmpty(p.WorkbookName), SheetID: rest.NilIfEmpty(p.SheetID), SheetName: rest.NilIfEmpty(p.SheetName),
		AnchorCell: rest.NilIfEmpty(p.AnchorCell), EndResultCell: rest.NilIfEmpty(p.EndResultCell), QueryChecksum: rest.NilIfEmpty(p.QueryChecksum),
		SyncStatus: "UNKNOWN", PlacedAt: p.PlacedAt, PlacedByUserID: a.shownOwner(ctx, p.PlacedBy).ID,
	}
	out.ResultChecksum, _ = valueOf[ResultChecksum](p.ResultChecksum) // it was stored by objectOf
	if p.QueryChecksum != "" {
		if out.SyncStatus = "CHANGED"; p.QueryChecksum == r.Checksum {
			out.SyncStatus = "UP_TO_DATE"
		}
	}
	if !p.RefreshedAt.IsZero() {
		out.RefreshedAt, out.RefreshedByUserID = &p.RefreshedAt, ptr.To(a.shownOwner(ctx, p.RefreshedBy).ID)
	}
	return out
}

// change returns the placement that a body names; nil if it names none.
func (in *Spreadsheet) change(id *string) (*workspace.PlacementChange, error) {
	if in.ExternalWorkbookID == nil && in.ResultLocation == nil {
		return nil, nil
	}
	result, err := objectOf(in.ResultChecksum.Value)
	return &workspace.PlacementChange{
		ID: placementID(id), ExternalWorkbook: ptr.Deref(in.ExternalWorkbookID, ""), ResultLocation: ptr.Deref(in.ResultLocation, ""), Host: in.Host,
		WorkbookName: in.WorkbookName, SheetID: in.SheetID, EndResult: in.EndResultCell, ResultChecksum: result,
	}, err
}

// textOf returns the text that a body sets: null removes it; nil if it sets none.
func textOf(in rest.Nullable[string]) *string {
	if !in.Given {
		return nil
	}
	return ptr.To(ptr.Deref(in.Value, ""))
}

// change returns the change of a body.
func (in *ReportFields) change(placement *string) (out workspace.ReportChange, err error) {
	out = workspace.ReportChange{
		PublicID: in.PublicID, Name: (*string)(in.Name), Title: textOf(in.Title), FolderID: folderOf(in.FolderID), WorkbookID: folderOf(in.WorkbookID),
		JSONQuery: textOf(in.JSONQuery), SQLQuery: textOf(in.SQLQuery), HasPivotItems: in.PivotItems.Given, HasMeta: in.Meta.Given,
		Meta: ptr.Deref(in.Meta.Value, Object{}).Object,
	}
	if out.PivotItems, err = objectOf(in.PivotItems.Value); err != nil {
		return out, err
	}
	out.Placement, err = in.Spreadsheet.change(placement)
	return out, err
}

// NewReport has the properties of a new report.
type NewReport struct {
	ReportFields
	Source *string `json:"source,omitempty" nullable:"true" enum:"GOOGLE_SHEETS,EXCEL,PLAYGROUND,D3" doc:"The client; without effect on a report that exists."`
}

func (in *NewReport) change() (workspace.ReportChange, error) {
	if in == nil {
		return workspace.ReportChange{}, nil
	}
	out, err := in.ReportFields.change(nil)
	out.Source = ptr.Deref(in.Source, "")
	return out, err
}

// CreateReportInput is the body of a creation.
type CreateReportInput struct {
	rest.InDeployment
	Body *NewReport
}

func (a *api) createReport(ctx context.Context, in *CreateReportInput) (*ReportOutput, error) {
	change, err := in.Body.change()
	if err != nil {
		return nil, err
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.CreateReport(ctx, rest.ScopeFrom(ctx).Content(), by, change)
	return a.reportOutput(ctx, &by, r, err)
}

// UpsertReportInput is the body of an upsert. Absent fields stay.
type UpsertReportInput struct {
	rest.InDeployment
	PublicID string `path:"publicId" minLength:"12" maxLength:"12" pattern:"^[0-9A-Za-z]+$" patternDescription:"letters and digits" example:"q3Rev0lutio1" doc:"Unique in the account."`
	Body     *NewReport
}

func (a *api) upsertReport(ctx context.Context, in *UpsertReportInput) (*ReportOutput, error) {
	change, err := in.Body.change()
	if err != nil {
		return nil, err
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.UpsertReport(ctx, rest.ScopeFrom(ctx).Content(), by, in.PublicID, change)
	return a.reportOutput(ctx, &by, r, err)
}

// UpdateReportInput is the body of an update. Absent fields stay.
type UpdateReportInput struct {
	InReport
	Body *struct {
		ReportFields
		PlacementID *string `json:"placementId,omitempty" nullable:"true" maxLength:"32" doc:"The placement that gets the location; the one that has it when absent."`
	}
}

func (a *api) updateReport(ctx context.Context, in *UpdateReportInput) (*ReportOutput, error) {
	change := workspace.ReportChange{}
	if in.Body != nil {
		var err error
		if change, err = in.Body.change(in.Body.PlacementID); err != nil {
			return nil, err
		}
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.UpdateReport(ctx, rest.ScopeFrom(ctx).Content(), by, in.ReportID, change)
	return a.reportOutput(ctx, &by, r, err)
}

// ConnectReportInput is the body of a connection.
type ConnectReportInput struct {
	InReport
	Body struct {
		ExternalWorkbookID string                        `json:"externalWorkbookId" minLength:"1" maxLength:"1024" doc:"The spreadsheet."`
		ResultLocation     string                        `json:"resultLocation" minLength:"1" maxLength:"1024" example:"Sheet1!A1" doc:"Where the result begins."`
		PlacementID        *string                       `json:"placementId,omitempty" nullable:"true" maxLength:"32" doc:"The placement that gets the location; the one that has it when absent."`
		Host               *string                       `json:"host,omitempty" nullable:"true" enum:"GOOGLE_SHEETS,EXCEL"`
		WorkbookName       *string                       `json:"workbookName,omitempty" nullable:"true" maxLength:"1024"`
		SheetID            *string                       `json:"sheetId,omitempty" nullable:"true" maxLength:"1024"`
		SheetName          *string                       `json:"sheetName,omitempty" nullable:"true" maxLength:"1024" doc:"That of resultLocation when absent."`
		AnchorCell         *string                       `json:"anchorCell,omitempty" nullable:"true" maxLength:"1024" doc:"That of resultLocation when absent."`
		EndResultCell      *string                       `json:"endResultCell,omitempty" nullable:"true" maxLength:"1024"`
		ResultChecksum     rest.Nullable[ResultChecksum] `json:"resultChecksum,omitempty"`
		AddressOnly        *bool                         `json:"addressOnly,omitempty" nullable:"true" doc:"The result has moved and was not read again: the checksums stay."`
	}
}

func (a *api) connectReport(ctx context.Context, in *ConnectReportInput) (*ReportOutput, error) {
	b := &in.Body
	result, err := objectOf(b.ResultChecksum.Value)
	if err != nil {
		return nil, err
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.Connect(ctx, rest.ScopeFrom(ctx).Content(), by, in.ReportID, workspace.PlacementChange{
		ID: placementID(b.PlacementID), ExternalWorkbook: b.ExternalWorkbookID, ResultLocation: b.ResultLocation, Host: b.Host, WorkbookName: b.WorkbookName,
		SheetID: b.SheetID, SheetName: b.SheetName, AnchorCell: b.AnchorCell, EndResult: b.EndResultCell, ResultChecksum: result,
		AddressOnly: ptr.Deref(b.AddressOnly, false),
	})
	return a.reportOutput(ctx, &by, r, err)
}

// PlacementAddress selects a placement of a report: by id, or by the sheet and the cell, which resultLocation can have.
type PlacementAddress struct {
	PlacementID        *string `json:"placementId,omitempty" nullable:"true" maxLength:"32"`
	ExternalWorkbookID *string `json:"externalWorkbookId,omitempty" nullable:"true" maxLength:"1024" doc:"The spreadsheet; any when absent."`
	ResultLocation     *string `json:"resultLocation,omitempty" nullable:"true" maxLength:"1024" example:"Sheet1!A1" doc:"Used without sheetName and anchorCell."`
	SheetID            *string `json:"sheetId,omitempty" nullable:"true" maxLength:"1024" doc:"Narrows; it does not replace sheetName."`
	SheetName          *string `json:"sheetName,omitempty" nullable:"true" maxLength:"1024"`
	AnchorCell         *string `json:"anchorCell,omitempty" nullable:"true" maxLength:"1024"`
}

func (in *PlacementAddress) address() workspace.Address {
	return workspace.Address{
		ID: placementID(in.PlacementID), ExternalWorkbook: ptr.Deref(in.ExternalWorkbookID, ""), ResultLocation: ptr.Deref(in.ResultLocation, ""),
		SheetID: ptr.Deref(in.SheetID, ""), SheetName: ptr.Deref(in.SheetName, ""), AnchorCell: ptr.Deref(in.AnchorCell, ""),
	}
}

// DisconnectReportInput is the body of a disconnection.
type DisconnectReportInput struct {
	InReport
	Body *PlacementAddress
}

func (a *api) disconnectReport(ctx context.Context, in *DisconnectReportInput) (*ReportOutput, error) {
	at := workspace.Address{}
	if in.Body != nil {
		at = in.Body.address()
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.Disconnect(ctx, rest.ScopeFrom(ctx).Content(), by, in.ReportID, at)
	return a.reportOutput(ctx, &by, r, err)
}

// RefreshReportInput is the body of a refresh.
type RefreshReportInput struct {
	InReport
	Body *struct {
		PlacementAddress
		ResultChecksum rest.Nullable[ResultChecksum] `json:"resultChecksum,omitempty"`
	}
}

func (a *api) refreshReport(ctx context.Context, in *RefreshReportInput) (*ReportOutput, error) {
	at, result := workspace.Address{}, workspace.Object(nil)
	if in.Body != nil {
		var err error
		if result, err = objectOf(in.Body.ResultChecksum.Value); err != nil {
			return nil, err
		}
		at = in.Body.address()
	}
	by := a.callerOf(ctx, access.Report)
	r, err := a.content.Refresh(ctx, rest.ScopeFrom(ctx).Content(), by, in.ReportID, at, result)
	return a.reportOutput(ctx, &by, r, err)
}
