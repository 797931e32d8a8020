# Tasks of the repository. Uses the environment in ./v where there is one, else the tools on PATH.

bin := if path_exists("v/bin/python") == "true" { "v/bin/" } else { "" }

# List the recipes
default:
    @{{ just_executable() }} --list

# Everything that must pass before a change is done
check: lint types docs test

# Run the tests; arguments go to pytest: just test -m 'not engine' tests/unit
test *arguments:
    {{ bin }}python -m pytest -q {{ arguments }}

# Style, formatting, import layers, dependencies, tests that a busy machine can fail
lint:
    {{ bin }}ruff check
    {{ bin }}ruff format --check
    {{ bin }}python tools/check_test_clocks.py
    {{ bin }}lint-imports
    {{ bin }}deptry src

# Static types
types:
    {{ bin }}mypy

# Write the generated pages and build the documentation into docs/_build; warnings are errors
docs: && html
    {{ bin }}python docs/generate.py

# Build the documentation from the generated pages as they are
html:
    {{ bin }}python -m sphinx -q -W --keep-going -b html docs docs/_build

# Fail where a generated page is out of date
docs-check:
    {{ bin }}python docs/generate.py --check

# Format the code and sort its imports
format:
    {{ bin }}ruff check --fix --select I
    {{ bin }}ruff format

# The benchmarks of edgewise itself; minutes, on a quiet machine
bench:
    {{ bin }}python benchmarks/overhead.py
    {{ bin }}python benchmarks/fidelity.py
    {{ bin }}python benchmarks/end_to_end.py
    {{ bin }}python benchmarks/vela.py
    {{ bin }}python benchmarks/microcontrollers.py

# Renew constraints/, the versions that .ci/run and the README's test line install; then run .ci/run
constraints:
    {{ bin }}python tools/renew_constraints.py

# Renew the snapshot of all messages (tests/golden/messages.jsonl); then read the differences
messages:
    {{ bin }}python tools/renew_messages.py

# Run the README's tests ten times beside two busy processes and say which ever failed; arguments: see the script
busy *arguments:
    {{ bin }}python tools/run_tests_busy.py {{ arguments }}

# Show what the next release's notes would say
changes:
    {{ bin }}towncrier build --draft

# Build the sdist, and from it the wheel, into `folder`, twice: they must have the same bytes
dist folder="dist":
    #!/usr/bin/env bash
    set -euo pipefail
    again=$(mktemp -d)
    trap 'rm -rf "$again"' EXIT
    export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)
    {{ bin }}python -m build --no-isolation --outdir "{{ folder }}"
    {{ bin }}python -m build --no-isolation --outdir "$again" >/dev/null
    (cd "{{ folder }}" && sha256sum edgewise-*) | (cd "$again" && sha256sum --strict -c)

# Write what is installed beside the Python `python` as an SBOM (CycloneDX, JSON)
sbom python file:
    {{ bin }}cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o "{{ file }}" "{{ python }}"

# Copy the third-party scripts of the studio, in the versions of vendor/package-lock.json, into the package; needs npm
vendor:
    npm ci --prefix vendor --ignore-scripts
    {{ bin }}python tools/vendor_scripts.py
