package main

import (
	"encoding/json"
	"fmt"
)

// The files of the dashboard: for kustomize and for the chart.
const (
	configDashboard = "config/grafana/quoin.json"
	chartDashboard  = "charts/quoin/dashboards/quoin.json"
)

// Kinds of panels.
const (
	graph = "timeseries"
	stat  = "stat"
	table = "table"
)

// The width of a dashboard and the heights of its panels, in units of Grafana's grid.
const (
	dashboardWidth = 24
	rowHeight      = 1
	statHeight     = 4
	graphHeight    = 8
)

// row is a row of a dashboard with its panels.
type row struct {
	title  string
	panels []panel
}

// panel is a panel of a dashboard.
type panel struct {
	kind, title, unit string
	width             int
	queries           []query
}

// query is a query of a panel. Legend is a template such as "{{route}}".
type query struct{ expr, legend string }

// generateDashboard writes the Grafana dashboard.
func generateDashboard(_ string, files map[string]string) error {
	text, err := json.MarshalIndent(dashboard(), "", "  ")
	if err != nil {
		return err
	}
	for _, file := range []string{configDashboard, chartDashboard} {
		files[file] = string(text) + "\n"
	}
	return nil
}

// dashboard returns the model of the dashboard, as Grafana exports it.
func dashboard() map[string]any {
	return map[string]any{
		"uid": "quoin", "title": "Quoin", "tags": []string{"quoin"}, "timezone": "browser", "schemaVersion": 39, "editable": true,
		"refresh": "1m", "time": map[string]string{"from": "now-3h", "to": "now"},
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			map[string]any{
				"name": "job", "label": "Process", "type": "query", "datasource": datasource, "query": "label_values(quoin_build_info, job)",
				"refresh": 2, "includeAll": true, "multi": true, "current": map[string]any{"text": "All", "value": "$__all"},
			},
		}},
		"panels": layOut(rows),
	}
}

var datasource = map[string]string{"type": "prometheus", "uid": "${datasource}"}

// layOut returns the panels with their positions: from left to right, and below each other.
func layOut(rows []row) []any {
	var panels []any
	y := 0
	for _, r := range rows {
		panels = append(panels, map[string]any{
			"id": len(panels) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []any{}, "gridPos": position(0, y, dashboardWidth, rowHeight),
		})
		y += rowHeight
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > dashboardWidth {
				x, y, height = 0, y+height, 0
			}
			panels = append(panels, p.model(len(panels)+1, x, y))
			x, height = x+p.width, max(height, p.height())
		}
		y += height
	}
	return panels
}

func position(x, y, w, h int) map[string]int { return map[string]int{"x": x, "y": y, "w": w, "h": h} }

func (p panel) height() int {
	if p.kind == stat {
		return statHeight
	}
	return graphHeight
}

// model returns the panel at a position.
func (p panel) model(id, x, y int) map[string]any {
	var targets []any
	for i, q := range p.queries {
		target := map[string]any{"refId": fmt.Sprintf("%c", 'A'+i), "expr": q.expr, "legendFormat": q.legend, "datasource": datasource}
		switch p.kind {
		case graph:
			target["range"] = true
		default:
			target["instant"] = true
		}
		if p.kind == table {
			target["format"] = "table"
		}
		targets = append(targets, target)
	}
	model := map[string]any{
		"id": id, "type": p.kind, "title": p.title, "datasource": datasource, "targets": targets, "gridPos": position(x, y, p.width, p.height()),
		"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit}, "overrides": []any{}},
	}
	switch p.kind {
	case graph:
		model["options"] = map[string]any{"legend": map[string]any{"displayMode": "list", "placement": "bottom"}, "tooltip": map[string]any{"mode": "multi", "sort": "desc"}}
	case stat:
		model["options"] = map[string]any{"textMode": "auto", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
	}
	return model
}
