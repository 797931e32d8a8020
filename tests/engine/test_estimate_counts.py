"""Instructions by class and reads of flash on emulated cores, and what happens where the emulator fails."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from importlib import resources
from pathlib import Path

import psutil
import pytest
from test_estimate_cortex_m import LONG, dense, run_instead

import edgewise
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import RunFailed
from edgewise.estimating.mcu import cortex_m, counter, firmware, toolchain
from edgewise.estimating.mcu.cores import CORES
from edgewise.estimating.mcu.costs import CLASSES
from messages import says, wording
from patience import wait_until
from scripted_clock import scripted_clock  # noqa: F401 - a fixture

pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
pytest.importorskip("bakenn", reason="bakenn, which brings CMSIS-NN, is not installed")
QEMU = shutil.which("qemu-system-arm")
if not shutil.which("arm-none-eabi-gcc") or not QEMU:
    pytest.skip("gcc-arm-none-eabi or qemu-system-arm is not installed", allow_module_level=True)
pytestmark = [pytest.mark.engine, pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler is installed")]


@pytest.fixture
def emulated(monkeypatch):
    """The results of `emulate`, which the following estimates append."""
    found = []

    def emulate(*arguments, **options):
        found.append(true(*arguments, **options))
        return found[-1]

    true = cortex_m.emulate
    monkeypatch.setattr(cortex_m, "emulate", emulate)
    return found


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder, and a folder for temporary files; compiled kernels are taken from the user's cache."""
    from platformdirs import user_cache_path

    kept = user_cache_path("edgewise") / "mcu"
    folder = tmp_path / "cache" / "edgewise" / "mcu"
    folder.mkdir(parents=True)
    for file in kept.glob("cortex-m4-*.a"):
        shutil.copy(file, folder)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def instead_of_qemu(tmp_path, monkeypatch, script):
    """Put a shell script before QEMU; ``$QEMU`` is QEMU."""
    (tmp_path / "qemu-system-arm").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "qemu-system-arm").chmod(0o755)
    monkeypatch.setenv("QEMU", QEMU)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


ASSEMBLY = """
ldr r0, =ew_constants
ldr r1, [r0]
ldrb r1, [r0, #5]
ldm r0, {r1, r2}
ldrd r2, r3, [r0]
push {r1, r2}
pop {r1, r2}
str r1, [sp, #-4]
mul r1, r2, r1
smlabb r1, r1, r2, r3
sdiv r1, r2, r3
vmov s0, r1
vadd.f32 s0, s0, s0
vldr s1, [r0]
cmp r1, r1
it ne
addne r1, #1
b 1f
1: nop
"""
COUNTS = {"load": 7, "store": 2, "multiply": 2, "divide": 1, "branch": 1, "float": 2, "vector": 0, "other": 4}
READ = 4 + 4 + 1 + 8 + 8 + 4  # the literal, and five loads from the constants; POP reads the stack


def test_every_instruction_is_counted_in_its_class(tmp_path, monkeypatch, emulated):
    lines = r"\n".join(ASSEMBLY.strip().splitlines())
    clobbered = '"r0", "r1", "r2", "r3", "s0", "s1", "cc", "memory"'
    run_instead(monkeypatch, f'__asm__ volatile("{lines}" : : : {clobbered});')
    with pytest.raises(RunFailed, match=says("bytes-differ-tflite-micro-input")):
        edgewise.estimate(dense(tmp_path), "cortex-m4")
    for (costs,) in emulated[0].costs:
        assert costs.classes == COUNTS and costs.flash_bytes == READ and costs.instructions == sum(COUNTS.values())


@pytest.mark.parametrize("core", ["cortex-m4", *(pytest.param(f"cortex-m{n}", marks=LONG) for n in ("0plus", "55"))])
def test_the_plugin_and_the_clock_count_the_same(shared_models, monkeypatch, emulated, core):
    path = shared_models / "ad01_int8.tflite"
    by_plugin = edgewise.estimate(path, core)
    monkeypatch.setattr(counter, "COMPILERS", ("no-such-compiler",))
    by_clock = edgewise.estimate(path, core)
    one, other = emulated
    assert not one.uncounted and wording("no-c-compiler-machine-installed") in other.uncounted
    for ours, theirs in zip(one.costs, other.costs, strict=True):
        for exact, ticks in zip(ours, theirs, strict=True):
            assert 0 <= ticks.instructions - exact.instructions <= 5 + 5 * exact.instructions / 2e6
            assert sum(exact.classes.values()) == exact.instructions and ticks.classes is None

    whole = by_plugin.to_document()
    assert sum(whole["instruction_classes"].values()) == by_plugin.measurement("instructions").value
    assert tuple(whole["instruction_classes"]) == CLASSES
    assert (whole["instruction_classes"]["vector"] > 0) is (core == "cortex-m55")
    if core == "cortex-m4":
        assert whole["layers"][0]["instruction_classes"]["multiply"] > 128 * 640 / 2  # two products per SMLAD
    read = by_plugin.measurement("flash_read").value
    assert read == sum(layer.flash_read_bytes or 0 for layer in by_plugin.layers)
    assert read > sum(layer.weight_bytes or 0 for layer in by_plugin.layers)  # each weight is read at least once

    assert by_clock.to_document()["instruction_classes"] is None
    assert by_clock.measurement("flash_read").value is None
    assert any(
        "Instructions are not counted by class: no C compiler for this machine is installed" in sentence
        for sentence in by_clock.conditions
    )


def test_the_terminal_shows_the_classes_of_the_model_and_the_file_those_of_the_layers(tmp_path, capsys):
    out = tmp_path / "layers.csv"
    assert edgewise_command(["estimate", str(dense(tmp_path)), "-d", "cortex-m4", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"Instructions by class\n +Load +Store +Multiply +Divide +Branch +Float +Vector +Other\n", printed)
    header, row = (line.split(",") for line in out.read_text().splitlines()[:2])
    numbers = dict(zip(header, row, strict=False))
    assert sum(int(numbers[f"Instructions: {name}"]) for name in CLASSES) == int(numbers["Instructions"])
    assert int(numbers["Read from flash (B)"]) > 128 + 32


def test_a_qemu_that_does_not_load_the_plugin_counts_with_its_clock(tmp_path, monkeypatch):
    instead_of_qemu(tmp_path, monkeypatch, """
case "$*" in *-plugin*) echo "qemu-system-arm: Could not load plugin x.so: plugin requires API version 3" >&2; exit 1;;
--version) echo "an emulator without plug-ins"; exit;; esac
exec "$QEMU" "$@"
""")  # fmt: skip
    found = edgewise.estimate(dense(tmp_path), "cortex-m4")
    assert found.to_document()["instruction_classes"] is None and found.measurement("instructions").value > 0
    assert any(
        "by class: QEMU does not load the plug-in that counts them (plugin requires API version 3)." in sentence
        for sentence in found.conditions
    )


def expected_class(mnemonic, operands):
    """The class by the mnemonic of objdump."""
    base = mnemonic.partition(".")[0]
    if base.startswith("v"):
        lane = re.search(r"\.[us]?(8|16)$", mnemonic) and "[" in operands
        if re.search(r"\bq\d", operands) or re.match(r"v(pst|pt|ctp|pnot)", base) or (base == "vmov" and lane):
            return "vector"
        kind = re.match(r"v(ld|pop|st|push)", base)
        return {"ld": "load", "pop": "load", "st": "store", "push": "store"}[kind[1]] if kind else "float"
    condition = "(eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?"
    patterns = {
        "load": r"(ldr|ldm|lda|pop|fldm).*",
        "store": r"(str|stm|stl|push|fstm).*",
        "divide": r"[su]div.*",
        "multiply": r"(mul|mla|mls|smul|smla|umul|umla|smmul|smmla|smmls|smuad|smusd|smlsd|umaal|usad).*",
        "branch": rf"b(l|x|lx)?(ns)?{condition}|cbn?z|tb[bh]|le(tp)?|[wd]ls(tp)?",
    }
    to_pc = base in ("mov", "add") and operands.partition(",")[0].strip() == "pc"
    matching = (name for name, pattern in patterns.items() if re.fullmatch(pattern, base))
    return "branch" if to_pc else next(matching, "other")


@pytest.mark.parametrize("core", [name if name == "cortex-m4" else pytest.param(name, marks=LONG) for name in CORES])
def test_the_class_of_each_instruction_is_that_of_its_disassembly(tmp_path, core):
    built = toolchain.build_library(CORES[core], tmp_path)
    flags = CORES[core].compiler_flags
    command = [toolchain.GCC, *flags, "-mthumb", "-print-file-name=libm.a"]
    mathematics = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    architecture = ["-marmv8.1-m.main"] if "cortex-m55" in flags[0] else []
    rows = []
    for file in (str(built), mathematics):
        told = subprocess.run(
            ["arm-none-eabi-objdump", "-d", *architecture, file], capture_output=True, text=True, check=True
        ).stdout
        for _, code, mnemonic, *operands in (line.split("\t") for line in told.splitlines() if line.count("\t") > 1):
            words = code.split()
            if not mnemonic.startswith(".") and all(len(word) == 4 for word in words):
                rows.append((words, mnemonic.strip(), "\t".join(operands)))
    (tmp_path / "classes.c").write_text(
        '#include <stdio.h>\n#include "thumb.h"\nint main(void) { uint8_t bytes[4]; while (fread(bytes, 1, 4, stdin) '
        "== 4) putchar('0' + ew_class_of(bytes)); return 0; }\n"
    )
    with resources.as_file(resources.files("edgewise.estimating.mcu")) as own:
        subprocess.run(["cc", f"-I{own}", "-o", tmp_path / "classes", tmp_path / "classes.c"], check=True)
    data = b"".join(b"".join(int(word, 16).to_bytes(2, "little") for word in words).ljust(4) for words, _, _ in rows)
    told = subprocess.run([tmp_path / "classes"], input=data, capture_output=True, check=True).stdout.decode()
    wrong = Counter(
        (mnemonic, " ".join(words), CLASSES[int(found)])
        for (words, mnemonic, operands), found in zip(rows, told, strict=True)
        if CLASSES[int(found)] != expected_class(mnemonic, operands)
    )
    assert len(rows) > 20_000 and not wrong


def test_a_repeated_estimate_does_not_start_the_emulator(tmp_path, monkeypatch, own_cache):
    instead_of_qemu(tmp_path, monkeypatch, f'echo "$*" >> {tmp_path}/log; exec "$QEMU" "$@"')
    first, second = (edgewise.estimate(dense(tmp_path), "cortex-m4").to_document() for _ in range(2))
    assert first == second
    assert (tmp_path / "log").read_text().count("-kernel") == 1
    assert list((tmp_path / "temporary").iterdir()) == []
    (report,) = own_cache.glob("*.json")
    report.write_text("{")
    with pytest.raises(RunFailed, match=r"cortex-m4-[\da-f]{32}\.json is damaged") as raised:
        edgewise.estimate(dense(tmp_path), "cortex-m4")
    assert raised.value.advice == wording("delete-file-run-command-again")


@LONG
def test_a_cache_that_can_not_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert edgewise.estimate(dense(tmp_path), "cortex-m4").to_document()["instruction_classes"]["multiply"] > 0


def test_a_folder_for_temporary_files_that_can_not_be_used_is_said(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(RunFailed, match=says("temporary-files-cant-written", strerror="Not a directory")):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


@LONG
def test_two_estimates_at_the_same_time_share_an_empty_cache(tmp_path, own_cache):
    shutil.rmtree(own_cache)
    command = [sys.executable, "-m", "edgewise", "estimate", str(dense(tmp_path)), "-d", "cortex-m4", "--json"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    told = [process.communicate(timeout=600) for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert told[0][0] == told[1][0]
    assert Counter(file.suffix for file in own_cache.iterdir()) == {".a": 1, ".so": 2, ".json": 1, ".tflm": 1}


def test_ctrl_c_while_the_kernels_are_compiled_leaves_nothing(tmp_path, own_cache):
    for file in own_cache.iterdir():
        file.unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "edgewise", "estimate", str(dense(tmp_path)), "-d", "cortex-m4"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    temporary = tmp_path / "temporary"
    wait_until(lambda: list(temporary.glob("edgewise-mcu-*/objects/cc*.s")), process)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)
    assert process.returncode == 130 and b"Traceback" not in told
    assert list(temporary.iterdir()) == [] and not list(own_cache.glob("cortex-m4*"))
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [each for each in commands if os.fsencode(temporary) in each]


def emulated_s():
    """Processor time of the emulators that this process has started: they reach the first operator in less than 1 s."""
    times = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name().startswith("qemu"):
                times += sum(child.cpu_times()[:2])  # real time: of the emulator alone, however busy the machine is
    return times


def test_firmware_that_does_not_end_is_reported_with_its_operator(tmp_path, monkeypatch, clock):
    run_instead(monkeypatch, "for (;;) {}")
    clock.silent_when = lambda: emulated_s() > 1.0
    with pytest.raises(RunFailed, match=rf"took longer than {firmware.RUN_S:g} s in operator 0 \(FULLY_CONNECTED\)"):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


def test_a_stack_that_grows_into_the_data_is_reported_with_its_operator(tmp_path, monkeypatch):
    board = CORES["cortex-m4"].board
    data, free = 4000, 1024
    small = replace(board, ram=(board.ram[0], data + free + toolchain.STACK_BYTES))
    monkeypatch.setattr(cortex_m, "CORES", {"cortex-m4": replace(CORES["cortex-m4"], board=small)})
    size = free + toolchain.STACK_BYTES
    fill = f"for (int32_t at = {size}; at--;) data[at % {data}] = large[at] = 1;"
    run_instead(monkeypatch, f"static volatile char data[{data}]; volatile char large[{size}]; {fill}")
    with pytest.raises(RunFailed, match=r"failed: stack overflow in operator 0 \(FULLY_CONNECTED\)$"):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


def test_a_fault_in_the_handler_of_faults_is_reported_with_its_operator(tmp_path, monkeypatch):
    run_instead(monkeypatch, '__asm__ volatile("mov sp, %0\\n udf #0" : : "r"(0xDEAD0000));')
    with pytest.raises(RunFailed, match=r"qemu-system-arm crashed \(SIGABRT\) in operator 0 .*Lockup"):
        edgewise.estimate(dense(tmp_path), "cortex-m4")


@LONG
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m23"])
def test_unaligned_accesses_fault_where_the_core_that_is_emulated_instead_allows_them(tmp_path, monkeypatch, core):
    run_instead(monkeypatch, '__asm__ volatile("ldr r0, [%0]" : : "r"(ew_arena + 1) : "r0");')
    with pytest.raises(RunFailed, match=r"failed: usage fault in operator 0 \(FULLY_CONNECTED\)"):
        edgewise.estimate(dense(tmp_path), core)


def test_a_killed_emulator_is_reported(tmp_path, monkeypatch, own_cache):
    instead_of_qemu(tmp_path, monkeypatch, 'case "$*" in *-kernel*) kill -9 $$;; esac; exec "$QEMU" "$@"')
    with pytest.raises(RunFailed, match="qemu-system-arm was killed, most likely for want of memory"):
        edgewise.estimate(dense(tmp_path), "cortex-m4")
    assert not list(own_cache.glob("*.json")) and list((tmp_path / "temporary").iterdir()) == []


ZEROS = "0 0 0 0 0 0 0 0 0\n"


@pytest.mark.parametrize("written", ["", "1 2 x\n", "1 2 3 4 5 6 7 8 9\n", f"{5 * ZEROS}-1 0 0 0 0 0 0 0 0\n"])
def test_a_plugin_that_reports_garbage_is_an_error(written):
    with pytest.raises(ValueError, match=r"lines, not 6|invalid literal|at least 0"):
        counter.read_counts(written, runs=5, operators=1)
