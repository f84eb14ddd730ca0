{{- define "kafka-mesh.labels" -}}
app.kubernetes.io/name: {{ .Values.name }}
{{- end -}}
