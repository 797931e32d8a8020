"""Is what `edgewise optimize` chooses as accurate as the model, and faster than what other tools make of it?

    python benchmarks/optimizers.py [--nets build/nets] [--only cnn,mlp] [--budget 300s] [-o FILE.json]
                                    [--olive-python PATH] [--work build/optimizers]
    python benchmarks/optimizers.py --unlabelled build/unlabelled [--only palm,hand] [--min-snr 20]

For every network: `edgewise.optimize` in each engine alone and with the engine left free; onnxruntime, NNCF, Olive and
ai-edge-quantizer at their own defaults on the same calibration samples and within the same time; then everybody alike:
answers on all of the test data by edgewise's evaluator, and latency in one interleaved race on one thread. Claims are
held against what came out, and a cell that misses is marked. ``benchmarks/nets/train.py`` makes the networks; that of
digits is bundled.

Every step is kept in the work folder, and a second call goes on where the first was cut off. A network takes four
searches' budgets and about ten minutes. Tools need onnxruntime, nncf, openvino, ai-edge-litert and ai-edge-quantizer;
Olive a Python of its own with ``olive-ai`` and torch. The exit status is 1 where a claim is missed.

``--unlabelled`` takes networks without labels instead, of ``benchmarks/nets/unlabelled.py``: detectors, landmarks and
speech. Every file is judged by the signal-to-noise ratio of its worst output against the float file's, on samples that
no pass looked at; a tool's file counts where it reaches ``--min-snr``, which is the searches' bound, too.

Speed-only networks have random weights: their outputs are compared with the float file's on pictures of noise, and what
a search may lose of that is set by ``--agreement-drop``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from optimizing.claims import check_all, misses
from optimizing.stages import Settings, Stage, describe
from optimizing.subjects import find_subjects, find_unlabelled
from optimizing.tables import format_claims, format_net
from optimizing.tools import TOOLS

from edgewise.optimizing.processor import read_processor
from edgewise.run.environment import fingerprint

FASHION = Path("/usr/share/datasets/fashion-mnist")
USUAL = Settings()


def packages_here() -> dict[str, str]:
    """Versions of what takes part and is installed here."""
    names = {"edgewise", *(name for tool in TOOLS.values() for name in tool.packages), "ai-edge-litert"}
    found = {}
    for name in sorted(names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def has_vnni() -> bool | None:
    """Whether the processor has instructions for 8-bit products; None where the system does not tell."""
    found = read_processor().instructions("int8")
    return None if found is None else bool(found)


def settings_of(words: argparse.Namespace) -> Settings:
    """From the command line."""
    return Settings(
        budget=words.budget,
        race=words.race,
        cells=words.cells,
        limit=words.limit,
        agreement_drop=words.agreement_drop,
        min_snr=words.min_snr,
    )


def check_folder(work: Path, settings: Settings) -> None:
    """Refuse to go on in a folder that another kind of run left. Raises `SystemExit`."""
    work.mkdir(parents=True, exist_ok=True)
    file, wanted = work / "settings.json", describe(settings)
    if file.is_file() and (known := json.loads(file.read_text(encoding="utf-8"))) != wanted:
        raise SystemExit(f"{work} was begun with other settings ({known}): name another --work, or remove it")
    file.write_text(json.dumps(wanted), encoding="utf-8")


def tell(name: str, text: str) -> None:
    """Progress, which is no part of the report."""
    print(f"{name}: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """Do, tabulate, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=Path, default=Path("build/nets"), help="folder made by benchmarks/nets/train.py")
    parser.add_argument("--unlabelled", type=Path, help="folder made by benchmarks/nets/unlabelled.py: these instead")
    parser.add_argument("--min-snr", type=float, default=USUAL.min_snr, help="dB, for these")
    parser.add_argument("--data", type=Path, default=FASHION, help="folder with Fashion-MNIST")
    parser.add_argument("--work", type=Path, default=Path("build/optimizers"), help="where every step is kept")
    parser.add_argument("--only", default="", help="names of networks, separated by commas")
    parser.add_argument(
        "--budget", default=USUAL.budget, help="of every search in one engine, twice of the free one; 60s,resnet50=150s"
    )
    parser.add_argument("--race", default=USUAL.race, help="of the race of everybody")
    parser.add_argument("--cells", default=USUAL.cells, help="of the race of pre-flight cells per engine; 0s: none")
    parser.add_argument("--limit", type=int, help="samples to judge on, for a quick look")
    parser.add_argument("--agreement-drop", default=USUAL.agreement_drop, help="for networks without labels")
    parser.add_argument("--olive-python", default="", help="a Python that has olive-ai and torch")
    parser.add_argument("-o", "--output", type=Path, help="JSON of everything")
    words = parser.parse_args()
    work, settings = words.work.resolve(), settings_of(words)
    check_folder(work, settings)
    # Timings that the pre-flight kept from busier times would be no predictions of now.
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")
    only = [name for name in words.only.split(",") if name]
    if words.unlabelled:
        subjects = find_unlabelled(words.unlabelled.resolve(), only=only)
    else:
        subjects = find_subjects(words.nets.resolve(), fashion=words.data, work=work, only=only)
    nets: list[dict[str, Any]] = []
    for subject in subjects:
        stage = Stage(
            subject=subject,
            settings=settings,
            folder=work / subject.name,
            olive=words.olive_python,
            tell=partial(tell, subject.name),
        )
        nets.append(stage.run())
        print("\n".join(format_net(nets[-1])), flush=True)
    claims = check_all(nets, vnni=has_vnni())
    print("\n".join(format_claims(claims)))
    if words.output:
        document = {
            "schema": 1,
            "settings": describe(settings),
            "packages": packages_here(),
            "environment": fingerprint(),
            "claims": [{"title": one.title, "holds": one.holds, "found": one.found} for one in claims],
            "nets": nets,
        }
        words.output.write_text(json.dumps(document, indent=1, ensure_ascii=False), encoding="utf-8")
    return 1 if any(misses(claims)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
