"""Spans and metrics by OTLP. It needs the packages of the extra `otlp`, and is imported only if OTLP is configured."""
