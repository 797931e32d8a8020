"""Any page as one file."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from edgewise.studio.sharing import shared_page


def share(request: Request) -> Response:
    """Return the page at the address in ``of``, to keep or to send."""
    address = request.query_params.get("of", "")
    content = shared_page(request.app, address)
    name = "-".join(part for part in urlsplit(address).path.split("/") if part.replace("-", "").isalnum())[:60]
    headers = {"content-disposition": f'attachment; filename="edgewise-{name.encode("ascii", "ignore").decode()}.html"'}
    return Response(content, media_type="text/html; charset=utf-8", headers=headers)
