"""Folders of OpenVINO GenAI before any engine is loaded: what they are, what is known of them, what is refused."""

from __future__ import annotations

import json

import pytest

import edgewise
from edgewise.errors import BadInput, BadModel
from edgewise.model.identity import describe_file, is_model_folder, open_model
from edgewise.model.readers.openvino_genai import read_folder
from edgewise.record import Job, RuntimeSpec, Scenario, Workload
from edgewise.run.language_models import kv_cache_row
from genai_folders import CONTEXT, VOCABULARY, write_openvino_folder

NUMBERS = 2 * 2 * 16


@pytest.fixture
def folder(tmp_path):
    return write_openvino_folder(tmp_path / "llama")


def test_a_folder_is_a_model_of_all_that_the_engine_reads(folder):
    model = open_model(folder)
    assert (model.ref.name, model.ref.format) == ("llama", "openvino-genai")
    parts = ("model", "tokenizer", "detokenizer")
    names = [f"openvino_{part}.{end}" for part in parts for end in ("xml", "bin")]
    assert [file.name for file in model.files] == [*names, "config.json"]
    assert model.ref.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert (model.signature.inputs, model.signature.outputs) == ((), ())
    assert is_model_folder(folder)
    assert open_model(folder / "openvino_model.xml").ref == model.ref
    assert describe_file(folder, read_all=True)["sha256"] == model.ref.sha256


def test_network_and_settings_tell_size_context_and_kv_cache(folder):
    told = edgewise.inspect(folder).graph.metadata["language_model"]
    assert told == {
        "architecture": "llama", "context_length": CONTEXT, "quantisation": "uint4",
        "tokenizer": "openvino_tokenizer.xml", "vocabulary": VOCABULARY, "chat_template": "present, never executed",
        "kv_cache_numbers_per_token": NUMBERS, "kv_cache_absent_because": None,
    }  # fmt: skip
    assert read_folder(folder / "openvino_model.xml").weight_bytes == 8256


def kv_cache_of(path, **options):
    scenario = Scenario(kind="generate", prompt_tokens=8, new_tokens=4)
    job = Job(
        model=open_model(path).ref,
        runtime=RuntimeSpec(name="openvino-genai", options=options),
        workload=Workload(scenario=scenario),
    )
    return kv_cache_row(job, "u8")


def test_the_kv_cache_has_the_type_that_the_engine_tells(folder):
    assert kv_cache_of(folder).value == NUMBERS * 12


@pytest.mark.parametrize("state", ["?,2,16", "?,64,3,16", "?,2,?,?", "..."])
def test_states_of_another_kind_have_no_size(tmp_path, state):
    row = kv_cache_of(write_openvino_folder(tmp_path / "m", state=state))
    assert row.value is None
    assert "other things than keys and values" in row.absent_because


def test_a_folder_without_settings_has_no_length_of_the_context(tmp_path):
    made = read_folder(write_openvino_folder(tmp_path / "m", context=None) / "openvino_model.xml")
    assert (made.context_length, made.has_chat_template) == (None, True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("openvino_model.bin", None, "weight file 'openvino_model.bin' is missing"),
        ("openvino_model.bin", b"\0" * 100, "openvino_model.bin is truncated"),
        ("openvino_model.xml", b'<net version="11">"beam_idx" "ReadValue"', "openvino_model.xml can't be used: it is"),
        ("openvino_tokenizer.xml", None, "it has no openvino_tokenizer.xml beside it"),
        ("openvino_tokenizer.xml", b"<net", "openvino_tokenizer.xml can't be used"),
        ("openvino_tokenizer.bin", None, "weight file 'openvino_tokenizer.bin' is missing"),
        ("openvino_detokenizer.xml", None, "it has no openvino_detokenizer.xml beside it"),
        ("openvino_detokenizer.bin", b"\0", "openvino_detokenizer.bin is truncated"),
        ("config.json", b'{"model_type": "lla', "config.json can't be used: it is no JSON"),
        ("config.json", b"[1]", "config.json can't be used: it is no JSON object"),
        ("generation_config.json", b"\xff\xfe", "generation_config.json can't be used: it is no JSON"),
    ],
)
def test_what_is_missing_or_damaged_is_named_before_loading(folder, name, content, message):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(BadModel, match=message):
        edgewise.bench(folder, scenario="generate", prompt_tokens=4, new_tokens=2)


def test_the_advice_makes_the_tokenizer_where_its_source_is_there(folder):
    (folder / "openvino_tokenizer.xml").unlink()
    for name, advice in (("notes.txt", "export the model again"), ("tokenizer.json", f"convert_tokenizer {folder} ")):
        (folder / name).write_text("{}")
        with pytest.raises(BadModel) as error:
            open_model(folder)
        assert advice in error.value.advice


def test_the_network_without_a_tokenizer_is_one_like_any_other(folder):
    (folder / "openvino_tokenizer.xml").unlink()
    model = open_model(folder / "openvino_model.xml")
    assert (model.ref.format, len(model.signature.inputs)) == ("openvino", 2)


def test_a_network_that_keeps_nothing_is_no_language_model(folder):
    """As optimum-intel exports an encoder of text, with a tokenizer."""
    file = folder / "openvino_model.xml"
    file.write_text(file.read_text().replace("beam_idx", "attention_mask"))
    assert open_model(file).ref.format == "openvino"
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertModel"]}))
    with pytest.raises(BadModel, match="Hugging Face model folder"):
        open_model(folder)


def test_more_tokens_than_the_context_are_refused(folder):
    with pytest.raises(BadInput, match=f"context of {CONTEXT}"):
        edgewise.bench(folder, scenario="generate", prompt_tokens=CONTEXT, new_tokens=4)


def test_files_that_lie_elsewhere_are_refused(folder, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(tmp_path / "config.json")
    with pytest.raises(BadModel, match="outside the model's folder"):
        open_model(folder)
