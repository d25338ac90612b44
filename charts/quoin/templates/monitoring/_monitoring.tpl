{{- /* The settings of monitoring. Values that have moved fail with the name of the new one. */}}
{{- define "quoin.monitoring" -}}
{{- with .Values.controller.metrics }}
{{- if .readers }}
{{- fail "controller.metrics.readers has moved to monitoring.readers, for the metrics of all components" }}
{{- end }}
{{- if dig "serviceMonitor" "enabled" false . }}
{{- fail "controller.metrics.serviceMonitor has moved to monitoring.monitor, with kind=ServiceMonitor, for the metrics of all components" }}
{{- end }}
{{- if dig "prometheusRule" "enabled" false . }}
{{- fail "controller.metrics.prometheusRule has moved to monitoring.alerts, for the metrics of all components" }}
{{- end }}
{{- end }}
{{- /* With --reuse-values, the values of earlier releases lack these. */}}
{{- with .Values.monitoring | default (dict "readers" list "monitor" (dict "kind" "") "alerts" (dict "enabled" false) "dashboard" (dict "enabled" false)) }}
{{- if and .alerts.enabled (not .monitor.kind) }}
{{- fail "monitoring.alerts.enabled requires monitoring.monitor.kind: the alerts use the metrics under the names of its jobs" }}
{{- end }}
{{- if and (eq .monitor.kind "PodMonitor") (not .monitor.authorization) }}
{{- fail "monitoring.monitor.kind=PodMonitor requires monitoring.monitor.authorization: a PodMonitor cannot send the token of Prometheus' own ServiceAccount" }}
{{- end }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- /* The components with metrics. */}}
{{- define "quoin.monitored" -}}
{{- range $component := include "quoin.components" . | fromYamlArray }}
{{- if (index $.Values $component).metrics.enabled }}
- {{ $component }}
{{- end }}
{{- end }}
{{- end }}
