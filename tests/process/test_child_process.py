"""Children with limits: how each way to end is told, and that nothing is left behind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgewise.cancellation import Cancelled, CancelToken, cancellable
from edgewise.child_process import MAX_OUTPUT, TAIL_BYTES, ChildProcess, explain_end, run_child
from edgewise.clock import now
from edgewise.text import means_out_of_memory
from patience import wait_until

pytestmark = pytest.mark.cold


def run(code, **options):
    return run_child([sys.executable, "-I", "-S", "-c", code], **{"seconds": 600, **options})


def served(body, limits="None"):
    code = f"import sys; sys.path[:0] = {sys.path!r}\nfrom edgewise.child_process import Limits, serve\n{body}\n"
    return run(code + f"raise SystemExit(serve(answer, limits={limits}))", request=b"request")


def test_a_child_reads_its_request_and_answers():
    done = run("import sys; sys.stdout.write(sys.stdin.read()[::-1]); sys.stderr.write('words')", request=b"abc")
    assert (done.output, done.tail, done.returncode, done.cause, done.failure) == (b"cba", "words", 0, "", "")


@pytest.mark.parametrize(
    ("code", "cause", "failure"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "crashed", "crashed (SIGSEGV)"),
        ("import os; os.kill(os.getpid(), 9)", "memory", "was killed, most likely for want of memory"),
        ("raise SystemExit('two\\nlines')", "exit", "ended with exit code 1: lines"),
        ("raise MemoryError", "memory", "ran out of memory"),
        ("import time; time.sleep(600)", "late", "took longer than 0.5 s"),
        ("while True: print('x' * 1000)", "output", "wrote more than 5000 bytes"),
    ],
)
def test_each_end_has_a_cause_and_words(code, cause, failure):
    done = run(code, seconds=0.5 if cause == "late" else 600, max_output=5000)
    assert (done.cause, done.failure) == (cause, failure)


def test_what_can_not_be_started_is_no_exception():
    done = run_child(["/nonexistent/program"], seconds=1)
    assert done.cause == "start" and "No such file" in done.failure and done.returncode is None


def test_a_flood_on_standard_error_neither_fills_memory_nor_outlives_the_deadline():
    code = "import sys\nsys.stdout.write('begun'); sys.stdout.flush()\nwhile True: sys.stderr.write('y' * 10000)"
    with ChildProcess([sys.executable, "-I", "-S", "-c", code]) as child:
        assert child.read(until=now() + 600) == b"begun"
        with pytest.raises(TimeoutError):
            child.read(until=now() + 0.5)  # real time: it has to end, on any machine
    assert 0 < len(child.tail.encode()) <= TAIL_BYTES


def test_what_a_child_starts_ends_with_it(tmp_path):
    """A grandchild that holds its output open neither delays the answer nor lives on."""
    code = "import os, subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    done = run(code, folder=tmp_path)
    assert done.cause == ""  # it was not late
    wait_until(lambda: not _lives(int(done.output)))


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_cancel_token_wakes_the_parent(clock):
    token, clock.silent_when = CancelToken(), lambda: True
    clock.after(0.2, token.cancel)
    with cancellable(token), ChildProcess([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        begin = clock.now()
        with pytest.raises(Cancelled):
            child.read(until=begin + 120)
        assert clock.now() - begin == pytest.approx(0.2)
    assert child.returncode == -9


def test_serve_keeps_what_libraries_print_out_of_the_answer():
    done = served("def answer(request): print('noise'); return request.upper()")
    assert (done.output, done.failure) == (b"REQUEST", "")
    assert "noise" in done.tail


def test_serve_says_what_was_raised_in_one_line():
    done = served("def answer(request): raise ValueError('a\\nb')")
    assert done.failure == "ended with exit code 1: a b"


@pytest.mark.parametrize(
    ("body", "limit", "cause"),
    [
        ("def answer(request): return b'x' * 2**30", "address_bytes=2**29", "memory"),
        ("def answer(request): return b'x' * 2**30", "data_bytes=2**28", "memory"),
        ("def answer(request):\n    while True: pass", "cpu_seconds=1", "cpu"),
    ],
)
def test_limits_hold(body, limit, cause):
    assert served(body, limits=f"lambda request: Limits({limit})").cause == cause


@pytest.mark.parametrize(
    "text",
    ["std::bad_alloc", "Failed to allocate memory for tensor", "OUT OF MEMORY", "Cannot allocate memory",
     "[Errno 12] Cannot allocate memory", "Unable to allocate 8.00 GiB for an array", "CL_MEM_OBJECT_ALLOCATION_FAILURE",
     "DefaultCPUAllocator: not enough memory: you tried to allocate", "MemoryError",
     "libfoo.so: failed to map segment from shared object"],
)  # fmt: skip
def test_out_of_memory_is_recognised_in_the_words_of_engines(text):
    assert means_out_of_memory(text)


@pytest.mark.parametrize("text", ["", "memory-mapped file", "allocated 3 buffers", "invalid model"])
def test_other_words_are_not_out_of_memory(text):
    assert not means_out_of_memory(text)


def test_explain_end_knows_unnamed_signals():
    assert explain_end(-63, "")[1] == "crashed (signal 63)"
    assert explain_end(None) == explain_end(0) == ("", "")
    assert MAX_OUTPUT > 2**20
