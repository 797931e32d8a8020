import subprocess
import sys

from patience import LIMIT_S


def test_what_runs_on_a_device_needs_the_standard_library_only():
    script = (
        "import sys; before = set(sys.modules);"
        "import edgewise.run.counters, edgewise.run.meters, importlib, pkgutil;"
        "names = [each.name for each in pkgutil.iter_modules(edgewise.run.meters.__path__)];"
        "[importlib.import_module(f'edgewise.run.meters.{name}') for name in names];"
        "edgewise.run.counters.read_counters();"
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before if sys.modules[name]};"
        "foreign = loaded - set(sys.stdlib_module_names) - {'edgewise'};"
        "sys.exit(f'foreign: {foreign}' if foreign else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
