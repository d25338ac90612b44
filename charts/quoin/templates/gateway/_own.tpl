{{- define "quoin.gateway.own" -}}
{{- with .Values.gateway }}
args:
  - gateway
  - --bind-address=:{{ include "quoin.port" (dict "values" . "name" "https" "default" 8443) }}
  - --sql-bind-address={{ ternary (printf ":%s" (include "quoin.port" (dict "values" . "name" "sql" "default" 5432))) "0" .sql.enabled }}
  - --health-probe-bind-address=:{{ include "quoin.port" (dict "values" . "name" "health" "default" 8081) }}
  {{- include "quoin.server.args" (dict "root" $ "component" "gateway") | nindent 2 }}
  {{- with .limits }}
  - --requests-per-second={{ .requestsPerSecond }}
  - --burst={{ int .burst }}
  - --max-in-flight={{ int .maxInFlight }}
  - --max-requests={{ int .maxRequests }}
  - --max-waiting={{ int .maxWaiting }}
  - --wait-timeout={{ int .waitSeconds }}s
  - --max-sql-connections={{ int .maxSQLConnections }}
  - --max-connections={{ int .maxConnections }}
  - --max-unauthenticated={{ int .maxUnauthenticated }}
  - --max-unauthenticated-per-address={{ int .maxUnauthenticatedPerAddress }}
  {{- end }}
  - --shutdown-delay={{ int .shutdown.delaySeconds }}s
  - --drain-timeout={{ int .shutdown.drainSeconds }}s
  - --log-level={{ .log.level }}
  - --log-format={{ .log.format }}
env:
  {{- with include "quoin.tracing.env" $ }}
  {{- . | nindent 2 }}
  {{- end }}
ports:
  - name: https
    containerPort: {{ include "quoin.port" (dict "values" . "name" "https" "default" 8443) }}
    service: 443
  {{- if .sql.enabled }}
  - name: sql
    containerPort: {{ include "quoin.port" (dict "values" . "name" "sql" "default" 5432) }}
    service: {{ int .sql.port }}
  {{- end }}
  {{- if .metrics.enabled }}
  - name: metrics
    containerPort: {{ include "quoin.port" (dict "values" . "name" "metrics" "default" 8080) }}
  {{- end }}
role: true
spread: true
# Longer than --shutdown-delay and --drain-timeout together.
gracePeriodSeconds: {{ add .shutdown.delaySeconds .shutdown.drainSeconds 10 }}
{{- end }}
{{- end }}
