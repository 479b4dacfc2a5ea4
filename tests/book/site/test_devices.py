"""What helps a reader on the way: the front page, definitions on hover, quizzes, panels on a phone."""

import pytest
from pages import FRONT, soup
from visit import PATIENCE, PHONE

CERTAINTIES = "notebooks/03-reject-options.html"
# A definition comes a moment after the question.
SHOWN = "() => !document.getElementById('term-definition').hidden"


@pytest.fixture
def certainties(context, address):
    page = context.new_page()
    page.goto(address + CERTAINTIES)
    yield page
    page.close()


def test_the_front_page_has_an_answer_a_picture_a_result_and_four_ways_above_the_fold(context, address):
    screen = context.browser.new_context(viewport={"width": 1280, "height": 800})
    screen.set_default_timeout(PATIENCE)
    page = screen.new_page()
    page.goto(address + FRONT)
    answer = page.locator(".tag_welcome-answer pre")
    assert "it would be accepted as B if colour intensity were" in answer.inner_text()
    ways = page.locator("article > section > ul > li")
    assert ways.count() == 4
    picture, install = page.locator(".tag_welcome-picture img"), page.get_by_text("pip install lvqrej")
    for part in (answer, picture, page.get_by_text("rejects got an answer"), install, ways.last):
        box = part.bounding_box()
        assert box["y"] + box["height"] <= 800, part
    screen.close()


def test_every_way_to_read_says_how_long_it_takes():
    for way in soup(FRONT).select("article > section > ul > li"):
        assert any(unit in way.get_text() for unit in (" minutes", " hours")), way.get_text()


def test_a_term_is_defined_on_hover_and_the_definition_can_be_read_and_dismissed(context, address):
    page = context.new_page()
    page.goto(address + FRONT)
    term, tip = page.locator("article a:has(> .std-term)").first, page.locator("#term-definition")
    assert tip.is_hidden()
    term.hover()
    page.wait_for_function(SHOWN)
    assert "The possibility for a classifier to refuse a prediction" in tip.inner_text()
    assert "[" not in tip.inner_text()
    tip.hover()
    page.wait_for_timeout(600)
    assert tip.is_visible()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.close()


def test_a_term_is_defined_on_focus_with_its_formulas(context, address):
    page = context.new_page()
    page.goto(address + "notebooks/01-quickstart.html")
    term = page.locator("article a[href$='#term-relative-similarity']").first
    term.focus()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    page.wait_for_function(SHOWN)
    assert term.get_attribute("aria-describedby") == "term-definition"
    # The page itself has no formula: what typesets them comes with the first definition that has one.
    page.wait_for_selector("#term-definition mjx-container")
    box = page.locator("#term-definition").bounding_box()
    assert box["x"] >= 0
    page.keyboard.press("Tab")
    assert term.get_attribute("aria-describedby") is None
    page.close()


def test_the_answer_of_a_quiz_is_folded(certainties):
    quiz = certainties.locator(".admonition.quiz")
    assert quiz.locator("> .admonition-title").inner_text() == "Predict, then look"
    answer = quiz.locator(".admonition.dropdown")
    assert answer.get_by_text("On a prototype relative similarity is 1").is_hidden()
    answer.get_by_role("button").click()
    assert answer.get_by_text("On a prototype relative similarity is 1").is_visible()


def test_panels_side_by_side_stand_below_each_other_on_a_phone(certainties):
    figure = certainties.locator("figure#fig-reject-maps")
    assert figure.locator("> img").is_visible()
    assert figure.locator(".panel").count() == 0
    certainties.set_viewport_size(PHONE)
    certainties.wait_for_selector("figure#fig-reject-maps .panel")
    assert figure.locator("> img").is_hidden()
    boxes = [panel.bounding_box() for panel in figure.locator(".panel").all()]
    assert len(boxes) == 3
    assert all(box["width"] <= PHONE["width"] for box in boxes)
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"] + 1
    said = [image.get_attribute("alt") for image in figure.locator(".panel img").all()]
    assert [bool(words) for words in said] == [True, False, False]
