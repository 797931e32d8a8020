"""Compares `edgewise.estimating.mvp_programs` with the simulator of Silicon Labs' package ``silabs-mltk``.

    python tools/mvp_sweep.py write FOLDER 500 --seed 1     random operators, each in a file
    MLTK_PYTHON tools/mvp_sweep.py simulate FOLDER          their cycles and programs in the simulator
    python tools/mvp_sweep.py compare FOLDER                equal, or the differences

MLTK_PYTHON is the interpreter of an environment with ``silabs-mltk==0.20.0 "setuptools<70" "typer<0.10" "click<8.2"
"onnx<1.17" "onnxruntime<1.19"`` (Python 3.11) and needs nothing of edgewise. Other networks can be compared, too.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

RESULTS = "simulated.json"


def write(folder: Path, number: int, seed: int, *, large: bool) -> None:
    """Write `number` networks of one operator."""
    import numpy as np

    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from mvp_graphs import draw_operator, write_operator

    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    for at in range(number):
        kind, shape, words = draw_operator(random, large=large)
        write_operator(folder / f"{at:04d}.tflite", kind, shape, **words)


def simulate(folder: Path) -> None:
    """Cycles and programs per operator of every network, each in a process of its own."""
    from mltk.core.tflite_micro import TfliteMicro

    found = {}
    for path in sorted(folder.glob("*.tflite")):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            layers = TfliteMicro.profile_model(str(path), accelerator="MVP", runtime_buffer_size=2**23).layers
            told = [(layer["accelerator_cycles"], layer.get("accelerator_loads", 0)) for layer in layers]
            os.write(writing, json.dumps(told).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            found[path.name] = json.loads(pipe.read() or b"null")
        os.waitpid(child, 0)
    (folder / RESULTS).write_text(json.dumps(found), encoding="utf-8")


def compare(folder: Path) -> int:
    """Print the operators whose cycles or programs differ; the result is their number."""
    from edgewise.estimating.mcu.network import read_network
    from edgewise.estimating.mvp import place

    seen: Counter[tuple[str, str]] = Counter()
    for name, simulated in json.loads((folder / RESULTS).read_text(encoding="utf-8")).items():
        network = read_network(folder / name)
        placed = place(network, scaled_first=True)
        for operator, expected in zip(network.operators, simulated or [], strict=bool(simulated)):
            here = placed.programs.get(operator.index)
            ours = [here.cycles, here.count] if here else [0, 0]
            verdict = "not modelled" if operator.index in placed.unknown else "equal" if ours == expected else "differ"
            seen[operator.code, f"{verdict}{', on the CPU' * (expected == [0, 0])}"] += 1
            if verdict == "differ":
                shapes = [tensor.shape for tensor in (*operator.inputs, *operator.outputs) if tensor]
                print(f"{name}: {operator.code} {shapes} {dict(operator.options)}: {ours}, simulated {expected}")
    for (code, verdict), number in sorted(seen.items()):
        print(f"{code}: {number} {verdict}")
    return sum(number for (_, verdict), number in seen.items() if verdict.startswith("differ"))


def main() -> int:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("write", "simulate", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("number", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--large", action="store_true", help="images of up to 160 × 160 instead of 40 × 40")
    given = parser.parse_args()
    if given.step == "write":
        write(given.folder, given.number, given.seed, large=given.large)
    elif given.step == "simulate":
        simulate(given.folder)
    else:
        return int(compare(given.folder) > 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
