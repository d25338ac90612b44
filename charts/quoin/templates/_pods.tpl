{{- /* A port of the container of a component: {values, name, default}. */}}
{{- define "quoin.port" -}}
{{- int (dig "containerPorts" .name .default .values) }}
{{- end }}

{{- /* Fails if the selector of the component's Deployment in the cluster is not that of the release: {root,
component, live}. Kubernetes would reject the change with a text that names no value. */}}
{{- define "quoin.checkSelector" -}}
{{- with .live.spec }}
{{- $is := .selector.matchLabels }}
{{- $wanted := include "quoin.selectorLabels" (dict "root" $.root "component" $.component) | fromYaml }}
{{- if ne (toJson $is) (toJson $wanted) }}
{{- fail (printf "Deployment %s/%s selects pods with %s, this release with %s, and the selector of a Deployment cannot be changed: restore nameOverride of the previous release; set kustomizeSelectors=%t if %s; or delete the Deployment first" $.live.metadata.namespace $.live.metadata.name (toJson $is) (toJson $wanted) (not $.root.Values.kustomizeSelectors) (ternary "the release was installed without it" "kustomize created the Deployment" ($.root.Values.kustomizeSelectors | default false))) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The number of pods of a component: {root, component, live}. While an autoscaler determines it, the field is
omitted; an upgrade keeps the number of the Deployment in the cluster, because removing the field would
reset it to one. */}}
{{- define "quoin.replicas" -}}
{{- with index .root.Values .component }}
{{- if not (.autoscaling).enabled }}
replicas: {{ .replicas }}
{{- else if ($.live.spec).replicas }}
replicas: {{ max $.live.spec.replicas .autoscaling.minReplicas }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The update strategy of a component: {root, component, own}. All fields are set, so that one strategy can
follow the other with client-side and with server-side apply. */}}
{{- define "quoin.strategy" -}}
{{- $values := (index .root.Values .component).strategy | default dict }}
{{- $type := $values.type | default (ternary "RollingUpdate" "Recreate" (empty .own.recreate)) }}
{{- if and .own.recreate (ne $type "Recreate") }}
{{- fail (printf "%s.strategy.type must be Recreate, or empty: %s" .component .own.recreate) }}
{{- end }}
type: {{ $type }}
{{- if eq $type "Recreate" }}
rollingUpdate: null
{{- else }}
{{- $surge := include "quoin.setOr" (dict "value" ($values.rollingUpdate).maxSurge "default" "25%") }}
{{- $unavailable := include "quoin.setOr" (dict "value" ($values.rollingUpdate).maxUnavailable "default" "25%") }}
{{- if and (eq (trimSuffix "%" $surge) "0") (eq (trimSuffix "%" $unavailable) "0") }}
{{- fail (printf "%s.strategy.rollingUpdate: maxSurge and maxUnavailable must not both be 0, because no pod could be replaced" .component) }}
{{- end }}
rollingUpdate:
  maxSurge: {{ $surge }}
  maxUnavailable: {{ $unavailable }}
{{- end }}
{{- end }}

{{- /* A value, or the default if it is not set or an empty text: {value, default}. Zero is a value. */}}
{{- define "quoin.setOr" -}}
{{- if or (kindIs "invalid" .value) (eq (toString .value) "") }}
{{- .default }}
{{- else }}
{{- .value }}
{{- end }}
{{- end }}

{{- /* The fields of the pods of a component that the values set unchanged: {root, component}. */}}
{{- define "quoin.podFields" -}}
{{- with index .root.Values .component }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if .hostNetwork }}
hostNetwork: true
{{- end }}
{{- /* With the default policy, pods on the network of their node do not resolve names of Services. */}}
{{- with .dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" (.hostNetwork | default false)) }}
dnsPolicy: {{ . }}
{{- end }}
{{- if and (eq (.dnsPolicy | default "") "None") (not (.dnsConfig).nameservers) }}
{{- fail (printf "%s.dnsPolicy=None requires %s.dnsConfig.nameservers: the pods would resolve no names" $.component $.component) }}
{{- end }}
{{- with .dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .extraInitContainers }}
initContainers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
