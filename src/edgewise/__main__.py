"""``python -m edgewise`` and the ``edgewise`` script."""

from __future__ import annotations


def main() -> int:
    """Run the command line; returns the exit code."""
    import gc

    # Imports and records make many objects and few cycles: looking for garbage took a tenth of a command's start.
    gc.set_threshold(20_000)
    try:
        from edgewise.cli.main import run

        return run()
    except KeyboardInterrupt:  # while the imports above ran, or at the very end
        return 130


if __name__ == "__main__":
    raise SystemExit(main())
