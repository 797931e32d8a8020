"""``python -m edgewise`` and the ``edgewise`` script."""

from __future__ import annotations


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        from edgewise.cli.main import run

        return run()
    except KeyboardInterrupt:  # while the imports above ran, or at the very end
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
