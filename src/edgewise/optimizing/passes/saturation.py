"""Whether sums of 8-bit products overflow on this processor, which decides how many bits weights should have."""

from __future__ import annotations

from edgewise.optimizing.processor import read_processor

_X86 = frozenset({"x86_64", "amd64", "AMD64", "i386", "i686"})


def sums_saturate() -> bool:
    """Whether two products of full 8-bit numbers can overflow the 16 bits in which they are summed.

    So they do on x86 without VNNI (``VPMADDUBSW``, Intel's instruction set reference). False also where the processor
    does not tell what it has.
    """
    processor = read_processor()
    return processor.architecture in _X86 and processor.instructions("int8") == ""
