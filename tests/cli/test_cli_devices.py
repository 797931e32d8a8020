"""``edgewise devices``: the file of devices, without connecting to one. The checks are in tests/process."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from edgewise.cli.main import run
from edgewise.device.devices import Device, add_device, find_device, read_devices, transport_of
from edgewise.device.link import NotAdmitted
from edgewise.errors import Unavailable
from edgewise.registry import Availability
from edgewise.run import worker_executor
from edgewise.run.device_check import DeviceCheck, missing_engines
from estimates import dense_relu
from messages import has, is_in, says, wording

pytest.importorskip("asyncssh", reason="needs asyncssh")


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "settings" / "devices.toml"
    monkeypatch.setenv("EDGEWISE_DEVICES", str(path))
    return path


def listed(capsys):
    capsys.readouterr()
    assert run(["devices", "list", "--json"]) == 0
    return {each.pop("name"): each for each in json.loads(capsys.readouterr().out)["devices"]}


def test_devices_are_added_listed_and_removed_and_the_rest_of_the_file_stays(file, capsys):
    assert run(["devices", "add", "pi4", "ssh://pi@10.0.0.7:2222", "--set", 'python=~/my "venv"/bin/python']) == 0
    file.write_text(file.read_text() + "\n# the board on the shelf\n[board]\nurl = 'ssh://board'\n")
    assert run(["devices", "add", "third", "ssh://third"]) == 0
    assert listed(capsys) == {
        "local": {"url": "local", "transport": "local", "settings": {}},
        "pi4": {"url": "ssh://pi@10.0.0.7:2222", "transport": "ssh", "settings": {"python": '~/my "venv"/bin/python'}},
        "board": {"url": "ssh://board", "transport": "ssh", "settings": {}},
        "third": {"url": "ssh://third", "transport": "ssh", "settings": {}},
    }
    assert transport_of("pi4") == "ssh" and transport_of("ssh://x") == "ssh" and transport_of("moon") == "moon"
    assert run(["devices", "rm", "board"]) == 0
    assert set(listed(capsys)) == {"local", "pi4", "third"}
    assert run(["devices", "list"]) == 0
    assert "ssh://pi@10.0.0.7:2222" in capsys.readouterr().out


def test_another_file_is_named_by_an_option(tmp_path, file, capsys):
    other = tmp_path / "other.toml"
    assert run(["devices", "add", "a", "ssh://a", "--file", str(other)]) == 0
    assert not file.exists() and '[a]\nurl = "ssh://a"\n' in other.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["add", "local", "ssh://a"], says("cant-name-device")),
        (["add", "ssh", "ssh://a"], says("cant-name-device")),
        (["add", "a b", "ssh://a"], says("cant-name-device")),
        (["add", "a", "ssh://"], says("ssh-names-no-host")),
        (["add", "a", "pi@10.0.0.4"], "try: write ssh://pi@10.0.0.4"),
        (["add", "a", "board.local:2222"], "try: write ssh://board.local:2222"),
        (["add"], " devices add NAME URL'; see"),
        (["rm"], " devices rm NAME'; see"),
        (["add", "a", "ssh://host:99999"], "'99999' is no port"),
        (["add", "a", "ssh://pi@host:abc"], "'abc' is no port"),
        (["add", "a", "ssh://[::1"], says("ssh-names-no-host")),
        (["add", "a", "ssh://host", "--set", "key=/no/such/file"], "a: key is '/no/such/file', which is no file"),
        (["add", "a", "ssh://me:secret@host"], says("url-must-not-contain-password")),
        (["add", "a", "ssh://host/path"], says("ssh-names-no-host")),
        (["add", "a", "ssh://host", "--set", "pyhton=x"], says("unknown-setting", unknown=has("'pyhton'"))),
        (["add", "a", "ssh://host", "--set", "python"], wording("set-needs-key-value")),
        (["add", "a", "ssh://host", "--set", "python=a\nb"], says("url-setting-control-character-no")),
        (["rm", "a"], "a is not in"),
    ],
)
def test_what_can_not_be_registered_is_one_clear_error(words, told, file, capsys):
    assert run(["devices", *words]) == 2
    assert is_in(told, capsys.readouterr().err)
    assert not file.exists()


def test_a_name_that_is_estimated_already_is_told(file, capsys):
    assert run(["devices", "add", "cortex-m4", "ssh://a"]) == 0
    assert "'edgewise estimate -d cortex-m4' goes on estimating the one that edgewise knows" in capsys.readouterr().err
    assert run(["devices", "add", "a", "ssh://a"]) == 0
    assert "goes on estimating" not in capsys.readouterr().err


def test_a_registered_device_that_is_not_calibrated_is_no_unknown_one(file, capsys, tmp_path):
    assert run(["devices", "add", "pi4", "ssh://a"]) == 0
    model = str(dense_relu(tmp_path))
    assert run(["estimate", model, "-d", "pi4"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "pi4 is a device to measure on, and it is not calibrated" in told and "did you mean" not in told
    assert "'edgewise bench MODEL -d pi4'" in told and "'edgewise calibrate pi4' learns it" in told
    assert run(["estimate", model, "-d", "local"]) == 2
    assert "calibrate local" not in capsys.readouterr().err


def test_a_device_that_cant_be_reached_has_nothing_missing(file, capsys):
    assert run(["devices", "add", "off", "ssh://127.0.0.1:1"]) == 0
    assert run(["devices", "check", "off"]) == 3
    told = capsys.readouterr().out
    assert told.startswith("off can't be reached: ") and "missing" not in told and "to do" in told
    assert run(["devices", "check", "off", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["connected"] is False


def test_a_device_whose_key_is_not_known_was_not_reached(file, capsys, monkeypatch):
    def refuse(*_: object) -> None:
        raise NotAdmitted("the host key of pi is not known", advice="connect once: ssh pi")

    monkeypatch.setattr(worker_executor, "_examine_there", refuse)
    assert run(["devices", "add", "pi", "ssh://pi"]) == 0
    assert run(["devices", "check", "pi"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pi can't be reached: the host key of pi is not known"
    assert lines[-1].split(maxsplit=2) == ["to", "do", "connect once: ssh pi"]


def test_engines_that_a_usable_device_lacks_have_one_line(file, capsys, monkeypatch):
    lacking = {name: Availability(False, "not installed", f"pip install {name}") for name in ("litert", "openvino")}
    engines = {"onnxruntime": Availability(True), **lacking}

    def find(device: Device, _: object) -> DeviceCheck:
        return DeviceCheck(device=device, usable=True, engines=engines, missing=missing_engines(engines))

    monkeypatch.setattr(worker_executor, "_examine_there", find)
    assert run(["devices", "add", "pi", "ssh://pi"]) == 0
    assert run(["devices", "check", "pi"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("pi: can measure with onnxruntime\n") and "pip install" not in told
    assert "litert and openvino: --json says why, and what installs it" in told
    lacking_all = {name: state for name, state in engines.items() if not state}
    engines = lacking_all
    assert run(["devices", "check", "pi"]) == 0 and "pip install litert" in capsys.readouterr().out


def test_a_name_that_is_registered_gets_the_new_address_and_what_it_was_is_told(file, capsys):
    for words in (["b", "ssh://b"], ["a", "ssh://a", "--set", "python=p"], ["c", "ssh://c"], ["a", "ssh://d"]):
        assert run(["devices", "add", *words]) == 0
    assert "a replaced in" in (told := capsys.readouterr().err) and "it was ssh://a, python=p" in told
    assert {name: (each.url, dict(each.settings)) for name, each in read_devices(file).items()} == {
        "b": ("ssh://b", {}), "c": ("ssh://c", {}), "a": ("ssh://d", {}),
    }  # fmt: skip


def test_a_setting_that_is_added_keeps_the_others_of_the_same_address(file):
    """The advice after an unknown host key, followed as it was printed, removed the key of the login."""
    for words in (["a", "ssh://a", "--set", "python=p"], ["a", "ssh://a", "--set", "tags=arm"]):
        assert run(["devices", "add", *words]) == 0
    assert dict(read_devices(file)["a"].settings) == {"python": "p", "tags": "arm"}
    assert run(["devices", "add", "a", "ssh://a", "--set", "python=q"]) == 0
    assert dict(read_devices(file)["a"].settings) == {"python": "q", "tags": "arm"}


@pytest.mark.parametrize("words", [["add", "a", "ssh://b"], ["rm", "a"]])
def test_a_device_in_another_form_of_toml_is_left_to_its_author(words, file, capsys):
    file.parent.mkdir()
    file.write_text('a = {url = "ssh://a"}\n')
    assert run(["devices", *words]) == 2
    assert wording("remove-file-hand") in capsys.readouterr().err and read_devices(file)["a"].url == "ssh://a"


def test_a_setting_that_is_given_twice_is_refused(file, capsys):
    assert run(["devices", "add", "a", "ssh://a", "--set", "python=p", "--set", "python=q"]) == 2
    assert re.search(says("given-twice-in-words", name=has("python")), capsys.readouterr().err) and not file.exists()


def test_devices_that_are_added_at_once_are_all_kept(file, capsys):
    def add(number):
        add_device(Device(name=f"d{number}", url=f"ssh://h{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert len(listed(capsys)) == 25


def test_a_byte_order_mark_a_link_and_the_permissions_of_the_file_are_no_obstacle(file, tmp_path, capsys):
    real = tmp_path / "real.toml"
    real.write_bytes(b"\xef\xbb\xbf[a]\nurl = 'ssh://a'\n")
    real.chmod(0o600)
    file.parent.mkdir()
    file.symlink_to(real)
    assert run(["devices", "add", "b", "ssh://b"]) == 0
    assert set(listed(capsys)) == {"local", "a", "b"}
    assert file.is_symlink() and real.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["[a", "a = 1\n", "[a]\nport = 'x'\n", "[a]\nurl = 3\n", "\xff\x00", "a = " + "[" * 50_000]
)
def test_a_damaged_file_is_named(text, file, capsys):
    file.parent.mkdir()
    file.write_text(text, encoding="latin-1")
    assert run(["devices", "list"]) == 2
    assert str(file) in capsys.readouterr().err.replace("\n", "")


def test_unknown_devices_and_schemes_name_the_known_ones():
    assert run(["devices", "add", "board", "ssh://a"]) == 0
    with pytest.raises(Unavailable, match=says("unknown-device", name="bord")) as caught:
        find_device("bord")
    assert wording("did-you-mean-in-devices", near="board") in caught.value.advice
    with pytest.raises(Unavailable, match=says("no-transport", found="pigeon")):
        find_device("pigeon://x")


def test_this_machine_is_checked_without_a_connection(capsys):
    code = run(["devices", "check", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["usable"] == (code == 0) and found["device"]["name"] == "local"
    assert found["engines"]["onnxruntime"]["available"] in (True, False)
