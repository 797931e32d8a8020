"""``edgewise mcp``: what an agent can do through its tools, by the protocol's own client."""

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tiny_models import write_tiny_onnx

pytest.importorskip("mcp", reason="the tools of an agent need the extra mcp")

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from edgewise.cli.mcp.server import make_server

Ask = Callable[..., Awaitable[tuple[bool, str]]]
CHARACTERS_A_TOKEN = 4


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, and a store and locks of its own."""
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("EDGEWISE_LOCKS", str(tmp_path / "locks"))
    write_tiny_onnx(tmp_path / "tiny.onnx")
    return tmp_path


@asynccontextmanager
async def agent(server: Any) -> AsyncIterator[tuple[Client, Ask]]:
    async with Client(server) as client:

        async def ask(tool: str, **arguments: Any) -> tuple[bool, str]:
            answer = await client.call_tool(tool, arguments)
            return not answer.is_error, "\n".join(part.text for part in answer.content)

        yield client, ask


def with_agent(root: Path, talk: Callable[[Client, Ask], Awaitable[None]], **options: bool) -> None:
    async def main() -> None:
        async with agent(make_server(root, **options)) as (client, ask):
            await talk(client, ask)

    anyio.run(main)


def test_the_list_of_tools_takes_less_than_2500_tokens(root: Path) -> None:
    async def talk(client: Client, ask: Ask) -> None:
        tools = (await client.list_tools()).tools
        text = json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])
        assert [tool.name for tool in tools] == [
            "doctor", "inspect", "find_runs", "explain", "start", "wait", "result", "cancel"
        ]  # fmt: skip
        assert len(text) / CHARACTERS_A_TOKEN < 2500

    with_agent(root, talk)


def test_read_only_offers_nothing_that_measures(root: Path) -> None:
    async def talk(client: Client, ask: Ask) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == [
            "doctor", "inspect", "find_runs", "explain"
        ]  # fmt: skip
        assert not (await ask("start", command="bench tiny.onnx"))[0]

    with_agent(root, talk, read_only=True)


@pytest.mark.engine
@pytest.mark.slow
def test_a_model_is_measured_and_found_again(root: Path) -> None:
    pytest.importorskip("onnxruntime")

    async def talk(client: Client, ask: Ask) -> None:
        words = "edgewise bench tiny.onnx -r onnxruntime --iterations 5 --sessions 1"
        assert (await ask("start", command=words))[0]
        while "still running" in (text := (await ask("wait", job="job-1", seconds=300))[1]):
            pass
        assert text.startswith("ended with exit code 0: done")
        ok, text = await ask("result", job="job-1")
        assert ok and "tiny.onnx" in text
        document = json.loads(Path(text.rpartition("JSON: ")[2]).read_text())
        identity = document["runs"][0]["id"]
        assert identity[:13] in (await ask("find_runs", model="tiny"))[1]
        assert "tiny.onnx" in (await ask("explain", topic=identity))[1]

    with_agent(root, talk)


def test_a_mistake_ends_in_the_error_of_the_command_and_its_advice(root: Path) -> None:
    async def talk(client: Client, ask: Ask) -> None:
        ok, text = await ask("start", command="bench tiny.onnx --threds 2")
        assert not ok and "did you mean --threads" in text
        ok, text = await ask("start", command="serve")
        assert not ok and "'serve' can't be started" in text and "bench" in text and "fits" not in text
        ok, text = await ask("start", command="bench 'tiny.onnx")
        assert not ok and "can't be read" in text
        ok, text = await ask("start", command=" edgewise ")
        assert not ok and "name a command" in text
        ok, text = await ask("result", job="job-7")
        assert not ok and "there is no job 'job-7'. Try: start" in text
        ok, text = await ask("inspect", model="--help")
        assert not ok and "no such file: --help" in text
        ok, text = await ask("explain", topic="nothing-of-this-name")
        assert not ok and "there is no store" in text

    with_agent(root, talk)


def test_code_runs_only_where_the_owner_allows_it(root: Path) -> None:
    (root / "net.py").write_text("def make():\n    raise SystemExit\n")
    spoken = root / "spoken"

    async def refuse(client: Client, ask: Ask) -> None:
        for command in (f"exec -- touch {spoken}", "bench net.py:make", "inspect --build net.py:make"):
            ok, text = await ask("start", command=command)
            assert not ok and "this runs code" in text and "--allow-code" in text, command

    async def allow(client: Client, ask: Ask) -> None:
        assert (await ask("start", command=f"exec -- touch {spoken}"))[0]
        while "still running" in (await ask("wait", job="job-1", seconds=300))[1]:
            pass

    with_agent(root, refuse)
    assert not spoken.exists()
    with_agent(root, allow, allow_code=True)
    assert spoken.exists()


def test_a_long_result_comes_in_parts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.cli.mcp.server.PART", 300)

    async def talk(client: Client, ask: Ask) -> None:
        await ask("start", command="inspect tiny.onnx")
        while "still running" in (await ask("wait", job="job-1", seconds=300))[1]:
            pass
        first, second = [(await ask("result", job="job-1", offset=offset))[1] for offset in (0, 300)]
        assert "more characters: offset=300" in first and "tiny.onnx" in first and first != second
        assert "tiny.onnx" not in second.partition("\n")[2].partition("\nJSON")[0]

    with_agent(root, talk)


def test_a_cancelled_job_is_interrupted_as_by_ctrl_c(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewise.cli.mcp.jobs.STOP_S", 600.0)
    begun = root / "begun"

    async def talk(client: Client, ask: Ask) -> None:
        ok, text = await ask("start", command=f"exec -- sh -c 'touch {begun}; exec sleep 100000'")
        assert ok and "is running" in text
        while not begun.exists():
            assert "still running" in (await ask("wait", job="job-1", seconds=0.1))[1]
        ok, text = await ask("result", job="job-1")
        assert not ok and "still running. Try: wait" in text
        ok, text = await ask("cancel", job="job-1")
        assert ok and "130: interrupted" in text

    with_agent(root, talk, allow_code=True)


@pytest.mark.slow
def test_the_command_speaks_over_standard_input_and_output(root: Path) -> None:
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "edgewise", "mcp", "--root", str(root)], env=dict(os.environ)
    )

    async def main() -> None:
        async with agent(stdio_client(command)) as (_, ask):
            ok, text = await ask("inspect", model="tiny.onnx")
            assert ok and "MACs" in text

    anyio.run(main)


def test_a_root_that_is_no_folder_is_an_error(tmp_path: Path) -> None:
    from edgewise.cli.mcp.command import command
    from edgewise.errors import BadInput

    with pytest.raises(BadInput, match="is no folder"):
        command({"root": tmp_path / "none", "read_only": False, "allow_code": False})


def test_a_missing_package_is_named_with_its_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgewise.cli.mcp.command import command
    from edgewise.errors import Unavailable

    monkeypatch.delitem(sys.modules, "edgewise.cli.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    with pytest.raises(Unavailable, match=r"^an agent's tools need mcp\n") as caught:
        command({"root": root, "read_only": False, "allow_code": False})
    assert "edgewise[mcp]" in str(caught.value.advice)
