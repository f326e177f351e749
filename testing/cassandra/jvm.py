"""The command lines of Cassandra's programs on Java 17, without the scripts of its tarball."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from testing.cassandra.jars import jars, java, java_version

LOGBACK = Path(__file__).parent / "logback.xml"
LOCATION = "cassandra-rackdc.properties"  # the name of the file, and of the property that says where it is

# What conf/jvm17-server.options of Cassandra 5.0 opens of Java's modules: without them it ends in silence.
_EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.management/com.sun.jmx.remote.security",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
)
_OPENS = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
_MODULES = (
    "-Djdk.attach.allowAttachSelf=true",
    *(part for name in _EXPORTS for part in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(part for name in _OPENS for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
)
# Small and quick to start: no server compiler, no parallel collector.
_SMALL = (
    "-Xss256k",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+PerfDisableSharedMem",
    "-XX:+ExitOnOutOfMemoryError",
)
_SERVER = (
    "-Djava.net.preferIPv4Stack=true",
    "-Dchronicle.analytics.disable=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
    "-Dcassandra-foreground=yes",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=60000",  # with 5,000 a start ended where its seed stood still for eleven seconds
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.shutdown_announce_in_ms=200",
    "-Dcassandra.memtable.row_overhead_size=181",  # what it finds out itself by a measurement of 1.3 s at each start
)


def loaded_classes() -> Path:
    """Where prepare.py keeps the classes of a running node, in the form in which Java has them in memory.

    With them a node starts in 2 s instead of 4.5. Java ignores the file if it does not fit the jars or itself.
    """
    return jars() / f"loaded-{java_version(java())}.jsa"


def daemon(folder: Path, jmx_port: int, heap_mb: int, keep_classes: Path | None = None) -> list[str]:
    """The command of a node that keeps all it has below `folder`, where `cassandra.yaml`, `LOCATION` and `tmp` must be.

    `keep_classes`: where to write, at its end, what `loaded_classes` is. Raises Missing.
    """
    [agent] = jars().glob("jamm-*.jar")
    own = {
        "cassandra.config": (folder / "cassandra.yaml").as_uri(),
        LOCATION: (folder / LOCATION).as_uri(),
        "cassandra.storagedir": folder,
        "cassandra.logdir": folder / "logs",
        "cassandra.triggers_dir": folder / "triggers",
        "cassandra.jmx.local.port": jmx_port,
        "java.io.tmpdir": folder / "tmp",
    }
    memory = (f"-javaagent:{agent}", "-Xms256m", f"-Xmx{heap_mb}m")
    # With an agent Java keeps classes only if told twice; jamm's agent measures objects and changes no class.
    classes = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+AllowArchivingWithJavaAgent")
    file = f"-XX:ArchiveClassesAtExit={keep_classes}" if keep_classes else f"-XX:SharedArchiveFile={loaded_classes()}"
    main = "org.apache.cassandra.service.CassandraDaemon"
    return _command(main, own, *_MODULES, *_SMALL, *_SERVER, *memory, *classes, file)


def nodetool(folder: Path, jmx_port: int, arguments: Sequence[str]) -> list[str]:
    """The command of nodetool against the node of that JMX port. Its history and log stay below `folder`."""
    main = _tool("NodeTool", folder)
    return [*main, "-h", "127.0.0.1", "-p", str(jmx_port), *arguments]


def sstablemetadata(folder: Path, files: Sequence[Path]) -> list[str]:
    """The command that shows what these data files of the node in `folder` say of themselves."""
    return [*_tool("SSTableMetadataViewer", folder), *map(str, files)]


def _tool(name: str, folder: Path) -> list[str]:
    own = {
        "cassandra.config": (folder / "cassandra.yaml").as_uri(),
        LOCATION: (folder / LOCATION).as_uri(),
        "cassandra.logdir": folder / "nodetool",
        "cassandra.storagedir": folder,
        "user.home": folder / "nodetool",
    }
    flags = (*_MODULES, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    return _command(f"org.apache.cassandra.tools.{name}", own, *flags)


def _command(main: str, own: Mapping[str, object], *flags: str) -> list[str]:
    properties = {**own, "logback.configurationFile": LOGBACK.as_uri()}
    defined = [f"-D{name}={value}" for name, value in properties.items()]
    return [str(java()), *flags, *defined, "-cp", f"{jars()}/*", main]
