"""The forms of all verbs that have one."""

from __future__ import annotations

from edgewise.studio.forms import form_of
from edgewise.verbs.verb import VERBS

FORMS = {name: form for name in VERBS.names() if (form := form_of(name)) is not None}
