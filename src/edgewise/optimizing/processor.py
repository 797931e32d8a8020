"""What the processor can compute besides 32-bit floats, from the instructions that it lists."""

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
    model: the processor's name; "" where the system does not tell.
    architecture: ``x86_64``, ``aarch64`` …
    flags: instructions that kernels choose their code by; None where the system does not list them.
    """

    model: str
    architecture: str
    flags: frozenset[str] | None

    def instructions(self, dtype: str) -> str | None:
        """What it has for products of ``int8``, ``float16`` or ``bfloat16``: a name, "" for none, None: not known."""
        if self.flags is None:
            return None
        return next((title for flag, title in _INSTRUCTIONS[dtype] if flag in self.flags), "")

    def remark(self, arithmetic: str, *, helps: bool) -> str:
        """One clause on a pass's arithmetic: what speaks for it here where it `helps`, else what stands in its way.

        Empty where there is nothing to say.
        """
        dtype = next((found for word, found in _TYPES.items() if arithmetic == word), None)
        if dtype is None:
            return ""
        found = self.instructions(dtype)
        if found is None or helps != bool(found):
            return ""
        return f"this processor has {found or 'no ' + _missing(dtype, self.architecture)}"


def _missing(dtype: str, architecture: str) -> str:
    if dtype != "int8":
        return f"{dtype} arithmetic"
    return "int8 dot products" + (" (VNNI)" if architecture in ("x86_64", "AMD64", "i686") else "")


_IN_FORCE: ContextVar[Mapping[str, Any] | None] = ContextVar("edgewise_processor", default=None)


@contextmanager
def processor_of(environment: Mapping[str, Any]) -> Iterator[None]:
    """Inside, `read_processor` tells of the machine with this fingerprint, on which models run."""
    before = _IN_FORCE.set(environment)
    try:
        yield
    finally:
        _IN_FORCE.reset(before)


def read_processor(*, root: Path = ROOT) -> Processor:
    """The processor that models run on: this machine's, if no other is in force.

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
