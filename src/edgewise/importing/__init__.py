"""Results of other tools as runs.

An importer describes the files of one tool as data (`edgewise.importing.spec`): how to recognise a file, and where its
numbers and settings are. Everything else is shared:

    file → reading.py (size, encoding, JSON) → extraction.py (spec + text → `Found`) → building.py (`Found` → `Run`)
"""

from edgewise.importing.building import Told
from edgewise.importing.reader import IMPORTERS, import_file, read_any

__all__ = ["IMPORTERS", "Told", "import_file", "read_any"]
