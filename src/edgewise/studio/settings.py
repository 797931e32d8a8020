"""What `edgewise serve` is started with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_PORT = 8765
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104


METRICS = "/metrics"
"""The path that OpenMetrics scrapers read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where the studio listens, and what it may read.

    Attributes:
        host, port: where it listens.
        store: URL of the store; None is the user's own.
        folder: uploads, reports of jobs and the secret of sessions; readable by its owner alone.
        roots: folders whose models can be picked on the page; nothing else of the server's disk can be named.
        certificate, key: files of TLS; None serves plain HTTP.
        origin: how browsers reach a proxy in front, such as ``https://lab.example.org``; None where there is none.
        most_upload: bytes of a model that is dropped.
        metrics: whether programs of this machine may read `METRICS` without the link.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    store: str | None = None
    folder: Path
    roots: tuple[Path, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    origin: str | None = None
    most_upload: int = 2 * 10**9
    metrics: bool = False

    @property
    def own_origin(self) -> str:
        """The origin of its pages: scheme, host and port as browsers write them."""
        if self.origin is not None:
            return self.origin
        return self._origin(f"[{self.host}]" if ":" in self.host else self.host.lower())

    @property
    def origins(self) -> frozenset[str]:
        """The origins that pages may be asked for by: on loopback by each of its names."""
        if self.origin is not None or self.host not in LOOPBACK:
            return frozenset([self.own_origin])
        names = ("127.0.0.1", "localhost") if self.host != "::1" else ("[::1]", "localhost")
        return frozenset(self._origin(name) for name in names)

    def _origin(self, name: str) -> str:
        scheme, usual = ("https", 443) if self.certificate else ("http", 80)
        return f"{scheme}://{name}" if self.port == usual else f"{scheme}://{name}:{self.port}"
