{{- /* The version of the Gateway API's kind TLSRoute: the newest that the cluster serves. */}}
{{- define "quoin.tlsRouteVersion" -}}
{{- $version := "v1alpha2" }}
{{- range list "v1alpha3" "v1" }}
{{- if $.Capabilities.APIVersions.Has (printf "gateway.networking.k8s.io/%s/TLSRoute" .) }}
{{- $version = . }}
{{- end }}
{{- end }}
{{- $version }}
{{- end }}

{{- /* A route of the Gateway API to a Service: {root, component, kind, route, path, name, service, port}; path is
that of the values. */}}
{{- define "quoin.route" }}
{{- with .route }}
{{- if .enabled }}
{{- if not .parentRefs }}
{{- fail (printf "%s.enabled requires %s.parentRefs, the Gateways or listeners of the route, such as [{name: public, namespace: gateways}]" $.path $.path) }}
{{- end }}
{{- if not .hostnames }}
{{- fail (printf "%s.enabled requires %s.hostnames: a request is for the account or deployment of its host" $.path $.path) }}
{{- end }}
---
apiVersion: gateway.networking.k8s.io/{{ ternary "v1" (include "quoin.tlsRouteVersion" $.root) (eq $.kind "HTTPRoute") }}
kind: {{ $.kind }}
metadata:
  name: {{ $.name }}
  namespace: {{ include "quoin.namespace" $.root }}
  labels:
    {{- include "quoin.labelsWith" (dict "root" $.root "component" $.component "labels" .labels) | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  parentRefs:
    {{- toYaml .parentRefs | nindent 4 }}
  hostnames:
    {{- toYaml .hostnames | nindent 4 }}
  rules:
    - backendRefs:
        - name: {{ $.service }}
          port: {{ $.port }}
      {{- with .filters }}
      filters:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .timeouts }}
      timeouts:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{ end }}
{{- end }}
{{- end }}

{{- /* The policy with which a Gateway connects to a Service over TLS: {root, component, route, path, name}. */}}
{{- define "quoin.backendTLS" }}
{{- if and (.route).enabled (.route.backendTLS).enabled }}
{{- with .route.backendTLS }}
{{- if not (or .caCertificateRefs .wellKnownCACertificates) }}
{{- fail (printf "%s requires caCertificateRefs, a ConfigMap with the certificate authority of the server's certificate, or wellKnownCACertificates=System; set %s.enabled=false if the Gateway connects over TLS for another reason" $.path $.path) }}
{{- end }}
{{- if and .caCertificateRefs .wellKnownCACertificates }}
{{- fail (printf "%s: caCertificateRefs and wellKnownCACertificates must not both be set" $.path) }}
{{- end }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata:
  name: {{ $.name }}
  namespace: {{ include "quoin.namespace" $.root }}
  labels:
    {{- include "quoin.labels" (dict "root" $.root "component" $.component) | nindent 4 }}
spec:
  targetRefs:
    - group: ""
      kind: Service
      name: {{ $.name }}
      sectionName: https
  validation:
    hostname: {{ .hostname | default (printf "%s.%s.svc" $.name (include "quoin.namespace" $.root)) }}
    {{- with .caCertificateRefs }}
    caCertificateRefs:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with .wellKnownCACertificates }}
    wellKnownCACertificates: {{ . }}
    {{- end }}
{{ end }}
{{- end }}
{{- end }}
