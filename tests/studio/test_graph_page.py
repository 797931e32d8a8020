"""The drawn graph in Chromium: colours, folding, search, keyboard, details, two profiles, files."""

import json
import re
from dataclasses import replace

import pytest

from edgewise.cli.main import run as command_line
from edgewise.report.graph import make_graph
from edgewise.report.profile.cells import PARTLY_BELOW
from messages import wording
from sample_profiles import HOSTILE, faster_run, layer_of, many_layers_run, profiled_run, tensor

DIGITS = "digits_cnn.onnx"


@pytest.fixture(scope="module")
def filled(serve):
    """A studio with a small profile, a faster one of the same model, sixty layers in blocks, and five thousand."""
    it = serve()
    for run in (profiled_run(), faster_run(), many_layers_run(24, 60), many_layers_run(25, 5000)):
        it.store.save(run)
    it.flat = flat_run()
    it.store.save(it.flat)
    return it


def flat_run():
    """240 layers in a row with names as exporters of Paddle write them; one takes 3 ms, the others 10 µs."""
    types = ("Conv", "Add", "Clip", "Mul", "Div")
    layers = [
        layer_of(at, f"p2o.{types[at % 5]}.{at // 5}", types[at % 5], 3000.0 if at == 135 else 10.0,
                 inputs=(tensor(f"t{at}", 1),), outputs=(tensor(f"t{at + 1}", 1),))
        for at in range(240)
    ]  # fmt: skip
    return replace(profiled_run(26), layers=tuple(layers))


@pytest.fixture
def show(open_page, filled):
    """Opens a graph and waits until it is drawn."""

    def show(run, rest="", **settings):
        page = open_page(f"/runs/{run.id}/graph{rest}", at=filled, **settings)
        ready(page)
        return page

    return show


def ready(page):
    page.wait_for_selector("#graph-stage[data-drawn]:not([aria-busy])")


def told(page, name):
    return page.get_attribute("#graph-stage", f"data-{name}")


def press(page, *keys):
    page.focus("#graph-stage")
    for key in keys:
        page.keyboard.press(key)
    ready(page)


def details(page):
    """What the panel tells of the selected node: name → text."""
    return dict(
        page.eval_on_selector_all(
            "#graph-rows dt", "all => all.map(one => [one.textContent, one.nextElementSibling.textContent])"
        )
    )


def test_layers_are_coloured_by_what_they_take(show):
    page = show(profiled_run())
    assert (told(page, "layout"), told(page, "visible"), told(page, "metric")) == ("graph", "11", "time")
    press(page, "Home")
    slowest = told(page, "colour")
    press(page, "End")
    assert told(page, "colour") != slowest
    # The canvas has the colour of the selected node at its place.
    painted = page.evaluate(
        """() => {
          const canvas = document.querySelector("#graph-canvas");
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          const found = new Set();
          for (let at = 0; at < data.length; at += 4) found.add(`rgb(${data[at]},${data[at + 1]},${data[at + 2]})`);
          return [...found];
        }"""
    )
    assert slowest in painted and told(page, "colour") in painted
    page.select_option("#graph-metric", "macs")
    assert told(page, "metric") == "macs"
    assert page.inner_text("#graph-ends").split("\n") == ["0", "1.50 M", "6.00 M"]
    assert "5 without a value" in page.inner_text("#graph-lacking")
    page.select_option("#graph-metric", "snr")
    assert wording("run-no-error-per-layer") in page.inner_text("#graph-lacking")


def test_a_click_shows_operators_kernel_and_place_under_the_roof(show):
    page = show(profiled_run(), "#node=0")
    found = details(page)
    assert found["Time"] == "300 µs (95 % interval ± 6 µs)"
    assert found["Source operators"] == f"{' '.join(HOSTILE.split())}, bn1, relu1"
    assert found["Kernel"] == "Conv_nchwc"
    assert found["Intensity"] == wording("operations-per-byte-in-profile-html", significant=30)
    assert found["Attained"] == "40.0 Gop/s"
    assert found["Roof at this intensity"] == "60.0 Gop/s, limited by compute; 66.7 % attained"
    assert found["Inputs"] == "1×49×10×1 float32"
    press(page, "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert details(page)["Time"] == "n/a: the engine removed it"
    press(page, "ArrowRight")
    assert details(page)["MACs"] == "n/a: no formula for the custom operator 'Whirl'"
    press(page, "Escape")
    assert page.is_visible("#graph-none")
    box = page.locator("#graph-canvas").bounding_box()
    # The drawing is centred, and its first node is at the top.
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 30)
    assert told(page, "chosen") == "0"
    press(page, "Escape", "Home", "ArrowDown")
    assert told(page, "chosen") == "2"  # the layer that takes its tensor
    assert "(95 % interval ± " in page.inner_text("#graph-told")


def test_keys_walk_along_edges_and_through_the_order(show):
    page = show(many_layers_run(24, 60))
    press(page, "Home")
    assert told(page, "chosen") == "0"
    press(page, "ArrowDown", "ArrowDown")
    assert told(page, "chosen") == "2"
    press(page, "ArrowUp")
    assert told(page, "chosen") == "1"
    press(page, "ArrowRight", "ArrowRight")
    assert told(page, "chosen") == "3"
    press(page, "ArrowLeft")
    assert told(page, "chosen") == "2"
    press(page, "End")
    assert told(page, "chosen") == "59"
    press(page, "/")
    assert page.evaluate("document.activeElement.id") == "graph-search"


def test_enter_folds_a_block_and_unfolds_it(show):
    page = show(many_layers_run(24, 60))
    press(page, "Home", "Enter")
    assert told(page, "visible") == "57"
    found = details(page)
    assert page.inner_text("#graph-name") == "block_0"
    assert found["Layers"] == "4"
    assert found["Time"] == "40.0 µs (95 % interval ± 0.8 µs)"
    assert page.inner_text("#graph-fold") == "Unfold this block"
    address = page.url
    press(page, "Enter")
    assert told(page, "visible") == "60"
    # The address shows the same again.
    page.goto("about:blank")
    page.goto(address)
    ready(page)
    assert (told(page, "visible"), told(page, "chosen")) == ("57", "60")
    press(page, "Escape")
    assert page.is_visible("#graph-none")


def test_search_finds_layers_in_folded_blocks(show):
    page = show(many_layers_run(25, 5000))
    assert int(told(page, "visible")) <= 400
    page.fill("#graph-search", "conv_4321 relu")
    assert page.inner_text("#graph-found").startswith("1 of 5000 match")
    page.press("#graph-search", "Enter")
    ready(page)
    assert told(page, "chosen") == "4321"
    assert page.inner_text("#graph-name") == "block_1080/conv_4321"
    page.fill("#graph-search", "no such layer")
    assert page.inner_text("#graph-found").startswith("0 of 5000")


@pytest.mark.long
def test_more_than_400_nodes_stand_in_the_order_of_execution(show):
    run = many_layers_run(25, 5000)
    graph = make_graph([run])
    flips = ".".join(str(block) for block in range(5000, 5000 + 1347) if block not in graph.opened)
    page = show(run, f"#flip={flips}")
    assert (told(page, "layout"), told(page, "visible")) == ("lane", "5000")
    press(page, "Home", "ArrowRight", "ArrowDown")
    assert told(page, "chosen") == "2"
    press(page, "+", "-", "0", "Shift+ArrowLeft")


@pytest.mark.long
def test_flame_and_timeline_have_blocks_over_their_layers(show):
    page = show(many_layers_run(24, 60), "#view=flame")
    assert (told(page, "layout"), told(page, "visible")) == ("flame", "75")
    press(page, "Home")
    assert page.inner_text("#graph-name") == "block_0"
    press(page, "ArrowDown")
    assert told(page, "chosen") == "0"
    press(page, "ArrowUp", "Enter")
    assert told(page, "visible") == "71"
    page.select_option("#graph-view", "timeline")
    assert told(page, "layout") == "timeline"
    page = show(profiled_run(), "#view=timeline")
    assert told(page, "visible") == "7"  # two have no time, two no place in time


def test_two_profiles_on_one_graph(show):
    page = show(profiled_run(), f"?with={faster_run().id}")
    assert (told(page, "metric"), told(page, "visible")) == ("change", "11")
    page.fill("#graph-search", "pw1")
    page.press("#graph-search", "Enter")
    found = details(page)
    assert found["openvino is"] == "faster"
    assert found["Difference of time"] == "−100 µs (95 % interval ± 9 µs)"
    faster = told(page, "colour")
    page.fill("#graph-search", "reorder")
    page.press("#graph-search", "Enter")
    assert details(page)["openvino is"] == "unpaired: only in onnxruntime; no claim is made"
    assert details(page)["Difference of time"] == details(page)["Time: openvino"] == "n/a: only in onnxruntime"
    assert details(page)["Kernel"] and "before" not in " ".join(details(page)).lower()
    assert page.is_visible("text=only in one of the runs")
    ramp, strong = page.evaluate(
        """async () => {
          const { scaleOf } = await import("/static/graph_draw.js");
          const { ramp } = scaleOf("change", [-1, 1], matchMedia("(prefers-color-scheme: dark)").matches);
          return [ramp.map(({ fill }) => fill), ramp[0].fill];
        }"""
    )
    assert faster == strong and told(page, "colour") and told(page, "colour") not in ramp
    assert page.inner_text("#graph-ends").split("\n") == ["−100 µs", "0", "100 µs"]
    page.select_option("#graph-metric", "after")
    assert told(page, "metric") == "after"


def test_a_time_below_a_bound_is_drawn_as_a_bound(show, filled):
    first = of_chain(27, 50, bounded=30)
    second = replace(of_chain(28, 50, bounded=30, clear=20), job=first.job)
    for run in (first, second):
        filled.store.save(run)
    page = show(first, "#node=30")
    assert details(page)["Time"].startswith("< 2.00 µs: its time is less")
    page = show(first, f"?with={second.id}#node=30")
    assert details(page)["Change of time"].startswith("−2.00 to +2.04 µs: a time in it is less")
    page = show(first, f"?with={second.id}")
    page.mouse.click(*centre_of(page))
    assert page.inner_text("#graph-name") == "conv20"  # the largest clear change


def test_work_that_only_one_run_has_sets_no_colour_scale(show, filled):
    first, second = of_chain(33, 5, clear=1), of_chain(34, 5)
    long = replace(layer_of(5, "alone", "Sigmoid", 900.0), inputs=(tensor("t5", 1),))
    for run in (first := replace(first, layers=(*first.layers, long)), second):
        filled.store.save(run)
    page = show(first, f"?with={second.id}#node=5")
    assert page.inner_text("#graph-ends").split("\n") == ["−10.0 µs", "0", "10.0 µs"]
    assert page.inner_text("#graph-lacking") == ""
    row = page.locator("table.layers tbody tr", has_text="alone").inner_text().split("\t")
    assert row == ["alone", "–", "unpaired", "only in Before", "900 ± 18", "none", "–", "Sigmoid"]


def test_an_added_layer_has_its_colour_on_the_scale(show, filled):
    """It was purple like work that may be in other rows, though the table counts its whole time as the change."""
    first, second = of_chain(36, 5), of_chain(37, 6)
    model = replace(first.job.model, name="more.onnx", sha256="f" * 64)
    for run in (first, second := replace(second, job=replace(second.job, model=model))):
        filled.store.save(run)
    page = show(first, f"?with={second.id}#node=5")
    assert page.inner_text("#graph-ends").split("\n") == ["−10.0 µs", "0", "10.0 µs"]
    assert details(page)["Verdict"] == "added"
    assert details(page)["Change of time"].startswith("+10.0 µs (95 % interval ")
    strongest = """async () => {
      const { scaleOf } = await import("/static/graph_draw.js");
      return scaleOf("change", [-1, 1], matchMedia("(prefers-color-scheme: dark)").matches).ramp.at(-1).fill;
    }"""
    assert told(page, "colour") == page.evaluate(strongest)
    assert page.is_hidden("#graph-alone")
    page.select_option("#graph-metric", "time")
    assert page.is_visible("#graph-alone")


def test_above_the_drawing_stands_whose_values_it_shows(show):
    page = show(profiled_run())
    assert page.inner_text("#graph-shows") == "Colours: Time (onnxruntime/cpu)"
    assert page.locator("#graph-shows").bounding_box()["y"] < page.locator("#graph-stage").bounding_box()["y"]
    page = show(profiled_run(), f"?with={faster_run().id}")
    assert page.inner_text("#graph-shows") == "Colours: Difference of time (openvino less onnxruntime)"
    page.select_option("#graph-view", "flame")
    shown = "Colours: Difference of time (openvino less onnxruntime); widths: Time (onnxruntime)"
    assert page.inner_text("#graph-shows") == shown
    page.select_option("#graph-metric", "after")
    assert page.inner_text("#graph-shows") == "Colours and widths: Time (openvino)"


def test_a_profile_leads_to_those_of_the_same_command(show, filled):
    one, other = (replace(run, group="01a2-b") for run in (profiled_run(41), faster_run(42)))
    for run in (one, other):
        filled.store.save(run)
    page = show(one)
    page.click("text=Show openvino/cpu")
    ready(page)
    assert page.url.endswith(f"/runs/{other.id}/graph")
    assert page.inner_text("#graph-shows") == "Colours: Time (openvino/cpu)"


def test_a_block_with_a_bounded_layer_shows_both_ends(show, filled):
    run = replace(many_layers_run(35, 8))
    layers = list(run.layers)
    layers[1] = replace(layers[1], time=1e-6, low=0.0, high=2e-6)
    filled.store.save(run := replace(run, layers=tuple(layers)))
    page = show(run, "#node=8")
    assert page.inner_text("#graph-name") == "block_0"
    assert details(page)["Time"] == f"30.0 to 32.0 µs: {PARTLY_BELOW}"
    press(page, "Enter")
    page.evaluate('() => { URL.createObjectURL = (blob) => { window.made = blob.text(); return "#"; }; }')
    page.click("#graph-svg")
    assert "30.0 to 32.0 µs" in page.evaluate("window.made")


def test_a_narrow_screen_shows_difference_and_verdict_of_each_layer(show):
    page = show(profiled_run(), f"?with={faster_run().id}", viewport={"width": 400, "height": 800})
    heads = page.locator("table.layers thead th")
    assert heads.all_inner_texts()[:3] == ["Layer", "Difference (µs)", "openvino is"]
    for index in (1, 2):
        box = heads.nth(index).bounding_box()
        assert box["x"] + box["width"] <= 400


def test_without_a_clear_change_the_drawing_opens_at_the_input(show, filled):
    first, second = of_chain(29, 50), of_chain(30, 50, late=49)
    for run in (first, second):
        filled.store.save(run)
    page = show(first, f"?with={second.id}")
    box = page.locator("#graph-canvas").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 25)  # without empty space above
    assert page.inner_text("#graph-name") == "conv0"


def of_chain(number, count, *, bounded=-1, clear=-1, late=-1):
    """Layers of 10 µs one after the other; one below a bound, one of twice the time, and one whose time is less certain."""
    layers = [
        layer_of(at, f"conv{at}", "Conv", 20.0 if at == clear else 10.0, macs=100,
                 inputs=(tensor(f"t{at}", 1),), outputs=(tensor(f"t{at + 1}", 1),))
        for at in range(count)
    ]  # fmt: skip
    if bounded >= 0:
        layers[bounded] = replace(layers[bounded], time=1e-6, low=0.0, high=2e-6)
    if late >= 0:
        layers[late] = replace(layers[late], time=15e-6, low=5e-6, high=25e-6)
    return replace(profiled_run(number), layers=tuple(layers))


@pytest.mark.long
def test_files_of_what_is_shown(show):
    page = show(profiled_run())
    files = {}
    for name in ("csv", "svg", "png"):
        with page.expect_download() as download:
            page.click(f"#graph-{name}")
        files[name] = download.value.path().read_bytes()
    rows = files["csv"].decode().splitlines()
    assert len(rows) == 12
    assert rows[0].startswith("name,op,block,time (s),share (1),memory (B)")
    assert "'=HYPERLINK(A1),Gemm,,0.00006,0.06,70000" in rows[7]
    assert files["png"].startswith(b"\x89PNG")
    drawing = files["svg"].decode()
    assert drawing.count("<rect") >= 12
    assert "<script" not in drawing and "pw1" in drawing


def test_a_large_graph_of_flat_names_opens_readable_at_its_hottest_part(show, filled):
    page = show(filled.flat)
    # Two hundred and forty names such as p2o.Conv.58 in parts of the order, the hottest one unfolded.
    assert told(page, "visible") == "33"
    opened = page.evaluate("JSON.parse(document.getElementById('graph-data').textContent)")
    assert [opened["names"][block] for block in opened["opened"]] == ["part 14: p2o.Conv.27"]
    page.mouse.click(*centre_of(page))
    assert page.inner_text("#graph-name") == "p2o.Conv.27"
    assert details(page)["Type"] == "Conv"
    page.evaluate(
        """() => {
          URL.createObjectURL = (blob) => { window.made = blob.text(); return "#"; };
        }"""
    )
    page.click("#graph-svg")
    made = page.evaluate("window.made")
    assert "Conv · 3000 µs" in made and not re.search(r">[^<]*\d (ns|ms|s)<", made)


def centre_of(page):
    box = page.locator("#graph-canvas").bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_pieces_of_a_block_in_the_flame_view_have_their_own_time(show):
    page = show(profiled_run())
    pieces = page.evaluate(
        """async () => {
          const { flame } = await import("/static/graph_places.js");
          const tree = { count: 3, above: (id) => (id === 1 ? [] : [3]), isBlock: (id) => id === 3, isOpen: () => false };
          return flame(tree, [1, 2, 4], null).items.map(({ id, piece }) => [id, piece ?? null]);
        }"""
    )
    assert pieces == [[3, 1], [1, None], [3, 4]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_nodes_can_be_read_in_both_themes(show, scheme):
    page = show(profiled_run(), color_scheme=scheme)
    least = page.evaluate(
        """async () => {
          const { scaleOf } = await import("/static/graph_draw.js");
          const light = (colour) => {
            const parts = colour.match(/\\w\\w(?=\\w*$)|\\d+/g).map(Number);
            const linear = parts.slice(0, 3).map((part) => part / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
          };
          const ink = (colour) => light(colour === "#ffffff" ? "rgb(255,255,255)" : "rgb(0,0,0)");
          const dark = matchMedia("(prefers-color-scheme: dark)").matches;
          const ratios = ["time", "change"].flatMap((key) => scaleOf(key, [-1, 0, 1], dark).ramp).map(({ fill, ink: own }) => {
            const [a, b] = [light(fill), ink(own)].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
          });
          return [ratios.length, Math.min(...ratios)];
        }"""
    )
    assert least[0] == 128
    assert least[1] >= 4.5


@pytest.mark.long
def test_a_narrow_screen_has_no_sideways_scrolling(show):
    page = show(profiled_run(), viewport={"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    press(page, "Home")
    assert page.is_visible("#graph-name")
    page = show(profiled_run(), f"?with={faster_run().id}", viewport={"width": 400, "height": 800})
    assert page.locator("#graph-stage").bounding_box()["y"] < 500  # on the first screen, below the answer


@pytest.mark.long
def test_rows_of_the_table_are_low_on_a_narrow_screen(show):
    page = show(profiled_run(), viewport={"width": 400, "height": 800})
    rows = page.locator("table.layers tbody tr")
    heights = [rows.nth(at).bounding_box()["height"] for at in range(rows.count())]
    assert max(heights) < 100  # three lines of a name, or of a reason with its n/a
    name = page.locator("table.layers tbody th a", has_text="MobilenetV2/expanded_conv_7")
    assert name.get_attribute("title") == name.text_content()


def test_without_a_script_the_table_is_there(open_page, filled):
    page = open_page(f"/runs/{profiled_run().id}/graph", at=filled, java_script_enabled=False)
    assert page.locator("table.layers tbody tr").count() == 11
    assert not page.is_visible("#graph-part")
    assert page.is_visible("text=the engine has no event for it")
    page.fill("#with", faster_run().id)
    page.click("text=Show the change")
    assert re.search(r"with=0195", page.url)
    assert page.is_visible("text=Differences, the largest first")


@pytest.mark.engine
@pytest.mark.long
def test_a_real_profile_is_drawn(show, filled):
    from importlib.resources import files

    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = str(files("edgewise").joinpath("data", DIGITS))
    settings = ["-r", "onnxruntime", "--iterations", "20", "--sessions", "1", "--store", filled.settings.store]
    assert command_line(["profile", model, *settings, "--quiet"]) == 0
    run = filled.store.get("last")
    page = show(run)
    assert told(page, "layout") == "graph"
    assert int(told(page, "visible")) == sum(1 for _ in run.layers)
    page.fill("#graph-search", "conv")
    page.press("#graph-search", "Enter")
    found = details(page)
    assert "Conv" in found["Source operators"]
    # On a busy machine the time of a layer can be less than the profiler can tell.
    ways = r"[\d.]+ (µs|ms|ns) \(95 % interval .+\)", r"< [\d.]+ (µs|ms|ns): .+ an upper bound"
    assert re.fullmatch("|".join(ways), found["Time"])
    data = json.loads(page.evaluate("document.getElementById('graph-data').textContent"))
    assert len(data["edges"]) // 2 >= len([layer for layer in run.layers if layer.kind == "operator"]) - 1


def test_a_layout_that_fails_leaves_the_order_of_execution(open_page, filled):
    page = open_page("/runs", at=filled, expect=("status of 404", "net::ERR_FAILED"))
    page.route("**/vendor/dagre.js", lambda route: route.abort())
    page.goto(f"{filled.url}/runs/{profiled_run().id}/graph")
    ready(page)
    assert told(page, "layout") == "lane"
    assert "order of execution" in page.inner_text("#graph-note")


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_as_one_file_draws_the_graph(open_page, filled, browser, tmp_path, width):
    address = f"/share?of=/runs/{profiled_run().id}/graph"
    with filled.client() as client:
        path = tmp_path / "graph.html"
        path.write_bytes(client.get(address).raise_for_status().content)
    context = browser.new_context(offline=True, viewport={"width": width, "height": 900})
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(path.as_uri())
    ready(page)
    assert (told(page, "layout"), told(page, "visible")) == ("graph", "11")
    press(page, "Home", "ArrowDown")
    assert told(page, "chosen") == "2"
    page.fill("#graph-search", "softmax")
    page.press("#graph-search", "Enter")
    assert details(page)["Type"] == "Softmax"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints == []
    context.close()
