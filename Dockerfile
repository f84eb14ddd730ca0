# syntax=docker/dockerfile:1
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY mesh mesh
RUN python -m venv /opt/kafka-mesh \
    && /opt/kafka-mesh/bin/pip install --no-cache-dir --constraint requirements.lock . \
    && /opt/kafka-mesh/bin/pip uninstall --yes pip

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home kafka-mesh
COPY --from=build /opt/kafka-mesh /opt/kafka-mesh
# It writes nothing but logs to standard error: the file system may be read-only.
ENV PATH=/opt/kafka-mesh/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    KAFKA_MESH_HEALTH=http://127.0.0.1:9644/healthz
USER 10001
# Needs `admin: {listen: 0.0.0.0:9644}` or 127.0.0.1:9644 in the configuration; another port is named in KAFKA_MESH_HEALTH.
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(os.environ['KAFKA_MESH_HEALTH'], timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["kafka-mesh"]
CMD ["run", "/etc/kafka-mesh/mesh.yaml"]
