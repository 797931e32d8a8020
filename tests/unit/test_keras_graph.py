"""Keras files where Keras is not installed: the extra that is needed, and files that mean harm. See tests/engine too."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import BadInput, BadModel, Unavailable
from edgewise.model.graph import Graph
from edgewise.model.readers import isolated, keras
from edgewise.model.readers.base import HEAD_BYTES, ReadsGraph
from edgewise.model.readers.keras import KerasReader
from keras_documents import layer, sequential, small, start, taken, write
from messages import says

READER = KerasReader()


@pytest.fixture(autouse=True)
def no_keras(monkeypatch: pytest.MonkeyPatch):
    for module in (isolated, keras):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setenv("KERAS_BACKEND", "torch")


def read(path: Path, document: Any, **options: Any) -> Graph:
    return READER.read_graph(write(path, document), **options)


def sniff(path: Path) -> bool:
    with path.open("rb") as stream:
        return READER.sniff(stream.read(HEAD_BYTES), path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "m.keras"


def test_without_keras_the_reason_names_the_extra(file: Path):
    for ask in (READER.read_graph, READER.read_signature):
        with pytest.raises(Unavailable) as caught:
            ask(write(file, small()))
        assert caught.value.advice == "pip install 'edgewise[keras]'"
    assert sniff(file)
    assert READER.weight_files(file) == ()
    assert isinstance(READER, ReadsGraph)


def test_keras_without_a_backend_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.setattr(keras, "find_spec", lambda name: object() if name == "keras" else None)
    with pytest.raises(Unavailable) as caught:
        read(file, small())
    assert caught.value.advice == "pip install jax"


CUSTOM = [
    (layer(says("lambda-layer-which-python-code"), "odd", function={"class_name": "__lambda__", "config": {"code": "4wEA"}}), says("lambda-layer-which-python-code")),
    (layer("Swirl", "odd", module="mylib.layers"), says("class-not-one-keras-own-in-keras-code")),
    (layer("Swirl", "odd", module="keras_evil"), says("class-not-one-keras-own-in-keras-code")),
    ({**layer("Swirl", "odd"), "registered_name": "mine>Swirl"}, says("class-not-one-keras-own-in-keras-code")),
    (layer("Dense", "odd", units=2, activation={"class_name": "__lambda__", "config": {}}), says("lambda-layer-which-python-code")),
    (layer("Dense", "odd", units=2, kernel_initializer={"module": "os", "class_name": "system", "config": {}}), "'system'"),
    (layer("Dense", "odd", units=2, activation={"module": "builtins", "class_name": "function", "config": "exec", "registered_name": "exec"}), ""),
]  # fmt: skip


@pytest.mark.parametrize(("odd", "why"), CUSTOM[:-1])
def test_code_and_classes_of_others_are_refused(file: Path, odd: dict[str, Any], why: str):
    with pytest.raises(BadModel, match=why) as caught:
        read(file, sequential(start("x", 2, 6), odd))
    assert "MODULE:FUNCTION" in caught.value.advice


def test_no_code_of_a_file_runs(file: Path, monkeypatch: pytest.MonkeyPatch):
    models = [sequential(start("x", 2, 6), odd) for odd, _ in CUSTOM]
    with pytest.raises(Unavailable):  # Python's own imports unmarshal too: first without watching
        read(file, small())
    monkeypatch.setattr("marshal.loads", lambda *_: pytest.fail("unmarshalled"))
    monkeypatch.setattr("pickle.loads", lambda *_: pytest.fail("unpickled"))
    monkeypatch.setattr("importlib.import_module", lambda *_: pytest.fail("imported"))
    for model in models[:-1]:
        with pytest.raises(BadModel):
            read(file, model)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"z": (1, 8)}, says("model-no-input", name="z")),
        ({"a": (1, 8, 1)}, says("does-not-fit-input", given="1x8x1")),
        ({"a": (1, 9)}, says("does-not-fit-input", given="1x9")),
    ],
)
def test_shapes_that_do_not_fit_are_refused(file: Path, shapes: dict[str, tuple[int, ...]], words: str):
    with pytest.raises(BadInput, match=words) as caught:
        read(file, small(), shapes=shapes)
    assert not isinstance(caught.value, BadModel)
    assert caught.value.advice


def test_a_class_of_its_own_is_explained(file: Path):
    with pytest.raises(BadModel, match=says("layers-class-exist-only-python")) as caught:
        read(file, {"module": "keras", "class_name": "Model", "config": {"name": "n", "width": 3}})
    assert "MODULE:FUNCTION" in caught.value.advice


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"nonsense", b"[" * 100_000, b'{"a":' * 50_000, b"\xff", b"{}"], ids=range(7)
)
def test_what_is_no_configuration_is_refused(file: Path, content: bytes):
    with pytest.raises(BadModel):
        read(file, content)


def test_what_is_nested_without_end_is_refused(file: Path):
    document = layer("ReLU", "r")
    for _ in range(60):
        document = layer("TimeDistributed", "t", layer=document)
    with pytest.raises(BadModel, match=says("configuration-nested-too-deeply-too")):
        read(file, sequential(start("x", 1, 1), document))


def test_other_archives_are_none(file: Path):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("config.json", "{}")
    assert not sniff(file)
    write(file, small())
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    assert sniff(file)
    with pytest.raises(BadModel, match=says("not-complete-zip-archive")):
        READER.read_signature(file)


def mutate(value: Any, chance: random.Random) -> Any:
    """A JSON document with something in it changed."""
    strange = [
        None,
        -1,
        0,
        2**64,
        0.5,
        "",
        "x",
        "twin",
        [],
        {},
        [[]],
        True,
        [None, 4],
        taken("a"),
        layer("LSTM", "l", units=3),
    ]
    if isinstance(value, dict) and value:
        found = dict(value)
        key = chance.choice(list(found))
        if chance.random() < 0.12:
            found[key] = chance.choice(strange)
        else:
            found[key] = mutate(found[key], chance)
        return found
    if isinstance(value, list) and value:
        listed = list(value)
        at = chance.randrange(len(listed))
        roll = chance.random()
        if roll < 0.1:
            del listed[at]
        elif roll < 0.2:
            listed.append(listed[at])
        else:
            listed[at] = mutate(listed[at], chance)
        return listed
    return chance.choice(strange)


def test_mutated_configurations_go_to_keras_or_are_refused(file: Path):
    chance = random.Random(5)
    sent = 0
    for _ in range(400):
        document: Any = small()
        for _ in range(chance.randint(1, 4)):
            document = mutate(document, chance)
        try:
            read(file, document)
        except BadModel:
            continue
        except Unavailable:
            sent += 1
    assert 40 < sent < 390
