"""``python -m edgewise`` and the ``edgewise`` script."""

from __future__ import annotations


def main() -> int:
    """Run the command line; returns the exit code."""
    from edgewise.cli.main import run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
