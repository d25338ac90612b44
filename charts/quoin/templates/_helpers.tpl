{{- /* The name that labels carry. */}}
{{- define "quoin.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The beginning of every object's name: "quoin" for a release of that name. */}}
{{- define "quoin.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "quoin.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "quoin.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* What selects the pods of a component: {root, component}. Never changes for a release. */}}
{{- define "quoin.selectorLabels" -}}
app.kubernetes.io/name: {{ include "quoin.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Labels of every object: {root}, and component for what belongs to one. */}}
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

{{- /* Labels of the pods of a component: {root, component, podLabels}. Neither the chart's nor
the image's version is among them: a new chart does not restart pods by itself. */}}
{{- define "quoin.podLabels" -}}
{{- $selector := include "quoin.selectorLabels" . | fromYaml }}
{{- toYaml (mustMergeOverwrite (deepCopy .root.Values.commonLabels) .podLabels $selector) }}
{{- end }}

{{- /* The image that every component runs. */}}
{{- define "quoin.image" -}}
{{- with .Values.image }}
{{- if .digest }}
{{- printf "%s@%s" .repository .digest }}
{{- else }}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The controller's ServiceAccount. */}}
{{- define "quoin.controller.serviceAccountName" -}}
{{- with .Values.controller.serviceAccount }}
{{- if .name }}
{{- .name }}
{{- else if .create }}
{{- include "quoin.fullname" $ }}-controller
{{- else }}
{{- "default" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The front end's ServiceAccount. */}}
{{- define "quoin.apiserver.serviceAccountName" -}}
{{- with .Values.apiserver.serviceAccount }}
{{- if .name }}
{{- .name }}
{{- else if .create }}
{{- include "quoin.fullname" $ }}-apiserver
{{- else }}
{{- "default" }}
{{- end }}
{{- end }}
{{- end }}
