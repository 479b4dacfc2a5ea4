"""The explorer's data: complete, exact, and enough to compute every certainty from it alone."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from companion.drawing import plane_grid
from companion.explorer import (
    RANGES,
    VARIABLE,
    explorer_data,
    explorer_options,
    explorer_script,
    scene,
)
from companion.running_example import running_example
from lvqrej import explain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example():
    return running_example()


@pytest.fixture(scope="module")
def options(example):
    return explorer_options(example)


@pytest.fixture(scope="module")
def data():
    script = explorer_script(explorer_data())
    return json.loads(re.fullmatch(rf"window\.{VARIABLE} = (.*);\n", script).group(1))


def squared(model, x):
    """Distances by the definition, from the exported numbers."""
    L = np.array(model["L"])
    return {label: [] for label in model["labels"]} | {
        label: [
            float(np.sum((L @ (x - np.array(p))) ** 2))
            for p, own in zip(model["prototypes"], model["labels"], strict=True)
            if own == label
        ]
        for label in model["labels"]
    }


def certainty_from(data, option, x):
    if "pairs" in option:
        classes, probabilities = data["classes"], []
        for i in range(len(classes)):
            odds = 0.0
            for pair in option["pairs"]:
                if i in pair["classes"]:
                    j = sum(pair["classes"]) - i
                    d = squared(pair, x)
                    near, far = min(d[classes[i]]), min(d[classes[j]])
                    odds += np.exp(option["alpha"][i][j] * (far - near) / (far + near) + option["beta"][i][j])
            probabilities.append(1 / (1 + odds))
        return max(probabilities)
    d, labels = squared(data["model"], x), data["model"]["labels"]
    best = min(d, key=lambda label: min(d[label]))
    near, far = min(d[best]), min(min(d[label]) for label in d if label != best)
    if "separations" not in option:
        return (far - near) / (far + near)
    flat = [float(np.sum((np.array(data["model"]["L"]) @ (x - p)) ** 2)) for p in data["model"]["prototypes"]]
    plus, minus = flat.index(near), flat.index(far)
    assert labels[plus] != labels[minus]
    return (far - near) / (2 * option["separations"][plus][minus])


def test_every_certainty_can_be_computed_from_the_data_alone(data, options):
    for record in data["options"]:
        option = options[record["key"]]
        for x in data["samples"][::20]:
            expected = option.certainty(np.array([x]))[0]
            assert certainty_from(data, record, np.array(x)) == pytest.approx(expected, rel=1e-12)


def test_numbers_survive_the_text(data, example, options):
    np.testing.assert_array_equal(data["samples"], example.X)
    np.testing.assert_array_equal(data["model"]["prototypes"], example.model.prototypes)
    np.testing.assert_array_equal(data["start"], example.x)
    assert [data["classes"][k] for k in data["labels"]] == example.y.tolist()
    assert [record["key"] for record in data["options"]] == list(options) == list(RANGES)


def test_answers_are_those_of_explain(data, example, options):
    for record in data["options"]:
        low, high = record["range"]
        assert low < record["threshold"] < high
        why = explain(options[record["key"]], record["threshold"], example.x)
        assert record["answer"]["sentence"] == str(why)
        costs = {label: answer["distance"] for label, answer in record["alternatives"].items()}
        assert min(costs.values()) == pytest.approx(why.distance, rel=1e-3)
        assert set(costs) == set(data["classes"])


def test_the_highest_probability_asks_too_much(example, options):
    high = RANGES["probability"][1]
    assert options["probability"].certainty(example.X).max() < high
    assert not explain(options["probability"], high, example.X[:1], on_infeasible="skip").found[0]


def test_what_the_page_tells_its_readers_to_try_is_so(example, options):
    corner = [[example.limits[0][1], example.limits[1][0]]]
    accepted = {key: option.accepts(corner, example.threshold(option))[0] for key, option in options.items()}
    assert accepted == {"similarity": False, "distance": True, "probability": False}
    reached = options["probability"].probabilities(plane_grid(example.limits, 200)[0]).max(axis=0)
    assert reached.argmin() == 0
    both = {}
    for key in ("similarity", "distance"):
        option = options[key]
        result = explain(option, example.threshold(option), plane_grid(example.limits, 40)[0])
        changed = (result.counterfactuals != result.samples).sum(axis=1)
        both[key] = (changed == 2).sum() / (changed > 0).sum()
    assert both["distance"] < 0.1
    assert both["similarity"] > 0.3


def test_training_ends_at_the_model_of_the_chapters(data, example):
    assert len(data["training"]) > 10
    np.testing.assert_array_equal(data["training"][-1]["prototypes"], example.model.prototypes)
    costs = [step["cost"] for step in data["training"]]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@pytest.mark.parametrize("key", [*RANGES, "training"])
def test_a_scene_is_a_picture_with_its_description(key):
    picture, words = scene(key)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert words.endswith(".")
    assert ("prototypes" if key == "training" else "rejected") in words


def test_a_scene_has_the_threshold_that_is_asked_for():
    assert "threshold 0.90;" in scene("similarity", 0.9)[1]


def test_scripts_that_the_loader_names_are_there():
    named = re.findall(r'"(explorer[a-z-]*\.js)"', (ROOT / "book/_static/explorer-loader.js").read_text())
    there = {file.name for file in (ROOT / "book/_static").glob("explorer*.js")}
    assert {*named, "explorer-loader.js"} == there | {"explorer-data.js"}
