"""The paper's conclusions, each as a statement about cases, judged by the same rules for any results."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pandas as pd

from companion.paper_tables import FEATURES, side_by_side
from companion.rules import agreement, count, precision_above_chance, verdict

#: What the first edition's tables say by the same rules: its entries, and its conclusions.
FIRST_ENTRIES, FIRST_CONCLUSIONS = "first_edition_entries.csv", "first_edition_conclusions.csv"
#: The paper's own data that the first edition had; its Flip was synthetic.
FIRST_DATA = ("wine", "breast_cancer")
_ENTRY = ["table", "option", "data", "column"]
_REST = "training or rounding"

Frame: TypeAlias = Any  # pandas has no types


class Statement(NamedTuple):
    """A conclusion of the paper: its subject, what it says, in which cases it holds, how it is tested."""

    about: str
    claim: str
    holds: Frame
    tested: str


def conclusions(folder: str | PathLike[str], data: Iterable[str]) -> Frame:
    """Return the paper's conclusions with their verdicts on the given data sets.

    A case is a data set and a reject option under our protocol with GMLVQ, unless `tested as` says otherwise;
    where there was nothing to explain, there is no case. Guarantees are a matter of proof: their verdicts
    name theorems.

    Parameters
    ----------
    folder : path
        book/results.
    data : iterable of str
        The data sets about which something is concluded: real ones.

    Returns
    -------
    DataFrame
        "the paper concludes", "here" (the verdict of `companion.rules.verdict`), "holds in" ('k of n', or
        'proof'), "tested as" and "about".
    """
    results = _Results(folder, list(data))
    rows = [
        {
            "the paper concludes": one.claim,
            "here": verdict(one.holds),
            "holds in": count(one.holds),
            "tested as": one.tested,
            "about": one.about,
        }
        for one in (*_sparse(results), *_causal(results), *_cheap(results))
    ]
    return pd.DataFrame([*rows, *_proven(results)])


def changes(folder: str | PathLike[str], data: Iterable[str]) -> Frame:
    """Return the conclusions whose verdict is not that of the first edition, and why.

    The reason is "data" if on the first edition's own real data the verdict is still the old one. Else it is
    "time" of a conclusion about cost, and "training or rounding" of the others: protocol, seeds and data are
    the same there, and the engine gives the same answers for the first edition's models
    (first_edition_engine.csv).

    Returns
    -------
    DataFrame
        "the paper concludes", "first edition", "now" (verdict and 'k of n') and "because of".
    """
    first = pd.read_csv(Path(folder) / FIRST_CONCLUSIONS).set_index("the paper concludes")
    now = conclusions(folder, data).set_index("the paper concludes")
    same_data = conclusions(folder, FIRST_DATA).set_index("the paper concludes")
    reasons = (same_data["here"] == first["here"].reindex(same_data.index)).map({True: "data", False: _REST})
    reasons[(reasons == _REST) & (same_data["about"] == "cost")] = "time"
    rows = [
        {
            "the paper concludes": claim,
            "first edition": f"{first['here'][claim]} ({first['holds in'][claim]})",
            "now": f"{now['here'][claim]} ({now['holds in'][claim]})",
            "because of": reasons[claim],
        }
        for claim in now.index.intersection(first.index)
        if now["here"][claim] != first["here"][claim]
    ]
    return pd.DataFrame(rows, columns=["the paper concludes", "first edition", "now", "because of"])


def changed_entries(compared: Frame, folder: str | PathLike[str]) -> Frame:
    """Return the entries of the paper's tables about which the first edition said something else, and why.

    Parameters
    ----------
    compared : DataFrame
        From `companion.rules.agreement`.
    folder : path
        book/results.

    Returns
    -------
    DataFrame
        The columns that name an entry; `run` ("ours" or "deviating"); `first` and `now` (the words), both
        means of ours, and `why`: "data" where the first edition had a stand-in, else "training or rounding".
    """
    first = pd.read_csv(Path(folder) / FIRST_ENTRIES)
    both = compared.merge(first, on=_ENTRY, suffixes=("", "_first"))
    parts = []
    for run in ("ours", "deviating"):
        other = both[both[f"{run}_agrees"] != both[f"{run}_agrees_first"]]
        part = other[_ENTRY].assign(
            run=run,
            first=other[f"{run}_agrees_first"],
            now=other[f"{run}_agrees"],
            mean=other["mean"],
            mean_first=other[f"{run}_mean_first"],
            mean_now=other[f"{run}_mean"],
        )
        stood_in = ~other["data"].isin(FIRST_DATA)
        parts.append(part.assign(why=stood_in.map({True: "data", False: _REST})))
    return pd.concat(parts, ignore_index=True)


def write_first_edition(old: str | PathLike[str], target: str | PathLike[str]) -> None:
    """Judge the first edition's tables in `old` by today's rules and keep the words in `target`."""
    compared = agreement(side_by_side(old), pd.read_csv(Path(old) / "units.csv"))
    kept = ["ours_mean", "ours_agrees", "deviating_mean", "deviating_agrees"]
    said = conclusions(old, FIRST_DATA)[["the paper concludes", "here", "holds in"]]
    for name, table in ((FIRST_ENTRIES, compared[[*_ENTRY, *kept]]), (FIRST_CONCLUSIONS, said)):
        table.to_csv(Path(target) / name, index=False, float_format="%.9g", lineterminator="\n")


class _Results:
    """The stored tables, cut to the data sets that are judged."""

    def __init__(self, folder: str | PathLike[str], data: list[str]) -> None:
        place = Path(folder)
        tables = {
            name: pd.read_csv(place / f"{name}.csv")
            for name in ("units", "aggregates", "overlaps", "timings")
        }
        compared = agreement(side_by_side(place), tables["units"])
        self.aggregates = tables["aggregates"][tables["aggregates"]["data"].isin(data)]
        self.compared = compared[compared["our_data"].isin(data)]
        self.overlaps, self.timings = (
            table[(table["variant"] == "ours") & (table["model"] == "GMLVQ") & table["data"].isin(data)]
            for table in (tables["overlaps"], tables["timings"])
        )

    def means(self, variant: str, experiment: str, measure: str) -> Frame:
        """Return the means, one row per data set and option, one column per method."""
        chosen = self.aggregates
        for name, value in (
            ("model", "GMLVQ"), ("variant", variant), ("experiment", experiment), ("measure", measure),
        ):  # fmt: skip
            chosen = chosen[chosen[name] == value]
        return chosen.pivot_table(index=["data", "option"], columns="method", values="mean", sort=False)


def _sparse(results: _Results) -> list[Statement]:
    l0, l1 = (results.means("ours", "properties", measure) for measure in ("l0", "l1"))
    valid, nearly = (results.means("ours", "properties", measure) for measure in ("valid", "nearly_valid"))
    features = l0.index.get_level_values("data").map(FEATURES)
    cells = results.compared
    published = cells[(cells["table"] == "sparsity") & (cells["column"] == "ClosestCf")]
    searches = ["black_box", "direct"]
    calm = valid["black_box"].drop("probabilistic", level="option").groupby("data").mean()
    searched = valid.xs("probabilistic", level="option")[searches]
    proba = l0.xs("probabilistic", level="option")
    rivals = proba[["nearest", *searches]].min(axis=1)
    mostly = nearly.xs("probabilistic", level="option")["paper"] > 0.5
    pairs = results.overlaps
    names = pairs["first"] + "+" + pairs["second"]
    pairs = pairs[names.isin(["exact+nearest", "exact+black_box", "nearest+black_box"])]
    return [
        Statement(
            "sparsity",
            "its algorithms yield very sparse counterfactuals",
            (l0["paper"] <= features / 4)[l0["paper"].notna()],
            "the paper's programs change at most a quarter of the features "
            f"({_span(l0['paper'])} features; exact ones {_span(l0['exact'])})",
        ),
        Statement(
            "sparsity",
            "large variances are due to outliers without a sparse counterfactual",
            (published["ours_variance"] >= published["variance"] / 2)[published["ours_variance"].notna()],
            "the variance of exact counterfactuals is at least half the published one "
            f"(at most {published['ours_variance'].max():.2f}; published {_span(published['variance'])})",
        ),
        Statement(
            "sparsity",
            "a training sample is the worst choice",
            (l0["nearest"] >= l0.drop(columns="nearest").max(axis=1))
            & (l1["nearest"] >= l1.drop(columns="nearest").max(axis=1)),
            "the nearest sample changes the most features and is the farthest of all methods",
        ),
        Statement(
            "sparsity",
            "a black box is a bit better, but far from its algorithms",
            ((l0["black_box"] < l0["nearest"]) & (l0["black_box"] > 3 * l0["paper"]))[
                l0.notna()["black_box"]
            ],
            "the black box changes fewer features than the nearest sample, and more than three times "
            f"those of the paper's programs ({_span(l0['black_box'])} features)",
        ),
        Statement(
            "validity",
            "black boxes lose validity under the probabilistic option",
            searched.sub(calm, axis=0).stack() < -0.1,
            "black box and Algorithm 2 are valid at least 0.1 less often than the black box under the other "
            f"options ({_span(searched.stack(), 2)}, calibrated pairwise probabilities)",
        ),
        Statement(
            "sparsity",
            "its algorithm is the sparsest under the probabilistic option, too",
            (proba["paper"] < rivals) & mostly,
            "Algorithm 3, signs and classes set right, is mostly valid and changes the fewest features "
            f"({_span(proba['paper'])}; the next {_span(rivals)})",
        ),
        Statement(
            "agreement",
            "usually all methods agree upon the same features",
            pairs["jaccard"] >= 0.5,
            "two of exact, nearest sample and black box share at least half of the features that either "
            f"changes (shares {_span(pairs['jaccard'], 2)})",
        ),
    ]


def _causal(results: _Results) -> list[Statement]:
    scores = precision_above_chance(results.aggregates)
    learned = scores[scores["model"] == "GMLVQ"]
    exact, sparse = (table[table["method"] == "exact"] for table in (scores, learned))
    dense = learned[~learned["method"].isin(["exact", "paper"])]
    recall = results.means("ours", "goodness", "recall")["paper"].dropna()
    return [
        Statement(
            "causes",
            "all methods identify the features that caused the reject",
            learned.loc[learned["method"] != "paper", "clear"],
            "precision is clearly above chance, by more than 0.1 and two standard errors "
            f"(exact {_span(sparse['precision'], 2)}, others {_span(dense['precision'], 2)}, "
            f"chance about {learned['chance'].mean():.1f})",
        ),
        Statement(
            "causes",
            "its algorithms miss some: sparsity alone is not sufficient",
            recall < 0.95,
            f"the paper's programs have a recall below 0.95 ({_span(recall, 2)}); it is at most "
            "(changed) / (noisy features), {prf:ref}`lem-goodness-chance`",
        ),
        Statement(
            "causes",
            "counterfactuals in general highlight relevant features",
            exact["clear"],
            "precision of the exact counterfactual is clearly above chance, GLVQ and GMLVQ "
            f"({_span(exact['precision'], 2)})",
        ),
    ]


def _cheap(results: _Results) -> list[Statement]:
    spent = results.timings.pivot_table(index=["data", "option"], columns="method", values="seconds_each")
    return [
        Statement(
            "cost",
            "convex programs make the computation efficient",
            spent["paper"] < spent["black_box"],
            "the paper's programs, through a modelling layer, take less time than the black box "
            f"({_span(spent['paper'], 2)} and {_span(spent['black_box'], 2)} s of a processor each); "
            "{doc}`/notebooks/25-how-fast` times `explain`",
        )
    ]


def _proven(results: _Results) -> list[dict[str, str]]:
    signs = results.means("only:printed_signs", "properties", "nearly_valid")
    most = signs["paper"].max() if len(signs) else 0.0
    valid = (
        f"at most {100 * most:.2g} % of the answers are valid" if most > 0 else "none of the answers is valid"
    )
    measured = f"; the fact is measured: with the signs as published {valid}" if len(signs) else ""
    claims = {
        "its algorithms are guaranteed to give valid answers": "for relative similarity yes "
        "({prf:ref}`thm-relsim-union`); for the distance with one prototype per class only "
        "({prf:ref}`thm-dd-printed`); for Algorithm 3 as published no ({prf:ref}`thm-proba-mirror`)",
        "Algorithm 3 fails on standardised data for numerical reasons": "the reason is its ball, mirrored at "
        f"the origin ({{prf:ref}}`thm-proba-mirror`){measured}",
    }
    return [
        {
            "the paper concludes": claim,
            "here": "qualified",
            "holds in": "proof",
            "tested as": f"proof: {proof}",
            "about": "validity",
        }
        for claim, proof in claims.items()
    ]


def _span(values: Frame, digits: int = 1) -> str:
    return f"{values.min():.{digits}f} to {values.max():.{digits}f}"
