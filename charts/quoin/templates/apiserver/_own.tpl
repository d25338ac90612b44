{{- define "quoin.apiserver.own" -}}
{{- with .Values.apiserver }}
{{- if and .tls.secretName .aggregation.enabled (not .aggregation.caBundle) }}
{{- fail "apiserver.tls.secretName with apiserver.aggregation.enabled needs apiserver.aggregation.caBundle, the authority of that certificate; or turn the aggregation off" }}
{{- end }}
args:
  - apiserver
  - --bind-address=:8443
  - --health-probe-bind-address=:8081
  {{- include "quoin.server.args" (dict "root" $ "component" "apiserver") | nindent 2 }}
  - --region={{ .region }}
  {{- with .regionTitle }}
  - {{ printf "--region-title=%s" . | quote }}
  {{- end }}
  - --aggregation={{ .aggregation.enabled }}
  - --log-level={{ .log.level }}
  - --log-format={{ .log.format }}
ports:
  - name: https
    containerPort: 8443
    service: 443
  {{- if .metrics.enabled }}
  - name: metrics
    containerPort: 8080
  {{- end }}
spread: true
# Longer than --shutdown-delay and the 30 s in which requests may finish after it.
gracePeriodSeconds: 45
{{- end }}
{{- end }}
