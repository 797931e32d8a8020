"""TensorFlow Lite Metadata: written field by field after metadata_schema.fbs, read back, damaged."""

from __future__ import annotations

import io
import zipfile

import flatbuffers
import numpy as np
import pytest

from edgewise.errors import BadInput, BadModel
from edgewise.evaluating.instructions import find_instructions
from edgewise.evaluating.litert_metadata import read_litert_metadata
from messages import has, is_in, says, wording
from preparations import prepare
from tflite_writer import Writer, dense, floats

IMAGE, NORMALIZATION, AXIS_LABELS = 2, 1, 2
RGB, GRAY = 1, 2


class Notes:
    """Writes a metadata flatbuffer by the numbers of its fields."""

    def __init__(self):
        self.b = flatbuffers.Builder()

    def table(self, **fields):
        """`fields`: ``f0=…``: an offset as `int`, a byte as ``("b", value)``."""
        self.b.StartObject(8)
        for name, value in fields.items():
            slot = int(name[1:])
            if isinstance(value, tuple):
                self.b.PrependInt8Slot(slot, value[1], -1)
            elif value is not None:
                self.b.PrependUOffsetTRelativeSlot(slot, value, 0)
        return self.b.EndObject()

    def tables(self, *tables):
        self.b.StartVector(4, len(tables), 4)
        for each in reversed(tables):
            self.b.PrependUOffsetTRelative(each)
        return self.b.EndVector()

    def numbers(self, values):
        return self.b.CreateNumpyVector(np.array(values, np.float32))

    def text(self, text):
        return self.b.CreateString(text)

    def input(self, mean, std, color=RGB):
        options = self.table(f0=self.numbers(mean), f1=self.numbers(std))
        other = self.table(f0=("b", 3), f1=self.table())  # score thresholding: none of ours
        unit = self.table(f0=("b", NORMALIZATION), f1=options)
        content = self.table(f0=("b", IMAGE), f1=self.table(f0=("b", color)))
        return self.table(f0=self.text("image"), f3=content, f4=self.tables(other, unit))

    def output(self, *files):
        made = [
            self.table(f0=self.text(name), f2=("b", kind), f3=self.text(locale) if locale else None)
            for name, kind, locale in files
        ]
        return self.table(f6=self.tables(*made)) if made else self.table()

    def finish(self, inputs, outputs=(), identifier=b"M001"):
        graph = self.table(f2=self.tables(*inputs), f3=self.tables(*outputs))
        self.b.Finish(self.table(f0=self.text("net"), f3=self.tables(graph)), file_identifier=identifier)
        return bytes(self.b.Output())


def network(notes: bytes, *, inputs=1, name="TFLITE_METADATA", buffer=1) -> bytes:
    w = Writer()
    tensors = [w.tensor(f"in{at}", [1, 4]) for at in range(inputs)] + [w.tensor("y", [1, 4])]
    step = w.operator(0, [0, inputs - 1], [inputs], Add={})
    entries = [w.table("Metadata", name="min_runtime_version", buffer=0), w.table("Metadata", name=name, buffer=buffer)]
    return w.finish(
        [w.graph(tensors, [step], list(range(inputs)), [inputs])], ["ADD"], [notes or b"\0"], metadata=entries
    )


def labelled(model: bytes, **files: bytes) -> bytes:
    """The model with a zip archive behind it, as the metadata tools append it."""
    stream = io.BytesIO(model)
    stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream, "a") as archive:
        for name, content in files.items():
            archive.writestr(f"{name}.txt", content)
    return stream.getvalue()


@pytest.fixture
def write(tmp_path):
    def save(content: bytes):
        path = tmp_path / "net.tflite"
        path.write_bytes(content)
        return path

    return save


def test_normalisation_and_labels(write):
    n = Notes()
    notes = n.finish(
        [n.input([127.5], [127.5])],
        [n.output(), n.output(("de.txt", AXIS_LABELS, "de"), ("labels.txt", AXIS_LABELS, None))],
    )
    path = write(labelled(network(notes), labels=b"cat\r\ndog \n\n", de=b"Katze\nHund\n"))
    found = find_instructions(path, form="tflite")
    (step,) = found.steps[""]
    assert step.name == "normalize"
    assert step.to_document() == {"mean": [127.5], "std": [127.5], "axis": None}
    assert found.classes == ("cat", "dog")
    assert found.origins == ("metadata of net.tflite",)


def test_it_means_what_the_schema_says(write):
    n = Notes()
    path = write(network(n.finish([n.input([10, 20, 30], [1, 2, 4])])))
    steps = find_instructions(path, form="tflite").steps
    flags = [f"normalize={dict(steps[''][0].to_document(), axis=-1)}".replace("'", "")]
    pixel = np.array([[[11, 24, 38]]], dtype=np.uint8)
    assert prepare(pixel, *flags, shape=(1, 1, 1, 3), kind="image")[0].ravel().tolist() == [1, 2, 2]


def test_gray_images_and_several_inputs(write):
    n = Notes()
    notes = n.finish([n.table(), n.input([0], [255], GRAY)])
    steps = find_instructions(write(network(notes, inputs=2)), form="tflite").steps
    assert list(steps) == ["in1"]
    assert [step.name for step in steps["in1"]] == ["color", "normalize"]


def test_the_file_beside_wins(write, tmp_path):
    n = Notes()
    path = write(network(n.finish([n.input([127.5], [127.5])])))
    (tmp_path / "net.yaml").write_text("edgewise: 1\ntask: classification\n")
    found = find_instructions(path, form="tflite")
    assert found.steps[""][0].name == "normalize"
    assert found.origins == ("metadata of net.tflite", "net.yaml")
    (tmp_path / "net.yaml").write_text("edgewise: 1\ninputs: [{scale: 2}]\n")
    assert [step.name for step in find_instructions(path, form="tflite").steps[""]] == ["scale"]
    assert find_instructions(path, form="tflite", flags=["none"]).steps == {"": ()}


def test_models_without_metadata(write):
    assert read_litert_metadata(write(dense())) is None
    assert read_litert_metadata(write(network(b"x" * 64, name="OTHER"))) is None
    n = Notes()
    n.b.Finish(n.table(f0=n.text("net")), file_identifier=b"M001")
    assert read_litert_metadata(write(network(bytes(n.b.Output())))).steps == {}


def test_what_is_wrong_is_told_and_no_obstacle_to_those_who_say_how(write, tmp_path):
    n = Notes()
    path = write(network(n.finish([n.input([0], [0])])))
    with pytest.raises(BadModel, match=says("metadata-cant-read", name="net.tflite", reason=has("standard deviation"))):
        find_instructions(path, form="tflite")
    found = find_instructions(path, form="tflite", flags=["scale=1/255"])
    assert [step.name for step in found.steps[""]] == ["scale"]
    assert found.origins[0].startswith("metadata left out: ")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: network(n.finish([n.input([0], [1])], identifier=b"M009")), "no identifier M001"),
        (lambda n: network(n.finish([n.input([0], [np.nan])])), wording("mean-standard-deviation-not-number")),
        (lambda n: network(n.finish([n.input([0], [1]), n.input([0], [1])])), "describe 2 inputs of 1"),
        (lambda n: network(n.finish([n.input([0], [1])]), buffer=99), wording("they-buffer-not-there")),
        (lambda n: network(n.finish([n.input([0], [1])])[:40]), says("metadata-cant-read")),
        (lambda n: network(n.finish([n.input([0] * 5000, [1])])), wording("list-too-long")),
        (lambda n: network(n.finish([n.input([0], [1])], [n.output(("a.txt", 2, None))])), says("not-complete-zip-archive")),
        (lambda n: labelled(network(n.finish([n.input([0], [1])], [n.output(("a.txt", 2, None))])), b=b"x"), "has no 'a.txt'"),
        (lambda n: labelled(network(n.finish([n.input([0], [1])], [n.output(("a.txt", 2, None))])), a=b"\xff\xfe"), says("labels-not-utf-8")),
        (lambda n: labelled(network(n.finish([n.input([0], [1])], [n.output(("a.txt", 2, None))])), a=b"x" * 2**23), says("bytes-more-than")),
    ],
)  # fmt: skip
def test_damage(write, make, message):
    with pytest.raises(BadInput) as caught:
        read_litert_metadata(write(make(Notes())))
    assert is_in(message, caught.value.message)
    assert "\n" not in caught.value.message


def test_every_flipped_byte_is_survived(write):
    n = Notes()
    notes = n.finish([n.input([1, 2, 3], [4, 5, 6])], [n.output(("labels.txt", AXIS_LABELS, None))])
    whole = network(notes)
    begin = whole.index(notes)
    path = write(whole)
    outcomes = set()
    for at in range(len(notes)):
        for flip in (0x01, 0xFF):
            broken = bytearray(whole)
            broken[begin + at] ^= flip
            path.write_bytes(broken)
            try:
                read_litert_metadata(path)
                outcomes.add("read")
            except BadInput as error:
                assert "\n" not in error.message
                outcomes.add("refused")
    # The labels are not there, so that only a model whose labels were lost to the flip can be read.
    assert outcomes == {"read", "refused"}


def test_files_that_are_not_there_or_empty(write, tmp_path):
    with pytest.raises(BadModel, match=says("cant-read-in-litert-metadata")):
        read_litert_metadata(tmp_path / "absent.tflite")
    with pytest.raises(BadModel, match="it is empty"):
        read_litert_metadata(write(b""))
    with pytest.raises(BadModel, match=says("metadata-cant-read")):
        read_litert_metadata(write(floats(3)))
