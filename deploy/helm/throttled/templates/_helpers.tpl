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

{{/* The ports of clients that are served: objects with name and port. */}}
{{- define "throttled.clientPorts" -}}
{{- range $name := list "redis" "http" "grpc" "cluster" "sentinel" "leader" }}
{{- with int (index $.Values.ports $name) }}
- {name: {{ $name }}, port: {{ . }}}
{{- end }}
{{- with int (index $.Values.tls.ports $name) }}
- {name: tls-{{ $name }}, port: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* The volumes of secrets for clients: objects with name, path and sources. A source has the name of a secret and its keys by file. */}}
{{- define "throttled.secrets" -}}
{{- with .Values.password }}{{ if .secret }}
- {name: password, path: /password, sources: [{secret: {{ .secret }}, files: {password: {{ .key }}}}]}
{{- end }}{{ end }}
{{- with .Values.users }}{{ if .secret }}
- {name: users, path: /users, sources: [{secret: {{ .secret }}, files: {users.acl: {{ .key }}}}]}
{{- end }}{{ end }}
{{- with .Values.tls }}{{ if .secret }}
- name: tls
  path: /tls
  sources:
    - {secret: {{ .secret }}, files: {tls.crt: {{ .certKey }}, tls.key: {{ .keyKey }}}}
    {{- if ne .authClients "no" }}
    - {secret: {{ .clientCA.secret }}, files: {ca.crt: {{ .clientCA.key }}}}
    {{- end }}
    {{- if .revoked.secret }}
    - {secret: {{ .revoked.secret }}, files: {revoked.txt: {{ .revoked.key }}}}
    {{- end }}
{{- end }}{{ end }}
{{- end -}}

{{/* The options of the configuration file for the volumes above. */}}
{{- define "throttled.secretOptions" -}}
{{- if .Values.password.secret }}
requirepass-file /password/password
{{- end }}
{{- if .Values.users.secret }}
aclfile /users/users.acl
{{- end }}
{{- with .Values.tls }}{{ if .secret }}
{{- range $name, $port := .ports }}
tls-{{ eq $name "redis" | ternary "" (printf "%s-" $name) }}port {{ $port }}
{{- end }}
tls-cert-file /tls/tls.crt
tls-key-file /tls/tls.key
{{- if ne .authClients "no" }}
tls-ca-cert-file /tls/ca.crt
{{- end }}
{{- if .revoked.secret }}
tls-revoked-file /tls/revoked.txt
{{- end }}
tls-auth-clients {{ .authClients }}
tls-auth-clients-user {{ .authClientsUser }}
tls-protocols {{ .protocols }}
{{- end }}{{ end }}
{{- end -}}

{{/* Refuses settings that contradict each other. values.schema.json describes single settings. */}}
{{- define "throttled.check" -}}
{{- if not .Values.certificates.secret }}{{ fail "certificates.secret is missing: create the certificates with throttled certs, and a secret with them (docs/kubernetes.md)" }}{{ end -}}
{{- if not (or .Values.password.secret .Values.users.secret .Values.password.allowWithout) }}{{ fail "password.secret is missing: create a secret with the password of clients, or set users.secret or password.allowWithout" }}{{ end -}}
{{- $tls := .Values.tls -}}
{{- $served := false -}}
{{- range $tls.ports }}{{ if . }}{{ $served = true }}{{ end }}{{ end -}}
{{- if and $served (not $tls.secret) }}{{ fail "tls.secret is missing: create a secret with the certificate and the key for tls.ports" }}{{ end -}}
{{- if and $tls.secret (not $served) }}{{ fail "tls.ports are all 0: set at least one of them, such as tls.ports.redis, or remove tls.secret" }}{{ end -}}
{{- if and $tls.secret (ne $tls.authClients "no") (not $tls.clientCA.secret) }}{{ fail "tls.clientCA.secret is missing: create a secret with the CAs of client certificates, or set tls.authClients to \"no\"" }}{{ end -}}
{{- if and $tls.revoked.secret (or (not $tls.secret) (eq $tls.authClients "no")) }}{{ fail "tls.revoked.secret has no effect: it needs tls.secret, and tls.authClients \"yes\" or \"optional\"" }}{{ end -}}
{{- if not (or .Values.ports.redis $tls.ports.redis) }}{{ fail "ports.redis and tls.ports.redis are both 0: set one of them" }}{{ end -}}
{{- end -}}
