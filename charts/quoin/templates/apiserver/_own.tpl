{{- define "quoin.apiserver.own" -}}
{{- $database := include "quoin.apiserver.database" . }}
{{- $gateway := include "quoin.apiserver.gateway" . | fromYaml }}
{{- with .Values.apiserver }}
{{- if and .tls.secretName .aggregation.enabled (not .aggregation.caBundle) (not (.tls.certManager).enabled) }}
{{- fail "apiserver.tls.secretName with apiserver.aggregation.enabled requires apiserver.aggregation.caBundle, the certificate authority of that certificate; or disable the aggregation" }}
{{- end }}
{{- if and (eq $database "sqlite") (.autoscaling).enabled }}
{{- fail "apiserver.autoscaling.enabled requires PostgreSQL (apiserver.database.existingSecret.name), because SQLite supports one pod only" }}
{{- end }}
{{- if and (eq $database "sqlite") (gt (int .replicas) 1) }}
{{- fail "apiserver.replicas above 1 requires PostgreSQL (apiserver.database.existingSecret.name), because SQLite supports one pod only; to run without an audit log, set apiserver.database.enabled=false" }}
{{- end }}
args:
  - apiserver
  - --bind-address=:{{ include "quoin.port" (dict "values" . "name" "https" "default" 8443) }}
  - --health-probe-bind-address=:{{ include "quoin.port" (dict "values" . "name" "health" "default" 8081) }}
  {{- include "quoin.server.args" (dict "root" $ "component" "apiserver") | nindent 2 }}
  - --region={{ .region }}
  {{- with .regionTitle }}
  - {{ printf "--region-title=%s" . | quote }}
  {{- end }}
  {{- if .aggregation.enabled }}
  - --aggregation
  {{- end }}
  {{- if .github.appId }}
  {{- if not (and .github.appSlug .github.existingSecret.name) }}
  {{- fail "apiserver.github.appId requires apiserver.github.appSlug and apiserver.github.existingSecret.name, the Secret with the private key of the GitHub App" }}
  {{- end }}
  - --github-app-id={{ .github.appId }}
  - --github-app-slug={{ .github.appSlug }}
  - --github-app-key-file=/etc/quoin/github/key.pem
  - --github-base-url={{ .github.baseUrl }}
  {{- if .github.existingSecret.caKey }}
  - --github-ca-file=/etc/quoin/github/ca.crt
  {{- end }}
  {{- end }}
  {{- with $.Values.dbt.image }}
  - {{ printf "--dbt-image=%s" . | quote }}
  {{- end }}
  {{- with $gateway.address }}
  - {{ printf "--gateway-address=%s" . | quote }}
  {{- end }}
  {{- if $gateway.secret }}
  - --gateway-ca-file=/etc/quoin/gateway/ca.crt
  {{- end }}
  - --log-level={{ .log.level }}
  - --log-format={{ .log.format }}
env:
  {{- with include "quoin.tracing.env" $ }}
  {{- . | nindent 2 }}
  {{- end }}
{{- if eq $database "postgresql" }}
  - name: DATABASE_URL
    valueFrom:
      secretKeyRef:
        name: {{ .database.existingSecret.name }}
        key: {{ .database.existingSecret.key }}
{{- else if eq $database "sqlite" }}
  - name: DATABASE_URL
    value: sqlite:///var/lib/quoin/quoin.db
  # Temporary files of long searches and retention: the root file system is read-only.
  - name: SQLITE_TMPDIR
    value: /var/lib/quoin
volume:
  claim: {{ .database.sqlite.existingClaim | default (printf "%s-apiserver" (include "quoin.fullname" $)) }}
  mountPath: /var/lib/quoin
recreate: with SQLite, the old pod must close the database before the new one opens it; set apiserver.database.existingSecret.name for PostgreSQL
{{- end }}
secretFiles:
{{- if .github.appId }}
  - name: github
    secret: {{ .github.existingSecret.name }}
    mountPath: /etc/quoin/github
    items:
      - key: {{ .github.existingSecret.key }}
        path: key.pem
      {{- with .github.existingSecret.caKey }}
      - key: {{ . }}
        path: ca.crt
      {{- end }}
{{- end }}
{{- with $gateway.secret }}
  - name: gateway
    secret: {{ . }}
    mountPath: /etc/quoin/gateway
    # The gateway writes it when it starts.
    optional: true
    items:
      - key: {{ $gateway.key }}
        path: ca.crt
{{- end }}
ports:
  - name: https
    containerPort: {{ include "quoin.port" (dict "values" . "name" "https" "default" 8443) }}
    service: 443
  {{- if .metrics.enabled }}
  - name: metrics
    containerPort: {{ include "quoin.port" (dict "values" . "name" "metrics" "default" 8080) }}
  {{- end }}
role: true
spread: true
# Longer than --shutdown-delay and the 30 s in which requests may finish after it.
gracePeriodSeconds: 45
{{- end }}
{{- end }}

{{- /* The database of the audit log: postgresql, sqlite, or empty. */}}
{{- define "quoin.apiserver.database" -}}
{{- with .Values.apiserver.database }}
{{- if .enabled }}
{{- ternary "postgresql" "sqlite" (ne .existingSecret.name "") }}
{{- end }}
{{- end }}
{{- end }}

{{- /* How the pods reach the gateway: {address, secret, key}; all empty without one. */}}
{{- define "quoin.apiserver.gateway" -}}
{{- $given := .Values.apiserver.gateway | default dict }}
{{- if $given.address }}
address: {{ $given.address }}
{{- else if .Values.gateway.enabled }}
address: {{ include "quoin.fullname" . }}-gateway.{{ include "quoin.namespace" . }}.svc:443
{{- end }}
{{- if ($given.caSecret).name }}
secret: {{ $given.caSecret.name }}
key: {{ $given.caSecret.key }}
{{- else if and .Values.gateway.enabled (not $given.address) (not (include "quoin.certificate" (dict "root" . "component" "gateway"))) }}
secret: quoin-gateway-tls
key: ca.crt
{{- end }}
{{- end }}
