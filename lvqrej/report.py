"""Many rejects at once: how often, why, whom, and what would have to change.

One explanation serves one case. Whoever runs a model asks why it rejects, whom it rejects, and what to
measure or collect next: `RejectOptionClassifier.report` counts causes, features, costs and groups over a
whole table, with exact intervals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lvqrej.chart import report_chart
from lvqrej.columns import as_frame, is_missing
from lvqrej.holding import sufficient
from lvqrej.page import page, summary
from lvqrej.storage import write_whole
from lvqrej.thresholds import interval
from lvqrej.validation import Floats, check_number, check_path, describe
from lvqrej.wording import level_text, listed

#: So many rows are decided at once; `explain` has chunks of its own.
_CHUNK = 4096
#: As many rejects of one kind are compared to find the most central one; of so many kinds one is shown.
_CENTRAL, _SHOWN = 400, 8
#: More groups than this are no groups.
_MOST_GROUPS = 50
#: Random tables of a test.
_DRAWS = 9999
#: Shares by group: of what in words, their name, of what and among what.
_COMPARED = (
    ("rejects", "reject_rate", "rejected", "samples"),
    ("errors among the accepted", "risk", "errors", "accepted"),
)
_QUANTILES = {"least": 0.0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "90 %": 0.9, "most": 1.0}


@dataclass(frozen=True, eq=False)
class RejectReport:
    """What `RejectOptionClassifier.report` counted, as tables; shares have exact 95 % intervals, low to high.

    Attributes
    ----------
    rates : DataFrame
        Accepted (the coverage) and rejected; with labels errors among the accepted (the risk), errors that
        there were without rejects, and errors among the rejected; rejects without a counterfactual. Columns
        count, of, share, low, high.
    causes : DataFrame
        How many rejects are ambiguous between which two classes, or unfamiliar; with labels `wrong`, how
        many of them would have been errors.
    features : DataFrame
        One row per column of the table, the most frequent first: in how many counterfactuals it is `changed`,
        goes `up` or `down`, the `share` of that; `mean_change`, by how much where it changes, in its own
        units, NaN for categories; `most_often`, the most frequent change of a category, such as "female →
        male", empty for numbers (a column only if there are categories); `cost_share`, its part of all
        costs; `holds`, in how many of the reasons it is that were asked for; `missing`, in how many rejects
        it is missing (a column only if one is). Missing numbers change from what the model takes them as.
    costs : DataFrame
        Quantiles of the cost of acceptance, of all rejects, by the class that they would be accepted as, and
        with labels by true class.
    typical : DataFrame
        For each cause the most central reject: the medoid, of at most 400 drawn at random, in the units of
        costs, another level at its least price. Columns cause, rejects, sample, why, sentence.
    groups, tests : DataFrame or None
        Rejects and errors by group; and tests whether groups differ, by random tables with the same margins.
    distances : ndarray
        Costs of acceptance of the rejects that have a counterfactual.
    facts : dict
        What the numbers rest on: samples, rejects, option, threshold, reasons, seed, group; largest_gap, and
        how many counterfactuals are `proven` to be the nearest but for 1 %.
    """

    rates: Any
    causes: Any
    features: Any
    costs: Any
    typical: Any
    distances: Floats
    facts: dict[str, Any]
    groups: Any = None
    tests: Any = None

    def to_frame(self) -> Any:
        """Return all numbers of all tables as rows of table, row, column and value."""
        parts = []
        for name in ("rates", "causes", "features", "costs", "groups", "tests"):
            if (own := getattr(self, name)) is not None:
                plain = own.set_axis([" ".join(map(str, np.atleast_1d(row))) for row in own.index], axis=0)
                columns = plain.set_axis(map(str, plain.columns), axis=1).reset_index(names="row")
                parts.append(columns.melt("row", var_name="column").dropna().assign(table=name))
        return pd.concat(parts, ignore_index=True)[["table", "row", "column", "value"]]

    def plot(self, most: int = 12) -> Any:
        """Return a matplotlib figure of causes, features, costs and groups; see `lvqrej.chart`."""
        return report_chart(self, most)

    def to_html(self, file: str | PathLike[str]) -> None:
        """Write a page that stands on its own, at once or not at all; see `lvqrej.page`."""
        path, content = check_path(file, "file"), page(self)
        write_whole(path, lambda draft: draft.write_text(content, encoding="utf-8"))

    def sentences(self) -> list[str]:
        """Return what the tables say, in a few sentences."""
        facts, rates = self.facts, self.rates
        n, share = facts["samples"], _share(rates.loc["rejected"])
        below = f"their {facts['option']} is below {facts['threshold']}"
        said = [f"{facts['rejects']} of {n} samples are rejected ({share}): {below}"]
        if "errors among the accepted" in rates.index:
            risk, errors = rates.loc["errors among the accepted"], rates["count"]["errors without rejects"]
            wrong = f"{int(risk['count'])} of {int(risk['of'])} are wrong ({_share(risk)})"
            said.append(f"among the accepted {wrong}; without rejects it would be {int(errors)} of {n}")
        if len(self.causes):
            counts, rest = self.causes["rejects"], int(self.causes["rejects"].iloc[3:].sum())
            words = [f"{cause} ({count})" for cause, count in counts.head(3).items()]
            words += [f"of other causes ({rest})"] if rest else []
            said.append(f"the rejects are {listed(words)}")
        changed = self.features[self.features["changed"] > 0].head(3)
        if len(changed):
            words = [f"{name} ({row['changed']:.0f})" for name, row in changed.iterrows()]
            median = self.costs["median"].iloc[0]
            would = f"{listed(words)} would have to change, at a median cost of {median:.3g}"
            said.append(f"to be accepted, most often {would}")
        for question, p in () if self.tests is None else self.tests["p_value"].items():
            differ = "differ" if p < 0.05 else "do not differ measurably"
            text = "p below 0.001" if p < 0.001 else f"p = {p:.2g}"
            said.append(f"groups {differ} in {question} ({text})")
        return said

    def next_steps(self) -> list[str]:
        """Return what to measure, to collect or to look at next, in sentences.

        Ambiguous rejects ask for better measurements, unfamiliar ones for training samples of their kind.
        """
        rates, first = self.rates, self.features.iloc[0]
        steps: list[str] = []
        if first["changed"] and any(cause.startswith("ambiguous") for cause in self.causes.index):
            often = f"{first['changed']:.0f} of {len(self.distances)} counterfactuals"
            exactly = "" if np.isnan(first["mean_change"]) else ", or measure it more exactly"
            steps.append(f"check {first.name} again{exactly}: it changes in {often}")
        if "missing" in self.features:
            lacks, name = self.features["missing"], self.features["missing"].idxmax()
            steps.append(f"fill in {name}: it is missing in {lacks[name]} of {self.facts['rejects']} rejects")
        for case in self.typical[self.typical["cause"] == "unfamiliar"].itertuples():
            far = "it is" if case.rejects == 1 else f"{case.rejects} such rejects are"
            steps.append(f"collect training samples like sample {case.sample}: {far} far from all known ones")
        if "errors among the rejected" in rates.index and self.facts["rejects"]:
            among, all_ = rates["share"][["errors among the rejected", "errors without rejects"]]
            if among <= all_ > 0:
                steps.append("try another option: what is rejected is not wrong more often than all samples")
        if self.tests is not None and self.tests.loc["rejects", "p_value"] < 0.05:
            ordered = self.groups.sort_values("reject_rate")
            most, least = ordered.iloc[-1], ordered.iloc[0]
            words = [f"{row['rejected']:.0f} of {row['samples']:.0f}" for row in (most, least)]
            first = f"{self.facts['group']} {most.name}"
            steps.append(f"look at {first} first: {words[0]} are rejected ({least.name}: {words[1]})")
        return steps

    def __str__(self) -> str:
        said = [*self.sentences(), *(f"next: {step}" for step in self.next_steps())]
        return ".\n".join(text[0].upper() + text[1:] for text in said) + "."

    def _repr_html_(self) -> str:
        return summary(self)


def reject_report(
    classifier: Any,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    reasons: int = 20,
    random_state: int = 0,
    **options: Any,
) -> RejectReport:
    """Return the report of a fitted classifier on a table; see `RejectOptionClassifier.report`."""
    wanted = int(check_number(reasons, "reasons", low=0, integer=True))
    seed = int(check_number(random_state, "random_state", low=0, integer=True))
    for name in ("on_infeasible", "how"):
        if name in options:
            raise ValueError(f"{name} cannot be given: rejects without an answer are counted")
    numbers = classifier.option_.columns.takes_numbers
    table = as_frame(X) if hasattr(X, "columns") else np.asarray(X, dtype=None if numbers else object)
    n = len(table)
    if isinstance(groups, str) and groups in getattr(table, "columns", ()):
        groups = table[groups]
    truth = None if y is None else _labels(y, n, classifier.classes_)
    group = None if groups is None else _groups(groups, n)
    parts = (_taken(table, slice(start, start + _CHUNK)) for start in range(0, max(n, 1), _CHUNK))
    labels, rejected = map(np.concatenate, zip(*map(classifier.decided, parts), strict=True))
    wrong = None if truth is None else labels != truth
    rejects = _taken(table, rejected.nonzero()[0])
    result = classifier.explain(rejects, **options, on_infeasible="skip")
    causes = classifier.cause(rejects) if classifier.familiarity_.distances else [None] * len(result)
    each = _each(result, causes, classifier.classes_.tolist())
    if truth is not None and wrong is not None:
        each["true class"], each["wrong"] = truth[rejected], wrong[rejected]
    # Where some rejects are drawn, they are the first ones of this order.
    order = np.argsort(np.random.default_rng(seed).permutation(n)[rejected])
    names = rejects.index if hasattr(rejects, "iloc") else rejected.nonzero()[0]
    tables = (None, None) if group is None else _by_group(group, rejected, wrong, seed)
    return RejectReport(
        rates=_rates(rejected, wrong, ~result.found),
        causes=_causes(each),
        features=_features(result, order[:wanted]),
        costs=_costs(each[result.found]),
        typical=_typical(result, causes, each["kind"], names, order),
        distances=result.distances[result.found],
        facts={
            "samples": n, "rejects": len(result), "option": classifier.option_.name,
            "threshold": "that of the nearest prototype" if classifier.local else f"{result.theta:.4g}",
            "reasons": len(order[:wanted]), "seed": seed, "largest_gap": float(result.gaps.max(initial=0.0)),
            "proven": int((result.gaps <= 0.01)[result.found].sum()),
            "group": getattr(group, "name", None) or "group",
        },
        groups=tables[0],
        tests=tables[1],
    )  # fmt: skip


def _taken(table: Any, rows: Any) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _labels(y: Any, n: int, classes: NDArray[Any]) -> NDArray[Any]:
    truth = np.asarray(y)
    if truth.shape != (n,):
        raise ValueError(f"y must have a label for each of the {n} samples; found shape {truth.shape}")
    if n and not np.isin(truth, classes).any():
        known, found = classes.tolist(), describe(truth.tolist())
        raise ValueError(f"y must hold labels of the classes {known}; found {found}")
    return truth


def _groups(groups: Any, n: int) -> Any:
    """Return the group of each row as a Series of text, missing ones as a group of their own."""
    given = groups if isinstance(groups, pd.Series) else pd.Series(np.asarray(groups, dtype=object).ravel())
    if len(given) != n:
        raise ValueError(f"groups must have an entry for each of the {n} samples; found {len(given)}")
    text = given.astype(object).where(given.notna().to_numpy(), "(missing)").map(str)
    if text.nunique() > _MOST_GROUPS:
        raise ValueError(f"groups must be at most {_MOST_GROUPS}; found {text.nunique()} different values")
    return text


def _each(result: Any, causes: list[Any], classes: list[Any]) -> Any:
    """Return one row per reject; the two classes of an ambiguous one come in the order of classes."""
    kinds = []
    for cause in causes:
        kind = "of unknown cause" if cause is None else cause.kind
        if kind == "ambiguous":
            first, second = sorted((cause.label, cause.rival), key=classes.index)
            kind = f"ambiguous between {first} and {second}"
        kinds.append(kind)
    columns = {"kind": np.array(kinds, dtype=object), "cost": result.distances, "accepted as": result.labels}
    return pd.DataFrame(columns)


# Tables


def _row(hits: Any, of: Any) -> dict[str, Any]:
    """Return a count, its share and the exact interval of it; nothing is known of a share of nothing."""
    low, high = interval(np.asarray(hits), np.asarray(of))
    return {"count": hits, "of": of, "share": hits / np.maximum(of, 1), "low": low, "high": high}


def _rates(rejected: Any, wrong: Any, unanswered: Any) -> Any:
    n, rejects = len(rejected), int(rejected.sum())
    rows = {"accepted": _row(n - rejects, n), "rejected": _row(rejects, n)}
    if wrong is not None:
        rows["errors among the accepted"] = _row(int((wrong & ~rejected).sum()), n - rejects)
        rows["errors without rejects"] = _row(int(wrong.sum()), n)
        rows["errors among the rejected"] = _row(int((wrong & rejected).sum()), rejects)
    rows["rejects without a counterfactual"] = _row(int(unanswered.sum()), rejects)
    return pd.DataFrame(rows).T.astype({"count": int, "of": int}).rename_axis("samples")


def _causes(each: Any) -> Any:
    counts = each["kind"].value_counts()
    rows = _row(counts.to_numpy(), np.full(len(counts), len(each)))
    table = pd.DataFrame(rows, index=counts.index.rename("cause")).rename(columns={"count": "rejects"})
    if "wrong" in each:
        table["wrong"] = each.groupby("kind")["wrong"].sum().reindex(counts.index).astype(int).to_numpy()
    return table.drop(columns="of")


def _costs(each: Any) -> Any:
    """Return quantiles of the costs of answered rejects: of all, and by each class."""
    rows = {("all", ""): each["cost"]} if len(each) else {}
    for of in ("accepted as", "true class"):
        for label, part in each.groupby(of)["cost"] if of in each else ():
            rows[of, str(label)] = part
    table = [[len(cost), *np.quantile(cost, [*_QUANTILES.values()])] for cost in rows.values()]
    index = pd.MultiIndex.from_tuples([*rows], names=["of", "class"])
    return pd.DataFrame(table, index, ["rejects", *_QUANTILES])


def _features(result: Any, drawn: Any) -> Any:
    required, found = result.required, result.found
    X, Z, changed = result.samples[found], result.counterfactuals[found], result.changed.sum(axis=0)
    change, cost = np.nan_to_num(required.columns.changes(X, Z)), required.costs(X, Z).sum(axis=0)
    holds = np.zeros(len(changed), dtype=np.int64)
    for row in drawn:
        holds[sufficient(result, row, effort=0, k=1).indices] += 1
    categories = [column.levels is not None for column in required.columns.columns]
    size = np.abs(change).sum(axis=0) / np.maximum(changed, 1)
    columns = {
        "changed": changed,
        "share": changed / max(1, found.sum()),
        "up": (change > 0).sum(axis=0),
        "down": (change < 0).sum(axis=0),
        "mean_change": np.where(categories, np.nan, size),
        "most_often": [_most_often(result, k) if is_one else "" for k, is_one in enumerate(categories)],
        "cost_share": cost / (cost.sum() or 1.0),
        "holds": holds,
    }
    if not any(categories):
        del columns["most_often"]
    if result.given is not None:
        missing = np.vectorize(is_missing, otypes=[int])(result.given).sum(axis=0)
        columns |= {"missing": missing} if missing.any() else {}
    features = pd.DataFrame(columns, index=pd.Index(required.names, name="feature"))
    return features.iloc[np.lexsort([-holds, -cost, -changed])]


def _most_often(result: Any, k: int) -> str:
    """Return the most frequent change of a category, of equally frequent ones the first by name."""
    columns, counts = result.required.columns, Counter[str]()
    column, at = columns.columns[k], columns.at(k)
    for row in np.flatnonzero(result.changed[:, k]):
        own, after = result.given[row][k], column.value(result.counterfactuals[row, at])
        before = column.value(result.samples[row, at]) if is_missing(own) else own
        counts[f"{level_text(before)} → {level_text(after)}"] += 1
    return min(counts, key=lambda change: (-counts[change], change), default="")


def _typical(result: Any, causes: list[Any], kinds: Any, names: Any, order: Any) -> Any:
    """Return the most central reject of each of the most frequent kinds, with its explanation."""
    cases = []
    for kind, count in kinds.value_counts().head(_SHOWN).items():
        some = order[(kinds == kind).to_numpy()[order]][:_CENTRAL]
        scaled = result.samples[some] * result.required.weights
        row = int(some[cdist(scaled, scaled, "cityblock").sum(axis=1).argmin()])
        why = kind if causes[row] is None else str(causes[row])
        sentence = str(result[row]) if result.found[row] else result.reasons[row].partition(": ")[2]
        cases.append((kind, count, names[row], why, sentence))
    return pd.DataFrame(cases, columns=["cause", "rejects", "sample", "why", "sentence"])


def _by_group(group: Any, rejected: Any, wrong: Any, seed: int) -> tuple[Any, Any]:
    """Return the counts and shares of each group, and tests whether groups differ."""
    each, tests = {"samples": True, "rejected": rejected}, {}
    if wrong is not None:
        each |= {"accepted": ~rejected, "errors": wrong & ~rejected}
    table = pd.DataFrame(each, index=group.to_numpy()).groupby(level=0).sum().rename_axis("group").astype(int)
    for what, name, hits, of in _COMPARED if wrong is not None else _COMPARED[:1]:
        row = _row(table[hits].to_numpy(), table[of].to_numpy())
        table[name], table[f"{name}_low"], table[f"{name}_high"] = row["share"], row["low"], row["high"]
        tests[what] = difference(table[hits], table[of], seed)
    return table, pd.DataFrame(tests, ["statistic", "p_value"]).T.rename_axis("in")


def difference(hits: Any, sizes: Any, seed: int = 0) -> tuple[float, float]:
    """Test whether the shares hits / sizes (groups,) can be the same: Pearson's chi-square and its p-value.

    The p-value is exact whatever the counts are: the share of random tables with the same margins that are at
    least as extreme, the observed one counted among them.

    >>> statistic, p = difference([0, 4], [5, 5])
    >>> round(statistic, 4), 0.04 < p < 0.06
    (6.6667, True)
    """
    hits, sizes = np.asarray(hits, dtype=np.int64), np.asarray(sizes, dtype=np.int64)
    hits, sizes = hits[sizes > 0], sizes[sizes > 0]
    total, n = int(hits.sum()), int(sizes.sum())
    if len(sizes) < 2 or total in (0, n):
        return 0.0, 1.0
    expected = sizes * (total / n)

    def statistic(counts: Any) -> Any:
        return (np.square(counts - expected) * (1 / expected + 1 / (sizes - expected))).sum(axis=-1)

    found = float(statistic(hits))
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(sizes, total, size=_DRAWS)
    extreme = (statistic(drawn) >= found * (1 - 1e-9)).sum()
    return found, float((1 + extreme) / (1 + _DRAWS))


def _share(row: Any) -> str:
    return f"{row['share']:.1%}, interval {row['low']:.1%} to {row['high']:.1%}".replace("%", " %")
