"""Recordings to arrays, with libsndfile."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from edgewise.errors import Unavailable
from edgewise.evaluating.dataset import CorruptSample
from edgewise.text import first_line

if TYPE_CHECKING:
    from edgewise.workload.arrays import Array

MAX_VALUES = 2**27
"""Of one recording: frames times channels; 512 MiB, 2.3 hours of one channel at 16 kHz."""
_BLOCK = 2**16
_UNKNOWN_SIZE = 0x7FFFF000


def require_soundfile() -> None:
    """Raise `Unavailable` where soundfile, or the library below it, is not installed."""
    try:
        import soundfile  # noqa: F401
    except (ImportError, OSError) as error:
        raise Unavailable("recordings need soundfile", advice="pip install 'edgewise[data]'") from error


def decode_sound(source: Path | bytes, name: str) -> tuple[Array, int]:
    """Return the waveform, float32 (frames, channels), integers scaled to [-1, 1), and frames per second.

    Raises:
        CorruptSample: no recording, damaged, empty, or of more than `MAX_VALUES`.
        Unavailable: soundfile is not installed.
    """
    require_soundfile()
    import numpy as np
    import soundfile

    if isinstance(source, Path) and not source.is_file():
        raise CorruptSample(name, "no such file")
    try:
        with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
            _check_whole(stream, name)
        with soundfile.SoundFile(io.BytesIO(source) if isinstance(source, bytes) else str(source)) as file:
            rate, channels = int(file.samplerate), int(file.channels)
            blocks = []
            left = MAX_VALUES // max(channels, 1)
            # In blocks: a header may promise more frames than there are.
            while len(block := file.read(_BLOCK, dtype="float32", always_2d=True)):
                left -= len(block)
                if left < 0:
                    raise CorruptSample(name, f"longer than the {MAX_VALUES} values of the limit")
                blocks.append(block)
    except CorruptSample:
        raise
    except Exception as error:  # libsndfile's errors, and those of reading a file
        raise CorruptSample(name, f"not a recording that can be read: {first_line(error)}") from error
    if not blocks:
        raise CorruptSample(name, "the recording is empty")
    return np.concatenate(blocks), rate


def _check_whole(stream: BinaryIO, name: str) -> None:
    """Raise `CorruptSample` for a WAV file that was cut off, which libsndfile reads as a shorter one."""
    if stream.read(4) != b"RIFF":
        return
    end = stream.seek(0, os.SEEK_END)
    at = 12
    while at + 8 <= end:
        stream.seek(at)
        kind, size = struct.unpack("<4sI", stream.read(8))
        at += 8
        if kind == b"data":
            # A writer into a pipe can't know the size, and declares the largest.
            if end - at < size < _UNKNOWN_SIZE:
                raise CorruptSample(name, f"truncated: {end - at} of {size} bytes of sound are there")
            return
        at += size + size % 2
