{{- define "throttled.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "throttled.labels" -}}
app.kubernetes.io/name: throttled
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The name of the node in pod number .index. */}}
{{- define "throttled.nodeID" -}}
{{- $pod := printf "%s-%d" (include "throttled.name" .root) .index -}}
{{- index .root.Values.nodeIDs (toString .index) | default $pod -}}
{{- end -}}

{{/* The host of pod number .index. */}}
{{- define "throttled.host" -}}
{{- $name := include "throttled.name" .root -}}
{{- printf "%s-%d.%s-nodes.%s.svc.%s" $name .index $name .root.Release.Namespace .root.Values.clusterDomain -}}
{{- end -}}

{{/* The ports of clients that are served, by name. */}}
{{- define "throttled.clientPorts" -}}
{{- range $name := list "redis" "http" "grpc" "cluster" "sentinel" "leader" }}
{{- $port := int (index $.Values.ports $name) }}
{{- if $port }}
- {name: {{ $name }}, port: {{ $port }}}
{{- end }}
{{- end }}
{{- end -}}

{{- define "throttled.check" -}}
{{- if not .Values.certificates.secret }}{{ fail "certificates.secret is missing: create the certificates with throttled certs, and a secret with them (docs/kubernetes.md)" }}{{ end -}}
{{- if and (not .Values.password.secret) (not .Values.password.allowWithout) }}{{ fail "password.secret is missing: create a secret with the password of clients, or set password.allowWithout" }}{{ end -}}
{{- if not (has (int .Values.replicas) (list 3 5 7)) }}{{ fail "replicas must be 3, 5 or 7" }}{{ end -}}
{{- if not (has .Values.antiAffinity (list "required" "preferred")) }}{{ fail "antiAffinity must be required or preferred" }}{{ end -}}
{{- if not .Values.ports.http }}{{ fail "ports.http must not be 0: the probes use it" }}{{ end -}}
{{- end -}}
