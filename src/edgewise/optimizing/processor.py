"""The types in which the processor computes fast, from the instruction sets that it lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.constraints.hierarchy import ROOT
from edgewise.profiling.quantisation import DOT_PRODUCTS
from edgewise.run.environment import fingerprint

#: arithmetic → instructions that make it fast, as ``/proc/cpuinfo`` names them, and what people call them; the
#: strongest first. x86: Intel's and AMD's instruction set references; Arm: the Linux kernel's list of hwcaps.
_INSTRUCTIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "int8": DOT_PRODUCTS,
    "float16": (
        ("amx_fp16", "AMX-FP16"), ("avx512_fp16", "AVX512-FP16"), ("asimdhp", "Arm half precision"),
        ("fphp", "Arm half precision"),
    ),
    "bfloat16": (
        ("amx_bf16", "AMX"), ("avx512_bf16", "AVX512-BF16"), ("bf16", "Arm BF16"), ("svebf16", "SVE BF16"),
    ),
}  # fmt: skip
#: word in `edgewise.optimizing.base.Capabilities.arithmetic` → the type whose instructions it needs
_TYPES = {"int8": "int8", "int8-dynamic": "int8", "f16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Processor:
    """Attributes:
    model: the processor's name; "" where the system does not report it.
    architecture: ``x86_64``, ``aarch64`` …
    flags: instruction sets, by which engines choose kernels; None where the system does not list them.
    """

    model: str
    architecture: str
    flags: frozenset[str] | None

    def instructions(self, dtype: str) -> str | None:
        """Instructions for products of ``int8``, ``float16`` or ``bfloat16``: a name, "" for none, None: not known."""
        if self.flags is None:
            return None
        return next((title for flag, title in _INSTRUCTIONS[dtype] if flag in self.flags), "")

    def remark(self, arithmetic: str, *, helps: bool) -> str:
        """Return a clause on instructions for a pass's arithmetic: present ones if it `helps`, missing ones if not."""
        dtype = _TYPES.get(arithmetic)
        if dtype is None:
            return ""
        found = self.instructions(dtype)
        if found is None or helps != bool(found):
            return ""
        return f"this processor has {found or 'no ' + _missing(dtype, self.architecture)}"


def _missing(dtype: str, architecture: str) -> str:
    if dtype != "int8":
        return f"{dtype} arithmetic"
    return "int8 dot products" + (" (VNNI)" if architecture in _X86 else "")


_X86 = frozenset({"x86_64", "amd64", "AMD64", "i386", "i686"})
_IN_FORCE: ContextVar[Mapping[str, Any] | None] = ContextVar("edgewise_processor", default=None)


@contextmanager
def processor_of(environment: Mapping[str, Any]) -> Iterator[None]:
    """Inside, `read_processor` returns the processor of this fingerprint: of the machine on which models run."""
    before = _IN_FORCE.set(environment)
    try:
        yield
    finally:
        _IN_FORCE.reset(before)


def read_processor(*, root: Path = ROOT) -> Processor:
    """Return the processor on which models run: that of `processor_of`, else this machine's.

    Args:
        root: what ``/proc`` and ``/sys`` are under.
    """
    known = _IN_FORCE.get()
    document = fingerprint(root=root) if known is None or root != ROOT else known
    cpu = document.get("cpu") or {}
    flags = cpu.get("flags")
    return Processor(
        model=str(cpu.get("model") or ""),
        architecture=str(document.get("architecture") or ""),
        flags=None if flags is None else frozenset(flags),
    )


def sums_saturate() -> bool:
    """Whether two products of full 8-bit numbers can overflow the 16 bits in which they are summed.

    They can on x86 without VNNI (``VPMADDUBSW``, Intel's instruction set reference). False where the instructions are
    not known.
    """
    processor = read_processor()
    return processor.architecture in _X86 and processor.instructions("int8") == ""
