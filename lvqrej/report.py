"""Many rejects at once: how often, why, whom, and what would have to change.

One explanation serves one case. Whoever runs a model asks why it rejects, whom it rejects, and what to
measure or collect next: `RejectOptionClassifier.report` counts causes, features, costs and groups over a
whole table, chunk by chunk, with exact intervals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lvqrej.columns import as_frame, is_missing
from lvqrej.storage import write_whole
from lvqrej.thresholds import interval
from lvqrej.validation import Floats, check_number, check_path, describe
from lvqrej.wording import level_text, listed

#: Rows per chunk.
_CHUNK = 1024
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
#: What a missing group is called.
_MISSING = "(missing)"
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
        For each cause the most central reject (the medoid in the units of costs, another level at its least
        price): cause, rejects, sample, why, sentence.
    groups, tests : DataFrame or None
        Rejects and errors by group; and tests whether groups
        differ, by random tables with the same margins.
    distances : ndarray
        Costs of acceptance of the rejects that have a counterfactual.
    facts : dict
        What the numbers rest on: samples, rejects, option, threshold, reasons, seed, exact.
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
        import pandas as pd

        parts = []
        for name in ("rates", "causes", "features", "costs", "groups", "tests"):
            if (own := getattr(self, name)) is not None:
                plain = own.set_axis([" ".join(map(str, np.atleast_1d(row))) for row in own.index], axis=0)
                columns = plain.set_axis(map(str, plain.columns), axis=1).reset_index(names="row")
                parts.append(columns.melt("row", var_name="column").dropna().assign(table=name))
        return pd.concat(parts, ignore_index=True)[["table", "row", "column", "value"]]

    def plot(self, most: int = 12) -> Any:
        """Return a matplotlib figure of causes, features, costs and groups; see `lvqrej.chart`."""
        from lvqrej.chart import report_chart

        return report_chart(self, most)

    def to_html(self, file: str | PathLike[str]) -> None:
        """Write a page that stands on its own, at once or not at all; see `lvqrej.page`."""
        from lvqrej.page import page

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
        for question, row in () if self.tests is None else self.tests.iterrows():
            p, differ = row["p_value"], "differ" if row["p_value"] < 0.05 else "do not differ measurably"
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
            steps.append(f"check {first.name} again, or measure it more exactly: it changes in {often}")
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
        from lvqrej.page import summary

        return summary(self)


def reject_report(
    classifier: Any,
    X: Any,
    y: Any = None,
    groups: Any = None,
    *,
    reasons: int = 20,
    random_state: int = 0,
    progress: bool = False,
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
    truth = None if y is None else _labels(y, n, classifier.classes_)
    group = None if groups is None else _groups(groups, n)
    counts = _Counts(classifier, table, options, seed)
    for part in _chunks(n, progress):
        counts.add(part)
    return counts.report(truth, group, wanted, seed)


class _Counts:
    """What is known of the rows so far: a few numbers per row, sums over features, and a few whole rejects.

    Rows have a random order, `places`: where some are drawn as a sample, the first ones in it are.
    """

    def __init__(self, classifier: Any, table: Any, options: dict[str, Any], seed: int) -> None:
        self.classifier, self.table = classifier, table
        self.options = options | {"on_infeasible": "skip"}
        self.places = np.random.default_rng(seed).permutation(len(table))
        self.labels: list[Any] = []
        self.rejected: list[Any] = []
        self.rejects: list[Any] = []
        self.sums: Any = 0.0
        self.missing: Any = 0
        self.levels: Counter[tuple[int, str]] = Counter()
        self.central: dict[str, tuple[Any, Floats]] = {}

    def explained(self, rows: Any) -> Any:
        """Return the explanations of some rows."""
        return self.classifier.explain(_taken(self.table, rows), **self.options)

    def add(self, part: slice) -> None:
        """Count one chunk of the table."""
        import pandas as pd

        labels, rejected = self.classifier.decided(_taken(self.table, part))
        self.labels.append(labels)
        self.rejected.append(rejected)
        rows = part.start + np.flatnonzero(rejected)
        result, known = self.explained(rows), self.classifier.familiarity_.distances
        causes = self.classifier.cause(_taken(self.table, rows)) if known else [None] * len(rows)
        kinds = np.array([_kind(cause, self.classifier.classes_) for cause in causes], dtype=object)
        columns = {"row": rows, "kind": kinds, "found": result.found, "cost": result.distances}
        self.rejects.append(pd.DataFrame(columns | {"gap": result.gaps, "accepted as": result.labels}))
        self.sums, self.required = self.sums + _changes(result), result.required
        self.levels.update(_level_changes(result))
        if result.given is not None:
            self.missing = self.missing + np.vectorize(is_missing, otypes=[int])(result.given).sum(axis=0)
        for kind in {*kinds}:
            before, samples = self.central.get(kind, (rows[:0], result.samples[:0]))
            row = np.append(before, rows[kinds == kind])
            samples = np.vstack([samples, result.samples[kinds == kind]])
            first = np.argsort(self.places[row])[:_CENTRAL]
            self.central[kind] = row[first], samples[first]

    def report(self, truth: Any, group: Any, reasons: int, seed: int) -> RejectReport:
        """Return the tables."""
        import pandas as pd

        classifier, labels, rejected = self.classifier, *map(np.concatenate, (self.labels, self.rejected))
        each = pd.concat(self.rejects, ignore_index=True)
        wrong = None if truth is None else labels != truth
        if wrong is not None:
            each["true class"], each["wrong"] = truth[rejected], wrong[rejected]
        drawn = np.sort(each["row"].to_numpy()[np.argsort(self.places[each["row"]])[:reasons]])
        point = f"{classifier.threshold_:.4g}" if not classifier.local else "that of the nearest prototype"
        groups = None if group is None else _by_group(group, rejected, wrong)
        return RejectReport(
            rates=_rates(rejected, wrong, ~each["found"]),
            causes=_causes(each),
            features=self._features(max(1, each["found"].sum()), drawn),
            costs=_costs(each[each["found"]]),
            typical=self._typical(each["kind"].value_counts()),
            distances=each["cost"].to_numpy()[each["found"]],
            facts={
                "samples": len(labels), "rejects": len(each), "option": classifier.option_.name,
                "threshold": point, "reasons": len(drawn), "seed": seed,
                "largest_gap": float(each["gap"].max()) if len(each) else 0.0,
                "group": getattr(group, "name", None) or "group",
            },
            groups=groups,
            tests=None if groups is None else _tests(groups, seed),
        )  # fmt: skip

    def _features(self, answered: int, drawn: Any) -> Any:
        import pandas as pd

        (changed, up, down), (change, cost) = self.sums[:3].astype(int), self.sums[3:]
        holds = np.zeros(len(up), dtype=np.int64)
        for reason in self.explained(drawn).sufficient_reasons(effort=0) if len(drawn) else ():
            holds[reason.indices] += 1
        categories = [column.levels is not None for column in self.required.columns.columns]
        columns = {
            "changed": changed,
            "share": changed / answered,
            "up": up,
            "down": down,
            "mean_change": np.where(categories, np.nan, change / np.maximum(changed, 1)),
            "most_often": [self._most_often(k) for k in range(len(up))],
            "cost_share": cost / (cost.sum() or 1.0),
            "holds": holds,
        }
        if not any(categories):
            del columns["most_often"]
        if np.any(self.missing):
            columns["missing"] = self.missing
        features = pd.DataFrame(columns, index=pd.Index(self.required.names, name="feature"))
        return features.iloc[np.lexsort([-holds, -cost, -changed])]

    def _most_often(self, k: int) -> str:
        """Return the most frequent change of a category, of equally frequent ones the first by name."""
        counts = {change: count for (column, change), count in self.levels.items() if column == k}
        return min(counts, key=lambda change: (-counts[change], change), default="")

    def _typical(self, counts: Any) -> Any:
        """Return the most central reject of each of the most frequent kinds, with its explanation."""
        import pandas as pd
        from scipy.spatial.distance import cdist

        cases = []
        for kind, count in counts.head(_SHOWN).items():
            rows, samples = self.central[kind]
            scaled = samples * self.required.weights
            row = int(rows[cdist(scaled, scaled, "cityblock").sum(axis=1).argmin()])
            result = self.explained([row])
            why, sentence = kind, result.reasons[0] if not result.found[0] else str(result[0])
            if result.found[0] and result[0].cause is not None:
                why = str(result[0].cause)
            name = self.table.index[row] if hasattr(self.table, "iloc") else row
            cases.append((kind, count, name, why, sentence))
        return pd.DataFrame(cases, columns=["cause", "rejects", "sample", "why", "sentence"])


def _changes(result: Any) -> Floats:
    """Return for each of the table's columns how many answers change it, raise it and lower it, and sums.

    The sums are of how much it changes, 0 for categories, and of what that costs; all in shape (5, d).
    """
    found, required = result.found, result.required
    X, Z = result.samples[found], result.counterfactuals[found]
    change = np.nan_to_num(required.columns.changes(X, Z))
    parts = result.changed, change > 0, change < 0, np.abs(change), required.costs(X, Z)
    return np.array([part.sum(axis=0, dtype=float) for part in parts])


def _level_changes(result: Any) -> Iterator[tuple[int, str]]:
    """Return each change of a category: its column, and the change in words."""
    categories = [k for k, column in enumerate(result.required.columns.columns) if column.levels]
    for row, i in zip(*np.nonzero(result.changed[:, categories]), strict=True):
        before, after = result.before(row)[categories[i]], result.after(row)[categories[i]]
        yield categories[i], f"{level_text(before)} → {level_text(after)}"


def _taken(table: Any, rows: Any) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


def _chunks(n: int, progress: bool) -> Iterator[slice]:
    """Cut n rows into chunks, at least one; with a progress bar if it is wanted."""
    parts = [slice(start, min(start + _CHUNK, n)) for start in range(0, max(n, 1), _CHUNK)]
    if not progress:
        yield from parts
        return
    from tqdm.auto import tqdm

    with tqdm(total=n, desc="report", unit="row") as bar:
        for part in parts:
            yield part
            bar.update(part.stop - part.start)


def _kind(cause: Any, classes: NDArray[Any]) -> str:
    """Return what a reject counts as; the two classes of an ambiguous one come in the order of classes."""
    if cause is None:
        return "of unknown cause"
    if cause.kind != "ambiguous":
        return str(cause.kind)
    known = classes.tolist()
    first, second = sorted((cause.label, cause.rival), key=known.index)
    return f"ambiguous between {first} and {second}"


def _labels(y: Any, n: int, classes: NDArray[Any]) -> NDArray[Any]:
    truth = np.asarray(y)
    if truth.shape != (n,):
        raise ValueError(f"y must have a label for each of the {n} samples; found shape {truth.shape}")
    if n and not np.isin(truth, classes).any():
        raise ValueError(
            f"y must hold labels of the classes {classes.tolist()}; found {describe(truth.tolist())}"
        )
    return truth


def _groups(groups: Any, n: int) -> Any:
    """Return the group of each row as a Series of text, missing ones as a group of their own."""
    import pandas as pd

    given = groups if isinstance(groups, pd.Series) else pd.Series(np.asarray(groups, dtype=object).ravel())
    if len(given) != n:
        raise ValueError(f"groups must have an entry for each of the {n} samples; found {len(given)}")
    text = given.astype(object).where(given.notna().to_numpy(), _MISSING).map(str).reset_index(drop=True)
    if text.nunique() > _MOST_GROUPS:
        raise ValueError(f"groups must be at most {_MOST_GROUPS}; found {text.nunique()} different values")
    return text


# Tables


def _row(hits: Any, of: Any) -> dict[str, Any]:
    """Return a count, its share and the exact interval of it; nothing is known of a share of nothing."""
    low, high = interval(np.asarray(hits), np.asarray(of))
    return {"count": hits, "of": of, "share": hits / np.maximum(of, 1), "low": low, "high": high}


def _rates(rejected: Any, wrong: Any, unanswered: Any) -> Any:
    import pandas as pd

    n, rejects = len(rejected), int(rejected.sum())
    rows = {"accepted": _row(n - rejects, n), "rejected": _row(rejects, n)}
    if wrong is not None:
        rows["errors among the accepted"] = _row(int((wrong & ~rejected).sum()), n - rejects)
        rows["errors without rejects"] = _row(int(wrong.sum()), n)
        rows["errors among the rejected"] = _row(int((wrong & rejected).sum()), rejects)
    rows["rejects without a counterfactual"] = _row(int(unanswered.sum()), rejects)
    return pd.DataFrame(rows).T.astype({"count": int, "of": int}).rename_axis("samples")


def _causes(each: Any) -> Any:
    import pandas as pd

    counts = each["kind"].value_counts()
    rows = _row(counts.to_numpy(), np.full(len(counts), len(each)))
    table = pd.DataFrame(rows, index=counts.index.rename("cause")).rename(columns={"count": "rejects"})
    if "wrong" in each:
        table["wrong"] = each.groupby("kind")["wrong"].sum().reindex(counts.index).astype(int).to_numpy()
    return table.drop(columns="of")


def _costs(each: Any) -> Any:
    """Return quantiles of the costs of answered rejects: of all, and by each class."""
    import pandas as pd

    rows = {("all", ""): each["cost"]} if len(each) else {}
    for of in ("accepted as", "true class"):
        for label, part in each.groupby(of)["cost"] if of in each else ():
            rows[of, str(label)] = part
    table = [[len(cost), *np.quantile(cost, [*_QUANTILES.values()])] for cost in rows.values()]
    index = pd.MultiIndex.from_tuples([*rows], names=["of", "class"])
    return pd.DataFrame(table, index, ["rejects", *_QUANTILES])


def _by_group(group: Any, rejected: Any, wrong: Any) -> Any:
    import pandas as pd

    each = {"samples": True, "rejected": rejected}
    if wrong is not None:
        each |= {"accepted": ~rejected, "errors": wrong & ~rejected}
    table = pd.DataFrame(each, index=group.to_numpy()).groupby(level=0).sum().rename_axis("group").astype(int)
    for _, name, hits, of in _COMPARED if wrong is not None else _COMPARED[:1]:
        row = _row(table[hits].to_numpy(), table[of].to_numpy())
        table[name], table[f"{name}_low"], table[f"{name}_high"] = row["share"], row["low"], row["high"]
    return table


def _tests(groups: Any, seed: int) -> Any:
    import pandas as pd

    asked = [(what, hits, of) for what, _, hits, of in _COMPARED if hits in groups]
    rows = {what: difference(groups[hits], groups[of], seed) for what, hits, of in asked}
    return pd.DataFrame(rows, ["statistic", "p_value"]).T.rename_axis("in")


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
