"""The explorer in a real browser: its answers are the package's, and everyone can use it."""

import json
import re
from functools import cache, partial

import numpy as np
import pytest
from pages import CHAPTERS, SITE, soup
from visit import PATIENCE, PHONE

from companion.drawing import plane_grid
from companion.explorer import VARIABLE
from lvqrej import (
    DecisionDistance,
    ProbabilisticCertainty,
    PrototypeModel,
    RelativeSimilarity,
    explain,
    explain_per_class,
)

PAGE = "book/explorer.html"
#: The page looks for the nearest point itself, without room for noise, and does not speak of it.
explain, explain_per_class = (partial(call, noise=0) for call in (explain, explain_per_class))
BOUNDARY = ", and it lies on the boundary itself, where noise may undo it"
#: The middle ones reject about a fifth of the wines.
THRESHOLDS = {
    "similarity": (0.02, 0.3, 0.6446, 0.8, 0.98),
    "distance": (0.02, 0.2393, 0.5, 0.9, 1.5),
    "probability": (0.6, 0.8526, 0.94),
}
#: Points along each axis: the certified search takes a hundred times longer than the exact ones.
ALONG = {"similarity": 6, "distance": 6, "probability": 4}
CASES = [(key, theta) for key, thetas in THRESHOLDS.items() for theta in thetas]
TOLERANCE = 1e-6
NUMBER = re.compile(r"-?\d[\d.e-]*")

READ = """([key, theta, points]) => points.map(x => {
  const answer = window.lvqrejExplorer.set(key, theta, x);
  const text = selector => [...document.querySelectorAll(selector)].map(part => part.textContent);
  const said = text('.explorer-sentence')[0].replaceAll('−', '-');
  return {...answer, said, costs: text('.explorer-classes td:nth-child(2)')};
})"""


@cache
def exported():
    """Return the data that the page computes with; another training could differ in the last digits."""
    text = (SITE / "_static/explorer-data.js").read_text(encoding="utf-8")
    return json.loads(re.fullmatch(rf"window\.{VARIABLE} = (.*);\n", text).group(1))


@cache
def option_of(key):
    data = exported()
    if key != "probability":
        make = {"similarity": RelativeSimilarity, "distance": DecisionDistance}[key]
        return make(model_of(data["model"]))
    (record,) = (record for record in data["options"] if record["key"] == key)
    models = {tuple(pair["classes"]): model_of(pair) for pair in record["pairs"]}
    return ProbabilisticCertainty.from_pairs(models, record["alpha"], record["beta"], data["classes"])


def model_of(record):
    return PrototypeModel(record["prototypes"], record["labels"], record["L"], exported()["features"])


def points_of(key):
    data = exported()
    return np.vstack([data["start"], plane_grid(data["limits"], ALONG[key])[0].round(2)])


@pytest.fixture(scope="module")
def explorer(context, address):
    page = context.new_page()
    page.goto(address + PAGE)
    page.wait_for_function("window.lvqrejExplorer")
    yield page
    page.close()


@pytest.fixture
def fresh(explorer):
    """Return the page as it is at first."""
    explorer.evaluate(
        "([key, theta, x]) => window.lvqrejExplorer.set(key, theta, x)",
        ["similarity", THRESHOLDS["similarity"][2], exported()["start"]],
    )
    return explorer


def state(page):
    page.evaluate("() => new Promise(requestAnimationFrame)")
    return page.evaluate("() => window.lvqrejExplorer.get()")


def centre(page, selector):
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize(("key", "theta"), CASES)
def test_answers_are_those_of_the_package(explorer, key, theta):
    option, points = option_of(key), points_of(key)
    shown = explorer.evaluate(READ, [key, float(theta), points.tolist()])
    np.testing.assert_allclose(
        [answer["certainty"] for answer in shown], option.certainty(points), rtol=1e-12
    )
    for k, (label, whys) in enumerate(explain_per_class(option, theta, points).items()):
        for i, answer in enumerate(shown):
            other = answer["alternatives"][k]
            assert (other is not None) == whys.found[i]
            if other is None:
                assert answer["costs"][k] == "cannot be"
                continue
            there = np.array([other["point"]])
            assert option.accepts(there, theta)[0]
            assert option.predict(there)[0] == label
            distance = np.abs(there[0] - points[i]).sum()
            assert other["distance"] == pytest.approx(distance, abs=1e-12)
            assert answer["costs"][k] == ("0" if distance == 0 else f"{distance:.3f}")
            # The explorer may find what the certified search, which stops at a gap, has not.
            assert whys.lower_bounds[i] - TOLERANCE <= distance <= whys.distances[i] + TOLERANCE
            if key != "probability":
                np.testing.assert_allclose(there[0], whys.counterfactuals[i], atol=TOLERANCE)


@pytest.mark.parametrize(("key", "theta"), [case for case in CASES if case[0] != "probability"])
def test_sentence_is_that_of_the_package(explorer, key, theta):
    option, points = option_of(key), points_of(key)[::3]
    shown = explorer.evaluate(READ, [key, float(theta), points.tolist()])
    for answer, why in zip(shown, explain(option, theta, points), strict=True):
        text = str(why).removesuffix(BOUNDARY).replace("−", "-")
        assert answer["said"].lower() == f"{answer['sentence']}.".lower()
        if "about" not in answer["sentence"]:
            assert answer["sentence"] == text
            continue
        # In a corner the package shows all digits, the explorer three decimals.
        assert max(len(number) for number in NUMBER.findall(text)) > 9
        for ours, its in zip(NUMBER.findall(answer["sentence"]), NUMBER.findall(text), strict=True):
            assert float(ours) == pytest.approx(float(its), abs=0.00051)
        assert NUMBER.sub("", answer["sentence"].replace("about ", "")) == NUMBER.sub("", text)


def test_probabilistic_sentence_claims_no_proof(explorer):
    option, theta = option_of("probability"), THRESHOLDS["probability"][1]
    (answer,) = explorer.evaluate(READ, ["probability", float(theta), [exported()["start"]]])
    said = str(explain(option, theta, np.array(exported()["start"]))).removesuffix(BOUNDARY).replace("−", "-")
    expected = re.sub(r"; a change at most .* smaller might suffice$", "", said)
    assert answer["sentence"] == f"{expected}; no smaller change was found"
    (answer,) = explorer.evaluate(READ, ["probability", 0.97, [exported()["start"]]])
    assert answer["nearest"] is None
    assert answer["sentence"].endswith("no input reaches 0.97: lower the threshold")


def test_mouse_drags_the_point(fresh):
    x, y = centre(fresh, ".explorer-handle")
    fresh.mouse.move(x + 3, y - 2)
    fresh.mouse.down()
    fresh.mouse.move(x + 43, y - 42, steps=4)
    fresh.mouse.up()
    after = state(fresh)
    moved = centre(fresh, ".explorer-handle")
    assert np.hypot(moved[0] - x - 40, moved[1] - y + 40) < 1.5
    assert after["x"][0] > exported()["start"][0] + 0.3
    assert after["x"][1] > exported()["start"][1] + 0.3
    assert after["sentence"].split(":")[0] in fresh.locator(".explorer-sentence").inner_text().lower()
    fresh.mouse.move(x - 60, y - 160)
    assert state(fresh)["x"] == after["x"]


def test_mouse_click_elsewhere_moves_the_point_there(fresh):
    x, y = centre(fresh, ".explorer-plane canvas")
    fresh.mouse.click(x + 50, y + 90)
    state(fresh)
    moved = centre(fresh, ".explorer-handle")
    assert np.hypot(moved[0] - x - 50, moved[1] - y - 90) < 1.5


def test_keyboard_moves_point_threshold_and_certainty(fresh):
    fresh.locator(".explorer-handle").focus()
    fresh.keyboard.press("ArrowRight")
    state(fresh)
    fresh.keyboard.press("Shift+ArrowUp")
    np.testing.assert_allclose(state(fresh)["x"], np.add(exported()["start"], [0.05, 0.5]), atol=0.011)
    fresh.locator("#explorer-theta").focus()
    fresh.keyboard.press("End")
    assert state(fresh)["theta"] == pytest.approx(0.98, abs=0.005)
    fresh.locator("input[value=similarity]").focus()
    fresh.keyboard.press("ArrowRight")
    assert state(fresh)["option"] == "distance"
    fresh.locator("[aria-label='flavanoids now']").fill("1.5")
    assert state(fresh)["x"][0] == 1.5
    fresh.get_by_role("button", name="Start again").click()
    assert state(fresh)["x"] == exported()["start"]


def test_fingers_drag_the_cross_tap_the_plane_and_scroll_the_page(context, address):
    phone = context.browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=3)
    phone.set_default_timeout(PATIENCE)
    page = phone.new_page()
    page.goto(address + PAGE)
    page.wait_for_function("window.lvqrejExplorer")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    canvas = page.locator(".explorer-plane canvas")
    canvas.scroll_into_view_if_needed()
    assert page.evaluate("document.querySelector('.explorer-plane canvas').width") > 900  # crisp
    touch = phone.new_cdp_session(page)

    def swipe(x, y, dx, dy):
        for k in range(6):
            kind = "touchStart" if k == 0 else "touchMove"
            spot = {"x": x + dx * k / 5, "y": y + dy * k / 5}
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [spot]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        return state(page)["x"]

    x, y = centre(page, ".explorer-handle")
    dragged = swipe(x, y, 60, -70)
    moved = centre(page, ".explorer-handle")
    assert np.hypot(moved[0] - x - 60, moved[1] - y + 70) < 1.5
    assert dragged != exported()["start"]
    x, y = centre(page, ".explorer-plane canvas")
    page.touchscreen.tap(x + 40, y + 90)
    page.wait_for_function("x => String(window.lvqrejExplorer.get().x) !== String(x)", arg=dragged)
    tapped = state(page)["x"]
    # A finger beside the cross does not move it: it does nothing sideways, and scrolls.
    assert swipe(x - 70, y + 60, 90, 0) == tapped
    before = page.evaluate("window.scrollY")
    assert swipe(x - 70, y + 60, 0, -120) == tapped
    page.wait_for_function("before => window.scrollY > before", arg=before)
    phone.close()


def test_redraws_with_the_theme(fresh):
    rim = """() => {
      const canvas = document.querySelector('.explorer-plane canvas');
      const [x, y] = [45, 100].map(value => Math.floor(value * canvas.width / canvas.clientWidth));
      return canvas.getContext('2d').getImageData(x, y, 1, 1).data[0];
    }"""
    shades = {}
    for scheme in ("dark", "light"):
        fresh.emulate_media(color_scheme=scheme)
        fresh.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
        state(fresh)
        shades[scheme] = fresh.evaluate(rim)
    assert shades["dark"] > 150
    assert shades["light"] < 100


def test_text_alternative_follows_the_picture(fresh):
    status = fresh.get_by_role("status")
    assert status.inner_text().startswith("Rejected: relative similarity")
    where = fresh.get_by_role("img", name="Map of the relative similarity").get_attribute("aria-label")
    assert "the nearest accepted point at flavanoids −0.44, colour intensity −0.57" in where
    assert fresh.locator(".explorer-static").is_hidden()


def test_a_star_outside_the_picture_has_an_arrow_at_the_rim_and_words(fresh):
    gold = """() => {
      const canvas = document.querySelector('.explorer-plane canvas');
      const dense = canvas.width / canvas.clientWidth;
      const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      const rows = [];
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === 255 && data[at + 1] === 215 && data[at + 2] === 0) {
          rows.push(Math.floor(at / 4 / canvas.width) / dense);
        }
      }
      return {rows, height: canvas.clientHeight};
    }"""
    words, note = fresh.locator(".explorer-plane canvas"), fresh.locator(".explorer-outside")
    assert "outside" not in words.get_attribute("aria-label")
    assert note.is_hidden()
    (low, _), start = exported()["limits"][1], exported()["start"]
    (answer,) = fresh.evaluate(READ, ["distance", THRESHOLDS["distance"][-1], [start]])
    assert answer["nearest"]["point"][1] < low
    label = words.get_attribute("aria-label")
    assert label.endswith("colour intensity −2.39, outside the picture.")
    assert note.is_visible()
    drawn = fresh.evaluate(gold)
    assert len(drawn["rows"]) > 50
    bottom = drawn["height"] - 44  # the axis and its name are below
    assert bottom - 30 < min(drawn["rows"]) < max(drawn["rows"]) < bottom


def test_tables_fit_the_narrowest_phone(context, address):
    phone = context.browser.new_context(viewport={"width": 320, "height": 640})
    phone.set_default_timeout(PATIENCE)
    page = phone.new_page()
    page.goto(address + PAGE)
    page.wait_for_function("window.lvqrejExplorer")
    outside = """() => [...document.querySelectorAll('.explorer :is(th, td)')].filter(cell => {
      const content = document.createRange();
      content.selectNodeContents(cell);
      const [inner, outer] = [content, cell].map(part => part.getBoundingClientRect());
      return inner.width > 0 && (inner.left < outer.left - 0.5 || inner.right > outer.right + 0.5);
    }).map(cell => cell.textContent)"""
    for key, thetas in THRESHOLDS.items():
        page.evaluate(READ, [key, thetas[-1], [exported()["start"]]])
        assert page.evaluate(outside) == []
    assert page.evaluate("document.documentElement.scrollWidth") == 320
    phone.close()


def test_without_scripts_there_are_a_picture_and_the_answers_as_text(context, address):
    plain = context.browser.new_context(java_script_enabled=False)
    plain.set_default_timeout(PATIENCE)
    page = plain.new_page()
    page.goto(address + PAGE)
    words = page.locator(".explorer-static").inner_text()
    assert page.locator(".explorer-static img").is_visible()
    plain.close()
    for key in THRESHOLDS:
        assert option_of(key).name in words
    assert "it would be accepted as B if colour intensity were −0.575 instead of −0.1116" in words


def test_its_files_are_on_pages_with_an_explorer_only():
    for file in SITE.glob("*/*.html"):
        text = file.read_text(encoding="utf-8")
        assert ("_static/explorer" in text) == ('class="explorer"' in text), file.name


CHAPTER = "notebooks/03-reject-options.html"
# Read as text: every process that collects tests would parse all chapters.
IN_CHAPTERS = [page for page in CHAPTERS if 'class="explorer" data-option=' in (SITE / page).read_text()]


@pytest.fixture
def chapter_page(context, address):
    page = context.new_page()
    page.fetched = []
    page.on("request", lambda request: page.fetched.append(request.url))
    page.goto(address + CHAPTER)
    yield page
    page.close()


def test_a_chapter_fetches_its_explorer_only_when_a_reader_comes_near(chapter_page):
    late = [f"_static/{name}" for name in ("explorer-data.js", "explorer-engine.js", "explorer.js")]
    assert not any(url.split("?")[0].endswith(tuple(late)) for url in chapter_page.fetched)
    assert chapter_page.locator(".explorer-static img").count() == 1
    chapter_page.locator(".explorer-scene").scroll_into_view_if_needed()
    chapter_page.wait_for_function("window.lvqrejExplorer")
    for name in late:
        assert any(url.endswith(name) for url in chapter_page.fetched)
    assert chapter_page.locator(".explorer-static").is_hidden()


def test_in_a_chapter_the_keyboard_moves_threshold_and_star(chapter_page):
    scene = chapter_page.locator(".explorer-scene")
    scene.scroll_into_view_if_needed()
    chapter_page.wait_for_function("window.lvqrejExplorer")
    before = state(chapter_page)
    scene.get_by_role("slider").focus()
    chapter_page.keyboard.press("End")
    after = state(chapter_page)
    assert after["theta"] == pytest.approx(0.98, abs=0.005)
    assert after["nearest"]["distance"] > before["nearest"]["distance"]
    scene.get_by_label("Distance to the decision boundary").check()
    assert state(chapter_page)["option"] == "distance"
    scene.get_by_role("button", name="Start again").click()
    assert state(chapter_page)["theta"] == pytest.approx(THRESHOLDS["distance"][1], abs=1e-4)


def test_the_threshold_moves_by_itself_until_the_reader_takes_over(chapter_page):
    scene = chapter_page.locator(".explorer-scene")
    scene.scroll_into_view_if_needed()
    chapter_page.wait_for_function("window.lvqrejExplorer")
    at_first = state(chapter_page)["theta"]
    button = scene.get_by_role("button", name="Move the threshold")
    button.click()
    chapter_page.wait_for_function("first => window.lvqrejExplorer.get().theta > first + 0.02", arg=at_first)
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    kept = state(chapter_page)["theta"]
    assert state(chapter_page)["theta"] == kept
    assert button.get_attribute("aria-pressed") == "false"


@pytest.mark.parametrize("where", IN_CHAPTERS)
def test_without_scripts_a_chapter_shows_the_picture(where):
    for scene in soup(where).select(".explorer-scene"):
        picture = scene.select_one(".explorer-static img")
        assert len(picture["alt"].split()) > 20
        assert (SITE / where).parent.joinpath(picture["src"]).resolve().exists()


def test_on_paper_the_picture_takes_the_place_of_the_explorer(chapter_page):
    chapter_page.locator(".explorer-scene").scroll_into_view_if_needed()
    chapter_page.wait_for_function("window.lvqrejExplorer")
    chapter_page.emulate_media(media="print")
    assert chapter_page.locator(".explorer-static img").is_visible()
    assert chapter_page.locator(".explorer-plane").is_hidden()
