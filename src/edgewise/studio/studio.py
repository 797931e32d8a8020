"""What all views share."""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgewise.store import Store, open_store
from edgewise.studio.jobs import Dispatcher
from edgewise.studio.models import Models
from edgewise.studio.reading import Readings
from edgewise.studio.renderer import Renderer

if TYPE_CHECKING:
    from starlette.requests import Request

    from edgewise.studio.sessions import Sessions
    from edgewise.studio.settings import Settings


@dataclass(slots=True, kw_only=True)
class Studio:
    """The server's parts.

    Attributes:
        store: the store of runs and jobs.
        jobs: carries jobs out.
        renderer: draws pages and files of stored runs.
        models: models and data that pages can name.
        readings: what models are.
    """

    settings: Settings
    sessions: Sessions
    store: Store = field(init=False)
    jobs: Dispatcher = field(init=False)
    renderer: Renderer = field(init=False)
    models: Models = field(init=False)
    readings: Readings = field(init=False)

    def __post_init__(self) -> None:
        self.store = open_store(self.settings.store)
        self.jobs = Dispatcher(self.store, folder=self.settings.folder, store_url=self.settings.store)
        self.renderer = Renderer(self.store, self.settings.store)
        self.models = Models(folder=self.settings.folder, roots=self.settings.roots)
        self.readings = Readings(self.settings.folder / "read")

    async def stop(self) -> None:
        """End what goes on."""
        await to_thread(self.jobs.stop)
        self.readings.close()
        self.renderer.close()
        self.store.close()


def studio_of(request: Request) -> Studio:
    """Return the studio that serves `request`."""
    found: Studio = request.app.state.studio
    return found
