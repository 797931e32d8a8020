"""The schema as data says what the schema's generated classes say."""

from __future__ import annotations

import re

import tflite

from edgewise.model.readers.tflite_options import BUILTIN_OPTIONS, BUILTIN_OPTIONS_2
from edgewise.model.readers.tflite_schema import DTYPES, ENUMERATIONS, SCHEMA


def describe(module, kind):
    """Fields of a generated class: slot → (name, type, default)."""

    class Recorder:
        def __getattr__(self, name):
            return lambda slot, value, default: seen.append((slot, name[7:-4], default))

    found = {}
    for function in dir(module):
        match = re.fullmatch(f"{kind}Add([A-Z]\\w*)", function)
        if match:
            seen = []
            getattr(module, function)(Recorder(), 0)
            slot, layout, default = seen[0]
            found[slot] = (match[1].lower(), layout, default)
    return found


LAYOUTS = {
    "b": "Int8",
    "B": "Uint8",
    "?": "Bool",
    "i": "Int32",
    "I": "Uint32",
    "q": "Int64",
    "Q": "Uint64",
    "f": "Float32",
}
YOUNGER = {
    "StablehloCaseOptions",
    "BlockwiseQuantization",
    "MultiAxisQuantization",
    "ExternalBufferGroup",
    "ExternalBuffer",
}
OTHER_FILES = {
    "ConversionMetadata", "Environment", "ModelMetadata", "SubGraphMetadata", "TensorMetadata", "Content",
    "FeatureProperties", "ImageProperties", "ProcessUnit", "NormalizationOptions", "AssociatedFile",
}  # fmt: skip
"""Tables of flatbuffers inside buffers of a model, which have schemas of their own."""


def test_the_schema_is_that_of_the_generated_classes():
    for kind, fields in SCHEMA.items():
        if kind in YOUNGER or kind in OTHER_FILES:
            continue
        theirs = describe(__import__(f"tflite.{kind}", fromlist=["x"]), kind)
        ours = {field.slot: field for field in fields}
        later = {"external_buffer", "external_buffers", "external_buffer_groups", "quant_spec", "debug_metadata_index"}
        assert {slot for slot, field in ours.items() if field.name not in later} <= theirs.keys() <= ours.keys(), kind
        for slot, (name, layout, default) in theirs.items():
            field = ours[slot]
            assert field.name.replace("_", "") == name, kind
            assert (LAYOUTS[field.layout] if field.kind == "number" else "UOffsetTRelative") == layout, (kind, name)
            if field.kind == "number" and not field.table:
                assert field.default == default, (kind, name)


def test_unions_and_enumerations_are_those_of_the_generated_classes():
    for union, names in (("BuiltinOptions", BUILTIN_OPTIONS), ("BuiltinOptions2", BUILTIN_OPTIONS_2)):
        theirs = {value: name for name, value in vars(getattr(tflite, union)).items() if not name.startswith("_")}
        assert [theirs[at] for at in range(len(theirs))] == list(names[: len(theirs)])
    for enumeration, names in {**ENUMERATIONS, "TensorType": [DTYPES[at].upper() for at in DTYPES]}.items():
        module = __import__(f"tflite.{enumeration}", fromlist=["x"])
        theirs = {value: name for name, value in vars(getattr(module, enumeration)).items() if not name.startswith("_")}
        assert [theirs[at] for at in range(len(theirs))] == list(names[: len(theirs)])
