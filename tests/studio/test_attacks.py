"""What people who are not in the studio, and pages elsewhere, can do to it: nothing. Plain HTTP, by hand."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from urllib.parse import quote

import pytest

from messages import says

pytest.importorskip("starlette")

import sqlalchemy
from raw_http import ask, connect, parse, post, send

from edgewise.errors import BadInput
from edgewise.studio import connections, safety
from edgewise.studio.command import settings_of
from edgewise.studio.forms import Filled
from edgewise.studio.routes import ROUTES
from edgewise.studio.server import check_reach
from edgewise.studio.sessions import Sessions
from edgewise.studio.settings import Settings
from patience import wait_until
from sample_runs import all_runs

READS = [route for route in ROUTES if "GET" in (route.methods or ())]
WRITES = [route for route in ROUTES if "POST" in (route.methods or ())]
PARAMETER = re.compile(r"\{(\w+)(:\w+)?\}")


def fill(route, value: str) -> str:
    """The path of `route` with `value` in each place."""
    return PARAMETER.sub(lambda _: value, route.path)


def names(routes) -> list[str]:
    return [route.path for route in routes]


@pytest.fixture(scope="module")
def studio(serve, tmp_path_factory):
    """A studio with runs and a folder of models, one for all attacks."""
    root = tmp_path_factory.mktemp("models")
    running = serve(roots=(root,))
    for run in all_runs():
        running.store.save(run)
    return running


def sent_safely(answer) -> bool:
    whole = len(answer.all("date")) == 1
    return whole and all(answer.all(name) == [text] for name, text in safety.HEADERS.items())


# The address: other names of this machine lead nowhere, so that a name that an attacker resolves to it does not either.


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1:{port}.evil.example",
        "127.0.0.1.evil.example:{port}",
        "localhost.:{port}",
        "LOCALHOST:{port}",
        "127.1:{port}",
        "2130706433:{port}",
        "0.0.0.0:{port}",
        "[::1]:{port}",
        "[::ffff:127.0.0.1]:{port}",
        "[::ffff:7f00:1]:{port}",
        "127.0.0.1:0{port}",
        "user@127.0.0.1:{port}",
        "127.0.0.1:{port}, evil.example",
        "127.0.0.1:{port}/",
        "127.0.0.1:{port}#evil.example",
    ],
)
def test_only_its_own_address_leads_to_the_studio(studio, host):
    answer = ask(studio, host=host.format(port=studio.settings.port), version="1.1" if host else "1.0")
    assert answer.status == 421
    assert answer.all("set-cookie") == []
    assert sent_safely(answer)


def test_a_request_without_a_host_is_refused(studio):
    assert parse(send(studio, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")).status == 400


def test_two_hosts_are_refused(studio):
    own = studio.url.partition("://")[2]
    assert ask(studio, headers=[f"Host: {own}"]).status == 400
    assert ask(studio, headers=["Host: evil.example"]).status == 400


def test_x_forwarded_headers_change_nothing(studio):
    told = ["X-Forwarded-Host: evil.example", "X-Forwarded-Proto: https", "Forwarded: host=evil.example"]
    answer = ask(studio, headers=told)
    assert answer.status == 200
    assert b"evil.example" not in answer.body
    assert ask(studio, host="evil.example", headers=[f"X-Forwarded-Host: {studio.url[7:]}"]).status == 421


@pytest.mark.parametrize(
    "target", ["http://evil.example/", "https://127.0.0.1/", "*", "evil.example:443", "//evil.example/"]
)
def test_only_paths_are_served(studio, target):
    answer = ask(studio, path=target)
    assert answer.status == 400
    assert b"evil.example" not in answer.body


# Who is in


@pytest.mark.parametrize("route", ROUTES, ids=names(ROUTES))
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_no_route_opens_to_a_browser_that_is_not_in(studio, route, method):
    answer = ask(studio, method, fill(route, "x"), cookie="", headers=[f"Origin: {studio.url}"])
    if route.path == "/enter" and method == "HEAD":
        assert (answer.status, answer.body) == (204, b"")
    elif route.path == "/enter" and method == "POST":
        assert answer.status == 405
    else:
        assert answer.status == 403
    assert answer.all("set-cookie") == []
    assert sent_safely(answer)


def test_what_is_not_there_looks_the_same_from_outside(studio):
    assert ask(studio, path="/nothing", cookie="").status == 403
    assert ask(studio, path="/nothing", cookie="").body == ask(studio, path="/runs", cookie="").body


@pytest.mark.parametrize(
    "forged",
    [
        "{name}=",
        "{name}",
        "{name}={value}x",
        "{name}={short}",
        "{name}={upper}",
        "{name}2={value}",
        "edgewise={value}",
        "edgewise-1={value}",
        "{name}=0000000000000000000000000000000000000000000000000000000000000000",
        "{name}=\xff\xfe",
        'x="{name}={value}"',
    ],
)
def test_a_forged_cookie_lets_nobody_in(studio, forged):
    name, value = studio.cookie
    text = forged.format(name=name, value=value, short=value[:-1], upper=value.upper())
    assert ask(studio, cookie=text).status == 403


def test_cookies_of_other_programs_on_this_host_keep_nobody_out(studio):
    own = "=".join(studio.cookie)
    name = studio.cookie[0]
    for beside in ('{"a":[1]}', "a[b]=c; d", f"{name}=other", '"', "=", "x=" + "y" * 3000):
        assert ask(studio, cookie=f"{beside}; {own}").status == 200
        assert ask(studio, cookie=f"{own}; {beside}").status == 200


def test_two_cookie_headers_are_refused(studio):
    assert ask(studio, headers=["Cookie: a=b"]).status == 400


def test_the_cookie_of_another_port_lets_nobody_in(studio, serve):
    other = serve()
    assert ask(studio, cookie="=".join(other.cookie)).status == 403
    moved = Sessions(other.folder, port=studio.settings.port, secure=False)
    assert ask(studio, cookie=moved.set_cookie().partition(";")[0]).status == 403


def test_the_cookie_is_hidden_from_scripts_and_other_sites(studio):
    answer = ask(studio, path=studio.link().removeprefix(studio.url), cookie="")
    assert answer.status == 200
    attributes = answer.one("set-cookie").split("; ")[1:]
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict", "Max-Age=2592000"]
    assert answer.one("cache-control") == "no-store"
    assert answer.one("referrer-policy") == "same-origin"


def test_a_link_is_used_once(studio):
    path = studio.link().removeprefix(studio.url)
    first, second = ask(studio, path=path, cookie=""), ask(studio, path=path, cookie="")
    assert (first.status, second.status) == (200, 403)
    assert second.all("set-cookie") == []


def test_a_link_is_used_once_by_two_browsers_at_the_same_time(studio):
    path = studio.link().removeprefix(studio.url)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ask(studio, path=path, cookie="").status)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [200] + [403] * 7


@pytest.mark.parametrize("key", ["", "x", "a" * 43, "%00", "é", "%ff%fe", "[]", "../secret"])
def test_no_guess_of_a_link_lets_in(studio, key):
    assert ask(studio, path=f"/enter?key={quote(key, safe='%')}", cookie="").status == 403


def test_two_keys_in_a_link_are_one_guess(studio):
    key = studio.link().partition("=")[2]
    assert ask(studio, path=f"/enter?key={key}&key=x", cookie="").status == 403
    assert ask(studio, path=f"/enter?key={key}", cookie="").status == 200


@pytest.mark.parametrize("purpose", ["prefetch", "prefetch;prerender"])
def test_looking_ahead_does_not_use_a_link_up(studio, purpose):
    path = studio.link().removeprefix(studio.url)
    ahead = ask(studio, path=path, cookie="", headers=[f"Sec-Purpose: {purpose}"])
    assert (ahead.status, ahead.all("set-cookie")) == (204, [])
    assert ask(studio, "HEAD", path, cookie="").all("set-cookie") == []
    assert ask(studio, path=path, cookie="").status == 200


def test_a_browser_can_not_be_given_a_session(studio):
    name, _ = studio.cookie
    answer = ask(studio, path=studio.link().removeprefix(studio.url), cookie=f"{name}=chosen-by-an-attacker")
    assert "chosen" not in answer.one("set-cookie")
    assert ask(studio, cookie=f"{name}=chosen-by-an-attacker").status == 403


def test_a_link_leads_to_the_first_page_and_nowhere_else(studio):
    path = studio.link().removeprefix(studio.url)
    answer = ask(studio, path=f"{path}&next=//evil.example&url=https://evil.example", cookie="")
    assert answer.all("location") == []
    assert b"evil" not in answer.body
    assert b'content="0;url=/"' in answer.body


# Other pages


SITES = ["", "same-origin", "same-site", "cross-site", "none", "SAME-ORIGIN", "same-origin, cross-site"]
ORIGINS = ["", "own", "null", "https://evil.example", "own.evil.example", "http://127.0.0.1", "other name", "tls"]


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("origin", ORIGINS)
def test_only_its_own_pages_write(studio, site, origin):
    text = {
        "own": studio.url,
        "own.evil.example": f"{studio.url}.evil.example",
        "other name": studio.url.replace("127.0.0.1", "localhost"),
        "tls": studio.url.replace("http:", "https:"),
    }.get(origin, origin)
    headers = [f"Origin: {text}"] * bool(origin) + [f"Sec-Fetch-Site: {site}"] * bool(site)
    allowed = (site, origin) in {("", "own"), ("same-origin", ""), ("same-origin", "own")}
    answer = post(studio, "/nothing", headers=headers)
    assert answer.status == (404 if allowed else 403)
    assert sent_safely(answer)


def test_two_origins_are_refused(studio):
    assert post(studio, headers=[f"Origin: {studio.url}", "Origin: https://evil.example"]).status == 400


@pytest.mark.parametrize("route", WRITES, ids=names(WRITES))
def test_no_route_takes_a_form_of_another_page(studio, route):
    before = snapshot(studio)
    for headers in (["Origin: https://evil.example"], ["Origin: null"], ["Sec-Fetch-Site: cross-site"], []):
        assert post(studio, fill(route, "x"), headers=headers).status == 403
    assert snapshot(studio) == before


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "destination"), [("no-cors", "image"), ("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe")]
)
def test_no_page_elsewhere_loads_parts_of_the_studio(studio, site, mode, destination):
    told = [f"Sec-Fetch-Site: {site}", f"Sec-Fetch-Mode: {mode}", f"Sec-Fetch-Dest: {destination}"]
    assert ask(studio, path="/runs", headers=told).status == 403


def test_a_link_on_a_page_elsewhere_leads_to_the_page(studio):
    told = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
    assert ask(studio, path="/runs", headers=told).status == 200
    # Without the strict cookie, which the browser keeps back: the page leads to itself, and then the cookie is there.
    answer = ask(studio, path="/runs?model=%22><script>", headers=told, cookie="")
    assert answer.status == 403
    assert b'content="0;url=/runs?model=%22&gt;&lt;script&gt;"' in answer.body


@pytest.mark.parametrize("route", READS, ids=names(READS))
def test_reading_changes_nothing(studio, route):
    before = snapshot(studio)
    for value in ("x", "0195f0c0-0000-7000-8000-000000000001", "bench"):
        answer = ask(
            studio,
            path=f"{fill(route, value)}?action=delete&_method=DELETE",
            headers=["X-HTTP-Method-Override: DELETE"],
        )
        assert answer.status < 500 or answer.status == 503, answer.body
        assert ask(studio, "HEAD", fill(route, value)).body == b""
    assert snapshot(studio) == before


def snapshot(studio):
    """Rows of all tables of the store, and the files of the studio."""
    engine = sqlalchemy.create_engine(f"sqlite:///{studio.settings.store}")
    tables = sqlalchemy.inspect(engine).get_table_names()
    with engine.connect() as connection:
        rows = {
            name: sorted(map(repr, connection.execute(sqlalchemy.text(f'SELECT * FROM "{name}"')))) for name in tables
        }
    engine.dispose()
    files = {
        str(path): path.lstat().st_size if path.is_file() else None
        for folder in (studio.folder, *studio.settings.roots)
        for path in sorted(folder.rglob("*"))
    }
    return rows, files


# Methods and headers


@pytest.mark.parametrize(
    "method", ["OPTIONS", "TRACE", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND", "get", "POSTX"]
)
def test_other_methods_are_refused(studio, method):
    answer = ask(studio, method, "/", headers=["Origin: https://evil.example", "Access-Control-Request-Method: POST"])
    assert answer.status == 405
    assert answer.one("allow") == "GET, HEAD, POST"
    assert answer.body == b"the studio only takes GET, HEAD and POST\n"


@pytest.mark.parametrize("path", ["/", "/runs", "/nothing", "/static/studio.css", "/static/nothing.js"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_every_answer_has_the_policy_and_none_opens_to_other_origins(studio, path, method):
    for cookie in (None, ""):
        answer = ask(studio, method, path, cookie=cookie, headers=["Origin: https://evil.example", "Content-Length: 0"])
        assert sent_safely(answer)
        assert not any(name.startswith("access-control-") for name, _ in answer.headers)
        assert answer.all("server") == []
        assert [name for name, _ in answer.headers if name.startswith("x-powered")] == []


def test_the_policy_allows_no_inline_script_no_eval_and_no_frame(studio):
    policy = dict(part.split(" ", 1) for part in ask(studio).one("content-security-policy").split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert "unsafe-eval" not in str(policy)


def test_an_error_in_a_view_answers_with_the_policy_and_without_a_traceback(serve):
    from starlette.routing import Route

    running = serve()

    def broken(request):
        raise LookupError("/home/someone/secret.onnx")

    running.app.router.routes.append(Route("/broken", broken))
    answer = ask(running, path="/broken")
    assert answer.status == 500
    assert sent_safely(answer)
    assert b"Traceback" not in answer.body
    assert b"secret" not in answer.body
    assert b"this is a bug in edgewise: LookupError" in answer.body


def test_an_error_tells_no_folder_of_the_machine(serve, monkeypatch):
    from starlette.routing import Route

    running = serve()
    uploads = running.folder / "uploads"

    def broken(request):
        raise BadInput(
            f"can't read {uploads / 'net.onnx'}", advice="see /home/anna/nets/other.onnx, or give ⟦store=PATH⟧"
        )

    running.app.router.routes.append(Route("/broken", broken))
    answer = ask(running, path="/broken")
    assert answer.status == 400
    assert b"<strong>can&#39;t read uploads/net.onnx</strong>" in answer.body
    assert b"<p>see ~/nets/other.onnx, or give --store PATH</p>" in answer.body
    monkeypatch.setattr(
        "edgewise.studio.views.new.Form.fill", lambda *given: Filled(problems={"model": BadInput(f"{uploads}/a.onnx")})
    )
    answer = ask(running, path="/new/bench?show=yes")
    assert answer.body.count(b">uploads/a.onnx</strong>") == 1 and bytes(uploads) not in answer.body
    answer = ask(running, path="/new/bench/command")
    assert json.loads(answer.body) == {"command": "", "problem": "uploads/a.onnx"}


# Paths


HOSTILE = [
    "..",
    "../../../../etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252fetc%252fpasswd",
    "..%5c..%5cetc%5cpasswd",
    "....//....//etc/passwd",
    "%2fetc%2fpasswd",
    "/etc/passwd",
    "file:%2f%2f%2fetc%2fpasswd",
    "x%00.css",
    "%0d%0aSet-Cookie:%20a=b",
    "%ff%fe",
    "%c0%ae%c0%ae%c0%afetc%c0%afpasswd",
    "%F0%9F%98%80" * 300,
    "a" * 5000,
    "-",
    "'%20OR%201=1--",
    "%3Cscript%3Ewindow.__hit=1%3C/script%3E",
    "{{7*7}}",
    "%25s%25s%25n",
    "con.css",
    "9" * 400,
]


@pytest.mark.parametrize("route", [route for route in ROUTES if "{" in route.path], ids=lambda route: route.path)
def test_no_parameter_of_a_path_leads_out(studio, route):
    before = snapshot(studio)
    for value in HOSTILE:
        for method in sorted(route.methods & {"GET", "POST"}):
            answer = ask(studio, method, fill(route, value), headers=[f"Origin: {studio.url}", "Content-Length: 0"])
            assert 400 <= answer.status < 500, (value, answer.body)
            assert b"root:" not in answer.body, value
            assert b"<script>window" not in answer.body, value
            assert answer.all("set-cookie") == [], value
            assert sent_safely(answer), value
    assert snapshot(studio) == before


@pytest.mark.parametrize("route", READS, ids=names(READS))
def test_no_query_splits_an_answer_or_leads_to_another_site(studio, route):
    run = all_runs()[0].id
    for text in (
        "%0d%0aSet-Cookie:%20a=b",
        "//evil.example",
        "https://evil.example",
        "/%5cevil.example",
        ".html%0aX:%20y",
    ):
        query = "&".join(
            f"{name}={text}" for name in ("format", "of", "next", "model", "with", "job", "sort", "columns")
        )
        answer = ask(studio, path=f"{fill(route, run)}?run={run}&{query}")
        assert answer.status < 500, answer.body
        assert not any("a=b" in cookie for cookie in answer.all("set-cookie"))
        assert answer.all("x") == []
        assert not any("evil" in place.partition("?")[0] for place in answer.all("location"))


def test_many_streams_leave_the_server_answering(studio):
    cookie = "=".join(studio.cookie)
    request = f"GET /events HTTP/1.1\r\nHost: {studio.url[7:]}\r\nCookie: {cookie}\r\n\r\n".encode()
    streams = [connect(studio) for _ in range(60)]
    try:
        for stream in streams:
            stream.sendall(request)
        heads = {stream.recv(200).split(b" ", 2)[1] for stream in streams}
        assert heads <= {b"200", b"503"}
        wait_until(lambda: studio.studio.jobs.live.listeners <= 32)
        assert studio.studio.jobs.live.listeners > 0
        assert ask(studio, path="/runs").status == 200
    finally:
        for stream in streams:
            stream.close()


def test_names_of_files_that_are_not_there_are_not_kept_in_memory(studio):
    from edgewise.studio.pages import static_file

    for number in range(300):
        assert ask(studio, path=f"/static/a{number}.css").status == 404
    assert static_file.cache_info().currsize <= 128


# Bodies


def test_a_body_that_says_it_is_too_long_is_refused_before_it_is_sent(studio):
    for length in (2**20 + 1, 10**15, "9" * 5000, "-1", "1e3", "+5", " "):
        answer = ask(studio, "POST", "/nothing", headers=[f"Origin: {studio.url}", f"Content-Length: {length}"])
        assert answer.status in (400, 413)


def test_a_chunked_body_ends_at_the_limit(echo):
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    headers = [f"Origin: {echo.url}", "Transfer-Encoding: chunked", "Content-Type: application/x-www-form-urlencoded"]
    answer = ask(echo, "POST", "/echo", headers=headers, body=chunk * 64 + b"0\r\n\r\n")
    assert answer.status == 413
    assert sent_safely(answer)


def test_a_body_of_the_right_size_arrives(echo):
    assert post(echo, "/echo", body=b"a=" + b"b" * (2**20 - 2)).body == b"1048574"
    assert post(echo, "/echo", body=b"a=" + b"b" * (2**20 - 1)).status == 413


@pytest.fixture(scope="module")
def echo(serve):
    """A studio with a page that reads forms and says how long the values are."""
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    running = serve()

    async def read(request):
        form = await request.form()
        return PlainTextResponse(str(sum(len(str(value)) for value in form.values())))

    running.app.router.routes.append(Route("/echo", read, methods=["POST"]))
    return running


def multipart(*parts: bytes) -> tuple[list[str], bytes]:
    body = b"".join(b"--x\r\n" + part + b"\r\n" for part in parts) + b"--x--\r\n"
    return ["Content-Type: multipart/form-data; boundary=x", f"Content-Length: {len(body)}"], body


FIELD = b'Content-Disposition: form-data; name="a"\r\n\r\nb'


@pytest.mark.parametrize(
    "parts",
    [
        [FIELD] * 15_000,
        [b'Content-Disposition: form-data; name="a"; filename="b"\r\n\r\n'] * 12_000,
        [b"X: " + b"y" * 500_000 + b"\r\n\r\n"],
        [b"X: y\r\n" * 100_000 + b"\r\n"],
        [b'Content-Disposition: form-data; name="' + b"a" * 900_000 + b'"\r\n\r\nb'],
        [b"\r\n\r\nno name"],
    ],
    ids=["fields", "files", "long header", "headers", "long name", "no name"],
)
def test_a_bomb_of_parts_is_refused(echo, parts):
    headers, body = multipart(*parts)
    answer = ask(echo, "POST", "/echo", headers=[f"Origin: {echo.url}", *headers], body=body)
    assert answer.status in (200, 400, 413)
    if answer.status == 200:  # one field, however long its name is
        assert answer.body in (b"1", b"0")
    assert ask(echo).status == 200


def test_a_form_of_many_fields_is_read_or_refused(echo):
    answer = post(echo, "/echo", body=b"&".join([b"a=b"] * 200_000))
    assert answer.status in (200, 400)


def test_a_slow_body_is_cut(echo, monkeypatch):
    monkeypatch.setattr(safety, "PATIENCE_S", 0.3)  # real time: it has to end, on any machine
    headers = [f"Origin: {echo.url}", "Content-Type: application/x-www-form-urlencoded", "Content-Length: 1000"]
    answer = ask(echo, "POST", "/echo", headers=headers, body=b"a")  # and no more
    assert answer.status == 408
    assert answer.one("connection") == "close"


def test_a_silent_connection_is_closed(echo, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_S", 0.3)  # real time: it has to end, on any machine
    assert send(echo, b"") == b""
    assert send(echo, b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ") == b""


def test_a_head_that_drips_is_closed(echo, monkeypatch):
    monkeypatch.setattr(connections, "PATIENCE_S", 0.5)  # real time: it has to end, on any machine
    with connect(echo) as connection, pytest.raises(OSError):
        connection.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: connection.sendall(b"X: y\r\n"))


def answers(echo):
    try:
        return ask(echo).status == 200
    except (OSError, IndexError):
        return False


def test_too_many_connections_leave_the_server_answering(echo, monkeypatch):
    monkeypatch.setattr(connections, "MOST", 20)
    monkeypatch.setattr(connections, "PATIENCE_S", 0.5)  # real time: it has to end, on any machine
    silent = [connect(echo) for _ in range(40)]
    try:
        wait_until(lambda: answers(echo))  # closed at once while the silent ones still have their half second
    finally:
        for connection in silent:
            connection.close()


@pytest.mark.parametrize("size", [70_000, 300_000])
def test_a_head_that_is_too_long_is_refused(studio, size):
    assert ask(studio, headers=[f"X: {'y' * size}"]).status in (400, 431)
    assert ask(studio, path="/" + "a" * size).status in (400, 431)
    assert ask(studio, path="/?" + "a" * size).status in (400, 431)


def test_ten_thousand_headers_are_refused(studio):
    assert ask(studio, headers=[f"X-{number}: y" for number in range(10_000)]).status == 431


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        ["Content-Length: 0", "Content-Length: 44"],
        ["Content-Length: 44", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        ["Content-Length: 0, 44"],
        ["Content-Length: 0x0"],
        ["X: y\rContent-Length: 44"],
        [" Content-Length: 44"],
    ],
    ids=lambda lines: lines[0][:20] + str(len(lines)),
)
def test_no_second_request_hides_in_a_body(studio, lengths):
    own = studio.url.partition("://")[2]
    lines = [
        "POST /nothing HTTP/1.1",
        f"Host: {own}",
        f"Cookie: {'='.join(studio.cookie)}",
        f"Origin: {studio.url}",
        *lengths,
    ]
    raw = send(studio, "\r\n".join(lines).encode() + b"\r\n\r\n0\r\n\r\n" + SMUGGLED)
    assert raw.count(b"HTTP/1.1 ") <= 1
    assert parse(raw).status in (400, 403, 501)


def test_bytes_that_are_no_http_get_a_short_answer(studio):
    for text in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"\x00" * 1000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        raw = send(studio, text)
        assert raw == b"" or (parse(raw).status in (400, 421) and len(raw) < 1500)


def test_a_websocket_is_no_way_in(studio):
    told = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    raw = send(
        studio,
        "\r\n".join(["GET / HTTP/1.1", f"Host: {studio.url[7:]}", "Connection: Upgrade, close", *told]).encode()
        + b"\r\n\r\n",
    )
    assert parse(raw).status == 403


# Files of the studio


def test_the_secret_is_the_owners_alone(tmp_path):
    folder = tmp_path / "runs.studio"
    before = Sessions(folder, port=1, secure=False).set_cookie()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "secret").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert Sessions(folder, port=1, secure=False).set_cookie() == before


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path):
    folder = tmp_path / "runs.studio"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    Sessions(folder, port=1, secure=False)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("planted", ["link", "dangling link", "readable", "short", "long", "empty", "hard"])
def test_a_planted_secret_is_not_used(tmp_path, planted):
    folder = tmp_path / "runs.studio"
    folder.mkdir(mode=0o700)
    elsewhere = tmp_path / "known"
    elsewhere.write_bytes(b"k" * 32)
    elsewhere.chmod(0o600)
    known = Sessions(_folder_with(tmp_path / "known.studio", b"k" * 32), port=1, secure=False).set_cookie()
    secret = folder / "secret"
    if planted == "link":
        secret.symlink_to(elsewhere)
    elif planted == "dangling link":
        secret.symlink_to(tmp_path / "nowhere")
    elif planted == "hard":
        elsewhere.chmod(0o644)
        os.link(elsewhere, secret)
    else:
        secret.write_bytes({"readable": b"k" * 32, "short": b"k" * 31, "long": b"k" * 33, "empty": b""}[planted])
        secret.chmod(0o644 if planted == "readable" else 0o600)
    assert Sessions(folder, port=1, secure=False).set_cookie() != known
    assert not secret.is_symlink()
    assert len(secret.read_bytes()) == 32
    assert elsewhere.read_bytes() == b"k" * 32
    assert not (tmp_path / "nowhere").exists()


def _folder_with(folder, content):
    folder.mkdir(mode=0o700)
    (folder / "secret").write_bytes(content)
    (folder / "secret").chmod(0o600)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused(tmp_path):
    folder = tmp_path / "runs.studio"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    with pytest.raises(BadInput, match=says("studio-folder-belongs-another-user")):
        Sessions(folder, port=1, secure=False)


def test_a_named_pipe_for_a_secret_does_not_hang(tmp_path):
    folder = tmp_path / "runs.studio"
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / "secret", 0o600)
    Sessions(folder, port=1, secure=False)
    assert stat.S_ISREG((folder / "secret").stat().st_mode)


# Reach


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "lab.example.org", "0", "127.0.0.2", "*"])
def test_it_is_not_served_to_other_machines_in_plain_text(tmp_path, host):
    with pytest.raises(BadInput, match=says("host-can-reached-other-machines")) as error:
        check_reach(Settings(host=host, folder=tmp_path))
    assert "--tls-certificate" in error.value.advice


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_tls_needs_a_name_that_browsers_ask_for(tmp_path, host):
    with pytest.raises(BadInput, match=says("host-stands-all-addresses-machine")):
        check_reach(Settings(host=host, folder=tmp_path, certificate=tmp_path / "c", key=tmp_path / "k"))


@pytest.mark.parametrize(
    "proxy",
    [
        "http://lab.example.org",
        "https://lab.example.org/",
        "https://a b",
        "https://u@h",
        "lab",
        "https://h:1:2",
        "https://LAB",
    ],
)
def test_a_proxy_has_an_origin_of_tls(proxy):
    values = {"store": None, "root": None, "tls_certificate": None, "tls_key": None, "host": "127.0.0.1", "port": 1}
    values["metrics"] = False
    with pytest.raises(BadInput, match=says("proxy-no-origin-tls")):
        settings_of({**values, "proxy": proxy})
    assert settings_of({**values, "proxy": "https://lab.example.org:443"}).origin == "https://lab.example.org"


def test_behind_a_proxy_only_its_name_leads_to_the_studio(serve):
    running = serve(origin="https://lab.example.org")
    name, value = running.cookie
    assert name.startswith("__Host-")
    assert "Secure" in running.studio.sessions.set_cookie().split("; ")
    own = f"127.0.0.1:{running.settings.port}"
    assert ask(running, host=own, cookie=f"{name}={value}").status == 421
    assert ask(running, host="lab.example.org", cookie=f"{name}={value}").status == 200
    for origin, status in (("https://lab.example.org", 404), (f"http://{own}", 403), ("http://lab.example.org", 403)):
        answer = post(running, "/nothing", host="lab.example.org", headers=[f"Origin: {origin}"])
        assert answer.status == status


@pytest.mark.parametrize(
    ("settings", "origins"),
    [
        ({"port": 80}, {"http://127.0.0.1", "http://localhost"}),
        ({"port": 8765, "host": "::1"}, {"http://[::1]:8765", "http://localhost:8765"}),
        ({"port": 8765, "host": "localhost"}, {"http://127.0.0.1:8765", "http://localhost:8765"}),
        ({"port": 443, "host": "Lab.example.org", "tls": True}, {"https://lab.example.org"}),
        ({"port": 80, "host": "lab.example.org", "tls": True}, {"https://lab.example.org:80"}),
        ({"port": 8765, "host": "fe80::1", "tls": True}, {"https://[fe80::1]:8765"}),
    ],
)
def test_origins_are_spelt_as_browsers_spell_them(tmp_path, settings, origins):
    tls = settings.pop("tls", False)
    made = Settings(**settings, folder=tmp_path, certificate=tmp_path if tls else None)
    assert made.origins == origins
    assert made.own_origin in origins


def test_tls_works_with_a_certificate_of_ones_own(serve, tmp_path_factory):
    import ssl

    folder = tmp_path_factory.mktemp("tls")
    certificate, key = make_certificate(folder)
    running = serve(certificate=certificate, key=key)
    assert running.url.startswith("https://")
    with running.client(verify=ssl.create_default_context(cafile=str(certificate))) as client:
        assert client.get("/").status_code == 200
        assert sorted(client.get("/").headers) == sorted(client.get("/runs").headers)
    raw = send(running, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert not raw.startswith(b"HTTP/1.1 200")


def test_a_certificate_that_is_none_is_bad_input(tmp_path):
    from edgewise.studio.app import make_app
    from edgewise.studio.server import make_server

    certificate, key = make_certificate(tmp_path)
    certificate.write_text("no certificate")
    settings = Settings(folder=tmp_path / "f", store=str(tmp_path / "runs.db"), certificate=certificate, key=key)
    app = make_app(settings)
    with pytest.raises(BadInput, match=says("tls-does-not-work")):
        make_server(app, settings)
    app.state.studio.store.close()


def make_certificate(folder):
    """A certificate for 127.0.0.1 that its own key signs, and the key."""
    import datetime
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
