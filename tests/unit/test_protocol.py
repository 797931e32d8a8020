"""The wire: whole messages or a clear error, whatever comes in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.run.protocol import MESSAGES, ProtocolError, decode, encode


def test_round_trip_is_one_line():
    line = encode("samples", name="latency", values_ns=[1, 2, 3])
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert decode(line) == {"kind": "samples", "name": "latency", "values_ns": [1, 2, 3]}


def test_text_with_newlines_stays_on_one_line():
    line = encode("failed", cause="EngineError", message="one\ntwo")
    assert line.count(b"\n") == 1
    assert decode(line)["message"] == "one\ntwo"


def test_unknown_kind_and_missing_field_are_refused_when_written():
    with pytest.raises(KeyError):
        encode("gossip")
    with pytest.raises(ValueError, match="values_ns"):
        encode("samples", name="latency")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"hello",
        b"[1]",
        b'{"kind":"gossip"}',
        b'{"kind":"samples","name":"x"}',
        b'{"kind":["done"]}',
        b"\xff\xfe",
    ],
)
def test_garbage_is_a_protocol_error(line):
    with pytest.raises(ProtocolError):
        decode(line)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_protocol_error(line):
    try:
        message = decode(line)
    except ProtocolError:
        return
    assert message["kind"] in MESSAGES


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_gives_a_message_or_a_protocol_error(value):
    try:
        decode(json.dumps(value).encode())
    except ProtocolError:
        pass
