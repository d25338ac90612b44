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

{{- /* The labels that select the pods of a component: {root, component}. Immutable for a release. */}}
{{- define "quoin.selectorLabels" -}}
app.kubernetes.io/name: {{ include "quoin.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
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
is reachable from any address, under that number of the Service), and optionally strategy,
gracePeriodSeconds, volume (the claim and its mount path), spread (over nodes, unless the values
override it) and role (one in the namespace of the release, in addition to that in the cluster). The
rest is in the folder components. */}}
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

{{- /* The arguments of all components that serve HTTPS: {root, component}. */}}
{{- define "quoin.server.args" -}}
{{- with index .root.Values .component -}}
- --metrics-bind-address={{ ternary ":8080" "0" .metrics.enabled }}
- --service={{ include "quoin.fullname" $.root }}-{{ $.component }}
{{- with .trustedProxies }}
- --trusted-proxies={{ join "," . }}
{{- end }}
{{- if .tls.secretName }}
- --tls-cert-file=/etc/quoin/tls/tls.crt
- --tls-key-file=/etc/quoin/tls/tls.key
{{- end }}
{{- end }}
{{- end }}
