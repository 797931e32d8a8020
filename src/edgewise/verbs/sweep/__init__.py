"""``sweep``: one verb over many models, devices, runtimes and settings, resumed where it was interrupted."""

from __future__ import annotations

from edgewise.verbs.verb import Verb


class Sweep(Verb):
    """Measure every combination of models, devices, runtimes and settings that a suite names.

    A suite is a YAML file, such as:

      models: ["model.*", "zoo:ds-cnn@0.5"]
      runtimes: [onnxruntime, openvino, litert]
      threads: [1, 2]
      options: {iterations: 20, sessions: 1}
      exclude:
        - {runtime: openvino, threads: 2}

    Its combinations are cells. A cell that fails does not stop the others. The same command again goes on where the
    last one stopped: finished cells are not measured again. At its end bench measures in turns, for each model, the
    places that may be the best, for at most 60 s each and until it is decided which they are: cells that lie minutes
    apart prove no order where the machine's speed drifts.
    """

    name = "sweep"
    summary = "Measure many models on many devices and runtimes; resumes."
    examples = ("edgewise sweep suite.yaml",)
    group = "Measure"
    request = ".request:SweepRequest"
    work = ".work:sweep"
    shown = ".presentation:SweepPresentation"
