{{- /* The value of the label app.kubernetes.io/name. */}}
{{- define "quoin.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The prefix of the names of all objects. */}}
{{- define "quoin.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "quoin.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "quoin.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* The namespace of all objects. */}}
{{- define "quoin.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace }}
{{- end }}

{{- /* The labels that select the pods of a component: {root, component}. Immutable for a release. */}}
{{- define "quoin.selectorLabels" -}}
app.kubernetes.io/name: {{ include "quoin.name" .root }}
{{- if not .root.Values.kustomizeSelectors }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* The labels of all objects: {root}, and component for objects of a component. */}}
{{- define "quoin.labels" -}}
{{- $labels := deepCopy .root.Values.commonLabels }}
{{- $_ := set $labels "app.kubernetes.io/name" (include "quoin.name" .root) }}
{{- $_ := set $labels "app.kubernetes.io/instance" .root.Release.Name }}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "quoin" }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) }}
{{- with .component }}
{{- $_ := set $labels "app.kubernetes.io/component" . }}
{{- end }}
{{- toYaml $labels }}
{{- end }}

{{- /* The labels of an object with labels in the values: {root, component, labels}. Those of the chart win. */}}
{{- define "quoin.labelsWith" -}}
{{- toYaml (mustMergeOverwrite (deepCopy (.labels | default dict)) (include "quoin.labels" . | fromYaml)) }}
{{- end }}

{{- /* The labels of the pods of a component: {root, component, podLabels}. They do not include the
versions of chart and image, so that a new chart alone does not restart pods. */}}
{{- define "quoin.podLabels" -}}
{{- $selector := include "quoin.selectorLabels" . | fromYaml }}
{{- toYaml (mustMergeOverwrite (deepCopy .root.Values.commonLabels) .podLabels $selector) }}
{{- end }}

{{- /* The image of all components. */}}
{{- define "quoin.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The components of this release. A new component requires a name here and in the values, a role,
and a template "quoin.<name>.own" with its specifics, in YAML: args, env, ports (a port with "service"
is reachable from any address, under that number of the Service), and optionally recreate (why two pods
must not run at a time), gracePeriodSeconds, volume (the claim and its mount path), spread (over nodes,
unless the values override it) and role (one in the namespace of the release, in addition to that in the
cluster). The rest is in the folder components and in _pods.tpl and _services.tpl. */}}
{{- define "quoin.components" -}}
- controller
{{- range list "apiserver" "gateway" }}
{{- if (index $.Values .).enabled }}
- {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The specifics of a component: {root, component}. */}}
{{- define "quoin.own" -}}
{{- $text := include (printf "quoin.%s.own" .component) .root }}
{{- with (fromYaml $text).Error }}
{{- fail (printf "%s: %s" $.component .) }}
{{- end }}
{{- $text }}
{{- end }}

{{- /* The ServiceAccount of a component: {root, component}. */}}
{{- define "quoin.serviceAccountName" -}}
{{- with (index .root.Values .component).serviceAccount }}
{{- if .name }}
{{- .name }}
{{- else if .create }}
{{- include "quoin.fullname" $.root }}-{{ $.component }}
{{- else }}
{{- "default" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The Secret with the certificate of a component: {root, component}; empty if it generates one. */}}
{{- define "quoin.certificate" -}}
{{- with (index .root.Values .component).tls }}
{{- if .secretName }}
{{- .secretName }}
{{- else if (.certManager).enabled }}
{{- include "quoin.fullname" $.root }}-{{ $.component }}-certificate
{{- end }}
{{- end }}
{{- end }}

{{- /* Not empty if a component serves the aggregated API: {root, component}. */}}
{{- define "quoin.aggregated" -}}
{{- if dig "aggregation" "enabled" false (index .root.Values .component) }}true{{ end }}
{{- end }}

{{- /* The arguments of all components that serve HTTPS: {root, component}. */}}
{{- define "quoin.server.args" -}}
{{- with index .root.Values .component -}}
- --metrics-bind-address={{ ternary (printf ":%s" (include "quoin.port" (dict "values" . "name" "metrics" "default" 8080))) "0" .metrics.enabled }}
- --service={{ include "quoin.fullname" $.root }}-{{ $.component }}
{{- with .trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- if include "quoin.certificate" $ }}
- --tls-cert-file=/etc/quoin/tls/tls.crt
- --tls-key-file=/etc/quoin/tls/tls.key
{{- end }}
{{- end }}
{{- with include "quoin.namespaces.args" .root }}
{{ . }}
{{- end }}
{{- with include "quoin.tracing.args" .root }}
{{ . }}
{{- end }}
{{- end }}

{{- /* The argument for the namespaces, of all components. */}}
{{- define "quoin.namespaces.args" -}}
{{- with .Values.watchNamespaces }}
{{- if has (include "quoin.namespace" $) . }}
{{- fail (printf "watchNamespaces must not contain %s, the namespace of Quoin itself, which no account may have" (include "quoin.namespace" $)) }}
{{- end }}
{{- range $.Values.accountNamespaces }}
{{- if not (has . $.Values.watchNamespaces) }}
{{- fail (printf "accountNamespaces contains %s, which watchNamespaces does not contain: Quoin would not work there" .) }}
{{- end }}
{{- end -}}
- --watch-namespaces={{ join "," . }}
{{- end }}
{{- end }}

{{- /* The arguments for traces, of all components. */}}
{{- define "quoin.tracing.args" -}}
{{- with .Values.tracing }}
{{- if .endpoint }}
- {{ printf "--tracing-endpoint=%s" .endpoint | quote }}
{{- with .protocol }}
- --tracing-protocol={{ . }}
{{- end }}
{{- else if or .protocol .sampler .samplerArg (.headers).secretName .resourceAttributes }}
{{- fail "tracing requires tracing.endpoint, the URL of the receiver: without it, no traces are exported and the other values of tracing have no effect" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The environment variables for traces, of all components. */}}
{{- define "quoin.tracing.env" -}}
{{- with .Values.tracing }}
{{- if and .samplerArg (not .sampler) }}
{{- fail "tracing.samplerArg requires tracing.sampler, whose argument it is" }}
{{- end }}
{{- with .sampler }}
- name: OTEL_TRACES_SAMPLER
  value: {{ . }}
{{- end }}
{{- with .samplerArg }}
- name: OTEL_TRACES_SAMPLER_ARG
  value: {{ . | quote }}
{{- end }}
{{- with .resourceAttributes }}
{{- $attributes := list }}
{{- range $name, $value := . }}
{{- $attributes = append $attributes (printf "%s=%s" $name ($value | urlquery | replace "+" "%20")) }}
{{- end }}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ join "," $attributes | quote }}
{{- end }}
{{- if (.headers).secretName }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .headers.secretName }}
      key: {{ .headers.key | default "headers" }}
{{- end }}
{{- end }}
{{- end }}
