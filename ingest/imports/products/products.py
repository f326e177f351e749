"""Which module reads which product's exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clickcurve.hosts import HOSTS_IGNORED, Hosts
from ingest.imports.products.bitly import read_bitly
from ingest.imports.products.goatcounter import read_goatcounter
from ingest.imports.products.kutt import read_kutt, read_kutt_visits
from ingest.imports.products.shlink import read_shlink
from ingest.imports.products.tables import ExportFile, read_export
from ingest.imports.products.takeover import Judge, Takeover
from ingest.imports.products.yourls import read_yourls
from ingest.imports.source import SourceUnreadable

PRODUCTS: Mapping[str, Callable[[ExportFile, Takeover, Judge], bool]] = {
    "shlink": read_shlink,
    "yourls": read_yourls,
    "kutt": read_kutt,
    "bitly": read_bitly,
    "goatcounter": read_goatcounter,
}


def read_product(product: str, paths: Sequence[Path], is_bot: Judge, hosts: Hosts = HOSTS_IGNORED) -> Takeover:
    """Reads all files of an export; raises SourceUnreadable for a file that is not the product's."""
    takeover = Takeover(hosts)
    files = [read_export(path) for path in paths]
    for file in files:
        if not PRODUCTS[product](file, takeover, is_bot):
            raise SourceUnreadable(
                f"{file.name} is not a known export of {product}; docs/import.md lists the known ones"
            )
    if product == "kutt":
        read_kutt_visits(files, takeover)
    return takeover
