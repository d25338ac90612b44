{{- /* The URL of quoin apiserver for the repositories that Quoin keeps; empty without a database. */}}
{{- define "quoin.repositoryURL" -}}
{{- with .Values.apiserver }}
{{- if and .enabled .database.enabled }}
{{- .repositories.url | default (printf "https://%s-apiserver.%s.svc" (include "quoin.fullname" $) (include "quoin.namespace" $)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "quoin.controller.own" -}}
{{- with .Values.controller }}
{{- if and (gt (int .replicas) 1) (not .leaderElection.enabled) }}
{{- fail "controller.replicas above 1 requires controller.leaderElection.enabled: two active controllers would conflict" }}
{{- end }}
args:
  - controller
  - --leader-elect={{ .leaderElection.enabled }}
  - --metrics-bind-address={{ ternary (printf ":%s" (include "quoin.port" (dict "values" . "name" "metrics" "default" 8443))) "0" .metrics.enabled }}
  - --health-probe-bind-address=:{{ include "quoin.port" (dict "values" . "name" "health" "default" 8081) }}
  - --concurrency={{ int .concurrency }}
  - --max-concurrent-rollouts={{ int .maxConcurrentRollouts }}
  - --sql-port={{ int $.Values.gateway.sql.port }}
  - --region={{ $.Values.apiserver.region }}
  {{- with include "quoin.repositoryURL" $ }}
  - --repository-url={{ . }}
  {{- end }}
  {{- with $.Values.dbt.image }}
  - {{ printf "--dbt-image=%s" . | quote }}
  {{- end }}
  {{- with include "quoin.namespaces.args" $ }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with include "quoin.tracing.args" $ }}
  {{- . | nindent 2 }}
  {{- end }}
  - --log-level={{ .log.level }}
  - --log-format={{ .log.format }}
env:
  {{- with include "quoin.tracing.env" $ }}
  {{- . | nindent 2 }}
  {{- end }}
  - name: QUOIN_IMAGE
    value: {{ include "quoin.image" $ }}
{{- if .metrics.enabled }}
ports:
  - name: metrics
    containerPort: {{ include "quoin.port" (dict "values" . "name" "metrics" "default" 8443) }}
{{- end }}
{{- if not .leaderElection.enabled }}
recreate: without controller.leaderElection.enabled, the old pod must end before the new one starts
{{- end }}
role: true
{{- end }}
{{- end }}
