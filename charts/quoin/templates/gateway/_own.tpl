{{- define "quoin.gateway.own" -}}
{{- with .Values.gateway }}
args:
  - gateway
  - --bind-address=:8443
  - --sql-bind-address={{ ternary ":5432" "0" .sql.enabled }}
  - --health-probe-bind-address=:8081
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
ports:
  - name: https
    containerPort: 8443
    service: 443
  {{- if .sql.enabled }}
  - name: sql
    containerPort: 5432
    service: {{ int .sql.port }}
  {{- end }}
  {{- if .metrics.enabled }}
  - name: metrics
    containerPort: 8080
  {{- end }}
role: true
spread: true
# Longer than --shutdown-delay and --drain-timeout together.
gracePeriodSeconds: {{ add .shutdown.delaySeconds .shutdown.drainSeconds 10 }}
{{- end }}
{{- end }}
