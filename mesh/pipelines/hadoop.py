"""Files where Spark has its own, on any file system, through Hadoop with Spark's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Folder:
    """A folder and its content, whether it exists yet or not."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        session: Any = spark
        self._jvm = session._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path(path)
        self._files = self._path.getFileSystem(session._jsc.hadoopConfiguration())

    def names(self) -> list[str]:
        """Returns the names of files and folders in it; none if it does not exist."""
        if not self._files.exists(self._path):
            return []
        return sorted(each.getPath().getName() for each in self._files.listStatus(self._path))

    def has(self, name: str) -> bool:
        return bool(self._files.exists(self._child(name)))

    def read(self, name: str) -> str:
        """Returns the text of a file in it."""
        stream = self._files.open(self._child(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, name: str) -> None:
        """Writes an empty file in it."""
        self._files.create(self._child(name), True).close()

    def remove(self, name: str) -> None:
        """Removes a file from it, if it is there."""
        self._files.delete(self._child(name), False)

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)
