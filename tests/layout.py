"""The rules of the source tree as plain functions: each takes the root folder and returns broken rules as sentences."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

PARTS = ("clickcurve", "ingest", "storage", "query", "retention", "dashboard", "server")
CODE = (*PARTS, "testing", "tests", "bench", "examples")
Nodes: TypeAlias = tuple[ast.AST, ...]
_OF_INTEREST = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.Attribute, ast.arguments)

LONG_FILE_LINES = 400  # `make check` prints longer ones: is there a joint?
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70  # exclusive
MAX_FOLDER_FILES = 16
# What every store must do: short, and in words that hold whatever features there are.
CONTRACT, MAX_CONTRACT_LINES = "storage/contract.py", 400
_FEATURES = re.compile(
    r"alert|audit|\bbots?\b|breakdown|correct|disavow|group|prefixes|quarantin|shares\b|tokens\b|visitor",
    re.I,
)

# Where stored keys are made and taken apart; all others ask `kind_of`.
KINDS = ("clickcurve/keys.py", "clickcurve/row_kinds/")
_ASKS_A_KEY = re.compile(
    r"\bis_(?:breakdown|moved)\b|startswith\(\(?(?:breakdown_of|moved_key|QUARANTINE)\b|[\"']\\0(?:by|moved|set-aside):"
)

# The floors of the server, the lowest first. What is on a floor may import the floors below it, and itself.
SERVER_FLOORS: tuple[tuple[str, ...], ...] = (
    ("server.clock", "server.version", "server.logs", "server.metrics", "server.data_folder"),
    ("server.settings", "server.job"),
    ("server.tokens",),
    ("server.timeline",),
    ("server.attributes", "server.limiter", "server.alerts", "server.events", "server.workers"),
    ("server.http", "server.demo"),
    ("server.compat", "server.corrections", "server.mcp"),
    ("server.process",),
    ("server.app",),
    ("server.cli",),
)
_BELOW_SERVER = ("clickcurve", "ingest", "storage", "query", "retention", "dashboard")


def _floors(floors: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields each room of the server with what it may import."""
    below: tuple[str, ...] = _BELOW_SERVER
    for floor in floors:
        yield from ((room, below) for room in floor)
        below = (*below, *floor)


# What each part may import of ours beside itself; the longest name that fits a file decides. The library imports
# nothing of the program, and its rooms only what lies below them. `server` wires everything; nobody imports it.
_PROGRAM = ("clickcurve", "storage.contract", "storage.journals", "storage.rankings")
MAY_IMPORT: Mapping[str, tuple[str, ...]] = {
    "clickcurve.buckets": (),
    "clickcurve": ("clickcurve.buckets",),
    "clickcurve.limiter": ("clickcurve",),
    "clickcurve.client": ("clickcurve",),
    **dict.fromkeys(("ingest", "storage", "query", "retention", "dashboard"), _PROGRAM),
    "server": (),
    **dict(_floors(SERVER_FLOORS)),
    # What measures or tests the program may import all of it; what the two share imports neither.
    "testing": PARTS,
    "bench": (*PARTS, "testing"),
}

# Third-party packages that belong in few places: patterns of the paths where they may be imported.
ONLY_IN: Mapping[str, tuple[str, ...]] = {
    "fastapi": (r".+/(\w+_)?routes\.py", r"server/.+", r"clickcurve/limiter/http/dependency\.py"),
    "starlette": (r".+/(\w+_)?routes\.py", r"server/.+", r"clickcurve/limiter/http/dependency\.py"),
    "uvicorn": (r"server/.+",),
    "apscheduler": (r"server/process/schedule\.py",),
    "jinja2": (r"dashboard/page/templates\.py",),
    "markdown_it": (r"dashboard/page/manual/manual\.py", r"tests/testing/test_site\.py"),
    "PIL": (r"dashboard/pictures/png\.py",),
    "cassandra": (r"storage/cassandra/(session|nodes)\.py",),
    "google": (r"server/compat/otlp_protobuf\.py",),
    "opentelemetry": (r"server/compat/otlp_protobuf\.py",),
    "re2": (r"server/compat/expressions\.py", r"ingest/agents/bots\.py"),
    "redis": (r"clickcurve/limiter/backends/(connections/)?redis(_address|_socket|_cluster)?\.py",),
}
CLOCK = "server/clock.py"
# Where users of the library meet it: there a clock may be the default of a parameter, and nothing else.
DEFAULT_CLOCKS = (
    "clickcurve/limiter/limiter.py",
    "clickcurve/limiter/async_limiter.py",
    "clickcurve/limiter/backends/guard.py",
    "clickcurve/client/client.py",
)
# A distribution whose import name differs.
IMPORT_NAMES: Mapping[str, str] = {
    "cassandra-driver": "cassandra",
    "crawler-user-agents": "crawleruseragents",
    "google-re2": "re2",
    "markdown-it-py": "markdown_it",
    "opentelemetry-proto": "opentelemetry",
    "pillow": "PIL",
    "prometheus-client": "prometheus_client",
    "protobuf": "google",
    "ua-parser": "ua_parser",
}

_LEFTOVERS = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "WI" + "P")) + r")\b")
_TEXT = {".py", ".md", ".toml", ".lua", ".sh", ".txt", ".conf", ".lock", ".svg", ".html", ".css", ".js", ""}
_DOCUMENT = re.compile(r"[\w./-]*\w\.md\b")
_HOME = re.compile(r"(?<![\w.}>-])/(?:work|root|home)/")
_ADDRESS = re.compile(r"\b[a-z]+://([A-Za-z0-9][\w.-]*)")
_OWN_HOSTS = re.compile(
    r"127\.0\.0\.1|localhost|([\w-]+\.)*example(\.\w+)?|www\.w3\.org|iana\.org|DIR|h1|host|clickcurve"
)


def files(root: Path, *tops: str) -> Iterator[Path]:
    """Every text file below these folders; of the whole tree without build products when none is named."""
    entries = [root / top for top in tops] or [entry for entry in root.iterdir() if not _made(entry.name)]
    for entry in sorted(entries):
        for path in [entry] if entry.is_file() else sorted(entry.rglob("*")):
            if path.is_file() and path.suffix in _TEXT and not any(map(_made, path.relative_to(root).parts)):
                yield path


def _made(name: str) -> bool:
    """Whether a file or folder of this name is made by a tool, not written."""
    hidden = name.startswith(".") and name != ".ci"
    return hidden or name in ("__pycache__", "build", "dist", "clickcurve-data") or name.endswith(".egg-info")


def _name(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix()


def _sources(root: Path, *tops: str) -> Iterator[tuple[str, Nodes]]:
    for path in files(root, *tops):
        if path.suffix == ".py":
            yield _name(root, path), _nodes(path)


@cache
def parsed(path: Path) -> ast.Module:
    """Parses a file once for all rules, which takes longer than they do."""
    return ast.parse(path.read_text())


@cache
def _nodes(path: Path) -> Nodes:
    """The imports, functions, their arguments and attributes of a file."""
    return tuple(node for node in ast.walk(parsed(path)) if isinstance(node, _OF_INTEREST))


def _imports(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of each import; `from a import b` gives `a.b`, which may be a module or a name in one."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _within(name: str, allowed: str) -> bool:
    return name == allowed or name.startswith(allowed + ".")


def import_directions(root: Path) -> list[str]:
    """Parts import only what MAY_IMPORT lets them."""
    broken = []
    for file, nodes in _sources(root, *PARTS, "testing", "bench"):
        part = _part_of(file)
        if part == "server" and file != "server/__init__.py":
            broken.append(f"{file}: stands on no floor of the server")
        for line, name in _imports(nodes):
            ours = name.partition(".")[0] in CODE
            if ours and not any(_within(name, allowed) for allowed in (part, *MAY_IMPORT[part])):
                broken.append(f"{file}:{line}: {part} must not import {name}")
    return broken


def _part_of(file: str) -> str:
    """The part whose rule holds for a file: `clickcurve.limiter` for `clickcurve/limiter/key.py`, else `clickcurve`."""
    module = file.removesuffix(".py").replace("/", ".")
    return max((part for part in MAY_IMPORT if _within(module, part)), key=len)


def third_party(root: Path) -> list[str]:
    """Third-party packages are declared, by the program or an extra of it, and imported only where they belong."""
    declared = _runtime_packages(root)
    broken = []
    for file, nodes in _sources(root, *PARTS):
        for line, name in _imports(nodes):
            package = name.partition(".")[0]
            if package in PARTS or package in sys.stdlib_module_names:
                continue
            if package not in declared:
                broken.append(f"{file}:{line}: {package} is no declared dependency of the program")
            if not any(re.fullmatch(where, file) for where in ONLY_IN.get(package, (".+",))):
                broken.append(f"{file}:{line}: {package} may not be imported here")
    return broken


def _requirement_name(line: str) -> str:
    return re.split(r"[^\w.-]", line, maxsplit=1)[0].lower().replace("_", "-")


def _runtime_packages(root: Path) -> set[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {})
    optional = [line for extra, lines in extras.items() if extra not in ("all", "bench", "test") for line in lines]
    names = [_requirement_name(line) for line in (*project["dependencies"], *optional)]
    # starlette comes with fastapi, whose answers and requests are starlette's.
    return {IMPORT_NAMES.get(name, name) for name in names} | {"starlette"}


def clock_use(root: Path) -> list[str]:
    """Only server/clock.py reads a clock; the library names one as a default of its front only; tests never sleep."""
    broken = []
    for file, nodes in _sources(root, *PARTS):
        reads = () if file == CLOCK else _but_defaults(nodes) if file in DEFAULT_CLOCKS else _clock_reads(nodes)
        broken += [f"{file}:{line}: {name}: a clock is read in {CLOCK} only" for line, name in reads]
    for file, nodes in _sources(root, "tests", "testing"):
        broken += [f"{file}:{line}: sleeps; wait for an event" for line in _sleeps(nodes)]
    return broken


def _clock_reads(nodes: Nodes) -> Iterator[tuple[int, str]]:
    yield from ((line, name) for line, name in _imports(nodes) if _within(name, "time"))
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in ("now", "utcnow", "today"):
            owner = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            if owner in ("datetime", "date"):
                yield node.lineno, f"{owner}.{node.attr}"


def _but_defaults(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yields the uses of a clock that are no defaults of parameters; `import time` itself is none."""
    defaults = {
        id(default)
        for node in nodes
        if isinstance(node, ast.arguments)
        for default in (*node.defaults, *node.kw_defaults)
    }
    yield from ((line, name) for line, name in _clock_reads(nodes) if name != "time")
    for node in nodes:
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "time" and id(node) not in defaults:
            yield node.lineno, f"time.{node.attr}"


def _sleeps(nodes: Nodes) -> Iterator[int]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == "sleep" and getattr(node.value, "id", "") == "time":
            yield node.lineno
    yield from (line for line, name in _imports(nodes) if name == "time.sleep")


def sizes(root: Path) -> list[str]:
    """Files and functions stay short."""
    broken = []
    for path in files(root, *CODE):
        lines = len(path.read_text().splitlines())
        if path.suffix == ".py" and lines > MAX_FILE_LINES:
            broken.append(f"{_name(root, path)}: {lines} lines, {MAX_FILE_LINES} at most")
    for file, nodes in _sources(root, *CODE):
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines >= MAX_FUNCTION_LINES:
                    broken.append(
                        f"{file}:{node.lineno}: {node.name} has {lines} lines, {MAX_FUNCTION_LINES - 1} at most"
                    )
    return broken


def contract(root: Path) -> list[str]:
    """The contract of a store is short and names no feature."""
    path = root / CONTRACT
    lines = path.read_text().splitlines() if path.is_file() else []
    broken = (
        [f"{CONTRACT}: {len(lines)} lines, {MAX_CONTRACT_LINES} at most"] if len(lines) > MAX_CONTRACT_LINES else []
    )
    named = ((number, _FEATURES.search(line)) for number, line in enumerate(lines, 1))
    return broken + [f"{CONTRACT}:{number}: names a feature: {found.group()}" for number, found in named if found]


def kinds(root: Path) -> list[str]:
    """What kind of row a stored key names is told by the kinds alone."""
    return [
        f"{_name(root, path)}:{number}: asks a stored key, not the kind of its rows: {found.group()}"
        for path in files(root, *PARTS)
        if path.suffix == ".py" and not _name(root, path).startswith(KINDS)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := _ASKS_A_KEY.search(line))
    ]


def folders(root: Path) -> list[str]:
    """A folder of source holds so few files that one look finds the right one."""
    sources = files(root, *PARTS, "testing", "bench")
    counts = Counter(_name(root, path.parent) for path in sources if path.suffix == ".py")
    return [
        f"{folder}: {count} files, {MAX_FOLDER_FILES} at most"
        for folder, count in counts.items()
        if count > MAX_FOLDER_FILES
    ]


def leftovers(root: Path) -> list[str]:
    """No word that says that something is unfinished."""
    return [
        f"{_name(root, path)}:{number}: leftover {match.group()}"
        for path in files(root)
        if path.name not in ("LICENSE", "requirements.lock")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := _LEFTOVERS.search(line))
    ]


def outside(root: Path) -> list[str]:
    """The project stands alone: every document that is named is in the tree, and no path leads out of it."""
    broken = []
    for path in files(root):
        name = _name(root, path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            where = f"{name}:{number}"
            if ".md" in line and name != "tests/test_layout.py":
                broken += [f"{where}: names {lost}, which is not here" for lost in _lost_documents(root, path, line)]
            if "/" in line and _HOME.search(line):
                broken.append(f"{where}: names a folder of somebody's machine")
    return broken


def _lost_documents(root: Path, path: Path, line: str) -> Iterator[str]:
    for name in _DOCUMENT.findall(line):
        places = (root / name, path.parent / name, root / "docs" / name)
        if not any(place.is_file() and place.resolve().is_relative_to(root.resolve()) for place in places):
            yield name


def addresses(root: Path) -> list[str]:
    """No address of another machine but in tests (agents and logs are full of them) and the licence."""
    broken = []
    for path in files(root):
        name = _name(root, path)
        if not name.startswith(("tests/", "testing/")) and name != "LICENSE":
            for number, line in enumerate(path.read_text().splitlines(), 1):
                hosts = (host for host in _ADDRESS.findall(line) if not _OWN_HOSTS.fullmatch(host))
                broken += [f"{name}:{number}: address of {host}" for host in hosts]
    return broken


def lock(root: Path) -> list[str]:
    """The lock is pins and hashes only, and has every dependency that pyproject.toml names."""
    broken = []
    pinned = set()
    for number, raw in enumerate((root / "requirements.lock").read_text().splitlines(), 1):
        line = raw.strip().removesuffix("\\").strip()
        if re.fullmatch(r"[a-z0-9._-]+(\[[a-z0-9,_-]+\])?==[\w.!+]+( ;.*)?", line):
            pinned.add(_requirement_name(line))
        elif line and not line.startswith("#") and not re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line):
            broken.append(f"requirements.lock:{number}: neither a pin nor a hash: {line}")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(
            name
            for extra, lines in project.get("optional-dependencies", {}).items()
            if extra != "all"
            for name in lines
        ),
    ]
    broken += [f"requirements.lock: no pin of {name}" for name in map(_requirement_name, wanted) if name not in pinned]
    return broken


def packaged(root: Path) -> list[str]:
    """Every folder of a part is a package, so that setup.py finds it."""
    folders = {path.parent for path in files(root, *(part for part in PARTS if (root / part).is_dir()))}
    return [f"{_name(root, folder)} has no __init__.py" for folder in folders if not (folder / "__init__.py").exists()]


RULES = (
    import_directions,
    third_party,
    clock_use,
    sizes,
    contract,
    kinds,
    folders,
    leftovers,
    outside,
    addresses,
    lock,
    packaged,
)


def long_files(root: Path) -> list[str]:
    """Files that are long enough to look for a joint in them: a hint, not a rule."""
    counts = ((_name(root, path), len(path.read_text().splitlines())) for path in files(root, *CODE))
    return [f"{name}: {lines} lines" for name, lines in counts if name.endswith(".py") and lines > LONG_FILE_LINES]


if __name__ == "__main__":
    print("\n".join(long_files(Path())))
