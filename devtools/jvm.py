"""How JVMs for tests are started. Every query here is new and small: compiling it well takes longer than running
it, and most of Spark's usual 200 partitions would be empty."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.defaultJavaOptions": _FLAGS,
    "spark.executor.defaultJavaOptions": _FLAGS,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def defaults(folder: Path, settings: Mapping[str, str] = QUICK) -> dict[str, str]:
    """The environment in which every program's session has these settings, unless the program says otherwise."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{name} {value}\n" for name, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return {"SPARK_CONF_DIR": str(folder)}
