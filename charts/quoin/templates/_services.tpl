{{- /* The spec of a Service without its selector and ports: {path, service}; path is that of the values. */}}
{{- define "quoin.serviceFields" -}}
{{- with .service }}
{{- $type := .type | default "ClusterIP" }}
{{- if ne $type "LoadBalancer" }}
{{- range list "loadBalancerClass" "loadBalancerSourceRanges" }}
{{- if index $.service . }}
{{- fail (printf "%s.%s requires %s.type=LoadBalancer; the type is %s" $.path . $.path $type) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and .externalTrafficPolicy (eq $type "ClusterIP") }}
{{- fail (printf "%s.externalTrafficPolicy requires %s.type=LoadBalancer or NodePort; the type is ClusterIP, which has no external traffic" $.path $.path) }}
{{- end }}
{{- if and (eq (.ipFamilyPolicy | default "SingleStack") "SingleStack") (gt (len (.ipFamilies | default list)) 1) }}
{{- fail (printf "%s.ipFamilies with two families requires %s.ipFamilyPolicy=PreferDualStack or RequireDualStack" $.path $.path) }}
{{- end }}
type: {{ $type }}
{{- with .loadBalancerClass }}
loadBalancerClass: {{ . }}
{{- end }}
{{- with .loadBalancerSourceRanges }}
loadBalancerSourceRanges:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .externalTrafficPolicy }}
externalTrafficPolicy: {{ . }}
{{- end }}
{{- with .ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .ipFamilies }}
ipFamilies:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
