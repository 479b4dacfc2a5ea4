"""Do the tests bite? Small errors, one at a time, in a copy of the tree, and the tests that belong to each.

Run as ``python tests/mutants.py --jobs 2``. An error that no test notices has survived: it needs a test, or a
sentence in `HARMLESS` why nobody could see it. The exit code is 1 if one survived without such a sentence, if
a test fails without any error, or if an error is stale: the code it belongs to reads otherwise by now.

Those of an own choice: ``--only stream`` (a part of the area, the file or the description); ``--table FILE``
writes what was found as CSV, ``--counts FILE`` how many of each area, as the status page shows it.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing import get_context
from pathlib import Path
from queue import SimpleQueue
from resource import RLIMIT_CPU, setrlimit
from signal import SIGXCPU
from threading import Thread
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
#: What is not copied.
LEFT_OUT = (".git", ".venv", "_build", "dist", "__pycache__", ".*_cache", ".hypothesis", ".coverage*")
#: After so many seconds of processor time an error that lets a test run on and on counts as noticed.
PATIENCE = 600
#: Processes start with all libraries loaded that take long, but none of our own.
SERVER = get_context("forkserver")
LIBRARIES = (
    "clarabel", "cvxpy", "hypothesis", "hypothesis.extra.numpy", "imblearn.over_sampling", "joblib", "kneed",
    "matplotlib.pyplot", "numpy", "pandas", "pytest", "scipy.optimize", "sklearn.covariance",
    "sklearn.ensemble", "sklearn.pipeline", "sklearn.utils.estimator_checks", "sklearn_lvq",
)  # fmt: skip


class Mutant(NamedTuple):
    """One small error: in a file, the text `old`, the first one after `after`, becomes `new`."""

    area: str
    what: str
    file: str
    old: str
    new: str
    tests: str = ""  # files, or file::part of names of tests; by the file's name if empty
    after: str = ""

    def text(self, folder: Path) -> str | None:
        """Return the file with the error in it, None if it is stale."""
        source = (folder / self.file).read_text(encoding="utf-8") if (folder / self.file).exists() else ""
        start = source.find(self.after)
        place = source.find(self.old, max(start, 0))
        unique = bool(self.after) or source.count(self.old) == 1
        if start < 0 or place < 0 or not unique:
            return None
        return source[:place] + self.new + source[place + len(self.old) :]

    def arguments(self) -> list[str]:
        """Return what pytest is asked to run: the file's own examples, and the tests that belong to it."""
        package, *_, name = self.file.removesuffix(".py").split("/")
        folder = {"lvqrej": "package"}.get(package, package)
        own = f"tests/{folder}/test_{'solvers' if '/solvers/' in self.file else name}.py"
        words = self.tests.split() or [own]
        return ["--doctest-modules", self.file, *(test for word in words for test in tests_of(word))]


def tests_of(word: str) -> list[str]:
    """Return a file as it is, and of file::part the tests whose names have the part; at least one."""
    file, _, part = word.partition("::")
    if not part:
        return [file]
    names = re.findall(rf"^def (test_\w*{part}\w*)\(", (ROOT / file).read_text(encoding="utf-8"), re.M)
    if not names:
        raise ValueError(f"no test of {file} is about {part}")
    return [f"{file}::{name}" for name in names]


_EXPERIMENTS = "tests/companion/test_measures.py tests/companion/test_experiments.py"
_COLUMNS = "tests/package/test_columns.py"
_DISCRETE = "tests/package/test_discrete.py"
_GUARANTEES = "tests/package/test_guarantees.py"
_PROBABLE = "tests/package/test_probable_set.py"
_REASONS = "tests/package/test_reasons.py"
_REPORT = "tests/package/test_report.py"
_SEARCH = "tests/package/test_solvers.py tests/package/test_counterfactual.py"

MUTANTS = [
    # What the experiments measure
    Mutant("measures", "shared features are counted as those of either", "companion/evaluation.py",
           "return (a & b).sum(axis=1)", "return (a | b).sum(axis=1)"),
    Mutant("measures", "Jaccard is Dice", "companion/results.py",
           "shared / np.maximum(either, 1)", "2 * shared / np.maximum(either + shared, 1)", _EXPERIMENTS),
    Mutant("measures", "Jaccard of nothing is 0", "companion/results.py",
           "np.maximum(either, 1), 1.0)", "np.maximum(either, 1), 0.0)", _EXPERIMENTS),
    Mutant("measures", "overlaps of all attempts, found or not", "companion/results.py",
           '(counterfactuals["found"] == 1)', '(counterfactuals["found"] >= 0)', _EXPERIMENTS),
    Mutant("measures", "variance of overlaps is that of a sample", "companion/results.py",
           "shared.var()", "shared.var(ddof=1)", _EXPERIMENTS),
    Mutant("measures", "25 % of the features are perturbed", "companion/experiments.py",
           "PERTURBED_SHARE = 0.3", "PERTURBED_SHARE = 0.25", _EXPERIMENTS),
    Mutant("measures", "noise of half the size", "companion/experiments.py",
           "rng.normal(size=X.shape)", "rng.normal(size=X.shape) / 2", _EXPERIMENTS),
    Mutant("measures", "goodness of what was rejected before", "companion/experiments.py",
           "chosen = before & ~option", "chosen = ~option", _EXPERIMENTS),
    Mutant("measures", "variance is that of a sample", "companion/results.py",
           '"variance": values.var(ddof=0)', '"variance": values.var(ddof=1)', _EXPERIMENTS),
    Mutant("measures", "variance of folds is that of a sample", "companion/results.py",
           "folds.var(ddof=0)", "folds.var(ddof=1)", _EXPERIMENTS),
    Mutant("measures", "deviation of repetitions is that of a population", "companion/results.py",
           "repetitions.std(ddof=1)", "repetitions.std(ddof=0)", _EXPERIMENTS),
    Mutant("measures", "l1 of the valid ones is that of all", "companion/results.py",
           'where(counterfactuals["valid"] == 1)', 'where(counterfactuals["valid"] >= 0)', _EXPERIMENTS),
    Mutant("measures", "F1 is half of it", "companion/evaluation.py",
           "f1=2 * hits", "f1=1 * hits"),
    Mutant("measures", "recall by what was named", "companion/evaluation.py",
           "recall=hits / truth.sum()", "recall=hits / np.maximum(named, 1)"),
    Mutant("measures", "nearly valid means by a hundredth", "companion/experiments.py",
           "NEARLY = 1e-4", "NEARLY = 1e-2", _EXPERIMENTS),
    Mutant("measures", "gap relative to the bound", "companion/evaluation.py",
           "1 - np.divide(bounds, l1, out=", "1 - np.divide(0.9 * bounds, l1, out="),
    Mutant("measures", "two means agree within three standard errors", "companion/rules.py",
           "tolerance = 2 * np.sqrt", "tolerance = 3 * np.sqrt", _EXPERIMENTS),
    Mutant("measures", "on a tie the most prototypes", "companion/protocol.py",
           "int(np.argmax(np.round(scores, 12)))",
           "len(scores) - 1 - int(np.argmax(scores[::-1]))", _EXPERIMENTS),
    Mutant("measures", "without a knee 5 % are rejected", "companion/protocol.py",
           "FALLBACK_RATE = 0.1", "FALLBACK_RATE = 0.05", _EXPERIMENTS),
    # Certainties
    Mutant("formulas", "relative similarity divides by the larger distance", "lvqrej/certainty.py",
           "        return total\n", "        return total / 2\n"),
    Mutant("formulas", "distance to the boundary without its factor 2", "lvqrej/certainty.py",
           "return 2 * self.separations[plus, minus]", "return self.separations[plus, minus]"),
    Mutant("formulas", "norms of the decision distance swapped", "lvqrej/certainty.py",
           'self.model.L if norm == "metric"', 'self.model.L if norm != "metric"'),
    Mutant("formulas", "the rival may be of the own class", "lvqrej/certainty.py",
           "np.where(own_class, np.inf, distances).argmin(axis=1)",
           "np.where(np.arange(distances.shape[1]) == plus[:, None], np.inf, distances).argmin(axis=1)"),
    Mutant("formulas", "twins are certain", "lvqrej/certainty.py",
           "(scale > 0) & ~self._twins[plus, minus]", "scale > 0"),
    Mutant("formulas", "accepted only above the threshold", "lvqrej/certainty.py",
           "return verdicts, verdicts.certainty >= theta", "return verdicts, verdicts.certainty > theta",
           "tests/package/test_certainty.py tests/package/test_counterfactual.py"),
    Mutant("formulas", "Platt's target of the first class", "lvqrej/probabilistic.py",
           "(n_first + 1) / (n_first + 2)", "(n_first + 1) / (n_first + 3)"),
    Mutant("formulas", "Platt's target of the second class", "lvqrej/probabilistic.py",
           "1 / (n - n_first + 2)", "1 / (n - n_first + 3)"),
    Mutant("formulas", "calibration without shift", "lvqrej/probabilistic.py",
           "w[0] / scale * centre - w[1]", "-w[1]"),
    Mutant("formulas", "probabilities combined without the 1", "lvqrej/probabilistic.py",
           "dtype=bool), 0.0, exponents)", "dtype=bool), -700.0, exponents)"),
    Mutant("formulas", "two-class probabilities below one half", "lvqrej/probabilistic.py",
           "level = max(level, 0.5) if K == 2 else level", "level = level",
           "tests/package/test_probabilistic.py " + _PROBABLE),
    Mutant("formulas", "calibrated on what the models have seen", "lvqrej/probabilistic.py",
           "_fitted(estimator, X[train], labels[train]), X[test]", "_fitted(estimator, X, labels), X[test]"),
    Mutant("formulas", "a pipeline's shift lost", "lvqrej/folding.py",
           "return self.base + moved, labels", "return moved, labels", "tests/package/test_prototypes.py"),
    Mutant("formulas", "relevances are not rooted", "lvqrej/prototypes.py",
           "np.diag(np.sqrt(relevances))", "np.diag(np.asarray(relevances))"),
    Mutant("formulas", "mean instead of median deviation", "lvqrej/requirements.py",
           "scales = np.median(deviations, axis=0)", "scales = deviations.mean(axis=0)"),
    Mutant("formulas", "gradient by the matrix without the prototypes' part", "lvqrej/training.py",
           "by_L * (2 / n) + by_Q.T @ P", "by_L * (2 / n)",
           "tests/package/test_training.py tests/package/test_lvq.py"),
    Mutant("formulas", "class weights are not averaged to 1", "lvqrej/training.py",
           "return weights / weights[targets].mean()", "return weights",
           "tests/package/test_training.py tests/package/test_lvq.py"),
    # Cells
    Mutant("cells", "balls of relative similarity a tenth too strict", "lvqrej/certainty.py",
           "alpha=1 + share", "alpha=1 + 1.1 * share",
           "tests/package/test_certainty.py tests/package/test_cells.py"),
    Mutant("cells", "margins of the decision distance a tenth too wide", "lvqrej/certainty.py",
           "2 * theta * self.separations]", "1.8 * theta * self.separations]",
           "tests/package/test_certainty.py tests/package/test_cells.py"),
    Mutant("cells", "a target narrows to another class", "lvqrej/cells.py",
           "np.flatnonzero(self.labels == label)", "np.flatnonzero(self.labels != label)",
           "tests/package/test_cells.py tests/package/test_counterfactual.py"),
    Mutant("cells", "errors shift half-spaces by half", "lvqrej/cells.py",
           "np.abs(self.normals[0]) @ errors", "0.5 * np.abs(self.normals[0]) @ errors",
           "tests/package/test_cells.py tests/package/test_robust.py"),
    Mutant("cells", "with many errors balls shrink by nine tenths", "lvqrej/cells.py",
           "shift = np.sqrt(np.einsum(", "shift = 0.9 * np.sqrt(np.einsum(",
           "tests/package/test_cells.py tests/package/test_robust.py"),
    Mutant("cells", "a cut of one class cuts them all", "lvqrej/cells.py",
           "chosen = (self.labels == label)[:, None] | (label is None)",
           "chosen = (self.labels == self.labels)[:, None]",
           "tests/package/test_cells.py tests/package/test_plausible.py"),
    Mutant("cells", "budgets of the normalised search a tenth too small", "lvqrej/local_search.py",
           "float(np.log1p(-theta) - np.log(theta))",
           "float(np.log1p(-theta) - np.log(theta)) + normalize * np.log(0.9)", _PROBABLE),
    Mutant("cells", "budgets a tenth too small", "lvqrej/local_search.py",
           "float(np.log1p(-theta) - np.log(theta))",
           "float(np.log1p(-theta) - np.log(theta)) + (not normalize) * np.log(0.9)", _PROBABLE),
    Mutant("cells", "two classes: a level a tenth too high", "lvqrej/probable_set.py",
           "level = b / a if a > 0", "level = b / a + 0.1 * (1 - b / a) if a > 0", _PROBABLE),
    # Certificates and bounds
    Mutant("certificates", "knapsack takes one feature, whatever its room", "lvqrej/solvers/certificate.py",
           "result[short] = _filled(rate[short], room[short], tau[short])[0]", "pass", _SEARCH),
    Mutant("certificates", "the certificate forgets curvature", "lvqrej/solvers/cone.py",
           "np.array([lam @ (self.g - squares)])", "np.array([lam @ self.g])", _SEARCH),
    Mutant("certificates", "bounds of balls by their diameters", "lvqrej/solvers/search.py",
           "rate * (norm + np.sqrt(np.maximum(rest, 0.0))) / norm", "rate * norm / norm", _SEARCH),
    Mutant("certificates", "half-spaces bounded by half the rate", "lvqrej/solvers/search.py",
           "result: Floats = np.abs(pull).max(axis=2)", "result: Floats = np.abs(pull).max(axis=2) / 2",
           _SEARCH),
    Mutant("certificates", "the answer counts as its own proof", "lvqrej/solvers/search.py",
           "found.bounds[:] = np.minimum(bounds.min(axis=1), best)", "found.bounds[:] = best", _SEARCH),
    Mutant("certificates", "every projection is certified by its length", "lvqrej/solvers/search.py",
           "return Projections(beta, bound, valid, closed)",
           "return Projections(beta, np.where(valid, length, bound), valid, closed)", _SEARCH),
    Mutant("certificates", "the path ends a feature too early", "lvqrej/solvers/homotopy.py",
           "self.sign[come[good], k[good]] = joined_sign[come[good]]", "self.skipped[come, k] = True",
           _SEARCH),
    Mutant("certificates", "a box of levels is covered whatever the proof", "lvqrej/budget_search.py",
           "good[n[~(lowest > 0)]] = False", "good[n[~(lowest > 1e9)]] = True",
           f"{_PROBABLE}::rule_it_out"),
    Mutant("certificates", "a part without a proof is closed", "lvqrej/budget_search.py",
           "np.where(point & ~whole, bound, np.maximum(bound, radius))",
           "np.maximum(bound, radius)", f"{_PROBABLE}::leave_no_proof"),
    Mutant("certificates", "the tangent of S at half its value", "lvqrej/budget_search.py",
           "rows.S - 2 * square", "rows.S - square", _PROBABLE),
    Mutant("certificates", "planes above F", "lvqrej/budget_search.py",
           "return value + own - rule.log_kappa - 1e-12, g * slope",
           "return value + own - rule.log_kappa + 0.05, g * slope", f"{_PROBABLE}::planes_lie_below"),
    Mutant("bounds", "branch and bound forgets closed nodes", "lvqrej/branch_and_bound.py",
           "closed[i] = min(closed[i], bound)", "closed[i] = closed[i]"),
    Mutant("bounds", "the grid's bound is its answer", "lvqrej/discrete.py",
           "min(max(minimum.bound, root.bound), answers.distances[i])", "answers.distances[i]"),
    Mutant("bounds", "the bound of several is that of the answer's own node", "lvqrej/variants.py",
           "answer._replace(lower_bounds=np.array([min(bounds)]))", "answer"),
    Mutant("bounds", "several forget what was not found", "lvqrej/variants.py",
           "unknown = min(unknown, answers.lower_bounds[~answers.found].min(initial=np.inf))", "pass"),
    Mutant("bounds", "unproven sets count as proof", "lvqrej/sparsest.py",
           "fewest == size and bound == search.goal", "fewest == size"),
    Mutant("bounds", "sets without an answer are unable", "lvqrej/sparsest.py",
           "return np.minimum(found.lower_bounds, goal)",
           "return np.where(found.found, np.minimum(found.lower_bounds, goal), goal)"),
    Mutant("bounds", "sets grow as long as they are nearly unable", "lvqrej/sparsest.py",
           "fits = bounds >= least", "fits = bounds >= 0.5 * least"),
    Mutant("bounds", "the gap is relative to the bound", "lvqrej/explanation.py",
           "np.divide(short, self.distances, out=short, where=there)",
           "np.divide(short, np.maximum(self.lower_bounds, 1e-300), out=short, where=there)"),
    Mutant("bounds", "what was moved into bounds costs nothing", "lvqrej/counterfactual.py",
           "moved[pending] + nearest.bounds", "nearest.bounds"),
    Mutant("bounds", "answers may lie on the boundary under noise", "lvqrej/counterfactual.py",
           "NOISE, _SAFE = 1e-9, 4.0", "NOISE, _SAFE = 1e-9, 0.04"),
    Mutant("bounds", "the largest threshold is looked for in two steps", "lvqrej/counterfactual.py",
           "for _ in range(64):", "for _ in range(2):"),
    # Requirements
    Mutant("requirements", "observed ranges are not widened to the sample", "lvqrej/requirements.py",
           "np.minimum(X, self.lower), self.lower)", "self.lower, self.lower)",
           "tests/package/test_requirements.py tests/package/test_classifier.py"),
    Mutant("requirements", "bounds of one feature take the observed ranges of all away",
           "lvqrej/requirements.py",
           "np.where(own, lower, ranges.lower), np.where(own, upper, ranges.upper)", "lower, upper",
           "tests/package/test_classifier.py"),
    Mutant("requirements", "given bounds are widened to the sample as observed ones are",
           "lvqrej/requirements.py",
           "observed=~own & (ranges is not None)", "observed=ranges is not None",
           "tests/package/test_classifier.py"),
    Mutant("requirements", "what may only rise may fall", "lvqrej/requirements.py",
           "fixed | (up & numbers), np.maximum", "fixed | (down & numbers), np.maximum",
           "tests/package/test_requirements.py tests/package/test_counterfactual.py"),
    Mutant("requirements", "equalities hold to a thousandth", "lvqrej/requirements.py",
           "EQUALITY = 1e-9", "EQUALITY = 1e-3",
           "tests/package/test_requirements.py tests/package/test_counterfactual.py"),
    Mutant("requirements", "values with one decimal more are recorded", "lvqrej/requirements.py",
           "steps[(coarse | gaps).all(axis=0)] = 10.0**-decimals",
           "steps[(coarse | gaps).all(axis=0)] = 10.0 ** -(decimals + 1)"),
    Mutant("requirements", "grids are left wherever a bound is near", "lvqrej/discrete.py",
           "GAP, LEVEL_GAP = 1e-2, 1e-9", "GAP, LEVEL_GAP = 0.5, 1e-9"),
    # Many rejects at once
    Mutant("report", "errors among the rejected are counted among the accepted", "lvqrej/report.py",
           "_row(int((wrong & ~rejected).sum()), n", "_row(int((wrong & rejected).sum()), n"),
    Mutant("report", "exact tests leave out the observed table", "lvqrej/report.py",
           "float((1 + extreme) / (1 + _DRAWS))", "float(extreme / (5 + 2 * _DRAWS))"),
    Mutant("report", "typical cases are the least central ones", "lvqrej/report.py",
           '.sum(axis=1).argmin()', '.sum(axis=1).argmax()'),
    Mutant("report", "names of rows are not escaped", "lvqrej/page.py",
           '{escape(label)}</th>', '{label}</th>', "tests/package/test_report.py"),
    Mutant("report", "one sample fewer than asked for", "lvqrej/common.py",
           "ceil(least * len(query.samples) - 1e-9)", "max(1, ceil(least * len(query.samples) - 1e-9) - 1)",
           f"{_REPORT}::smallest_of_all"),
    Mutant("report", "a sample too many may be left out", "lvqrej/common.py",
           "float(free[missing - 1])", "float(free[min(missing, len(free) - 1)])",
           f"{_REPORT}::smallest_of_all"),
    Mutant("report", "errors by cause are all rejects of that cause", "lvqrej/report.py",
           'each.groupby("kind")["wrong"].sum()', 'each.groupby("kind")["wrong"].size()'),
    Mutant("report", "costs of features are their changes", "lvqrej/report.py",
           "required.costs(X, Z).sum(axis=0)", "np.abs(change).sum(axis=0)"),
    Mutant("report", "rises are counted as falls", "lvqrej/report.py",
           '"up": (change > 0)', '"up": (change < 0)'),
    Mutant("report", "shares are of all rejects, answered or not", "lvqrej/report.py",
           "changed / max(1, found.sum())", "changed / max(1, len(found))",
           f"{_REPORT}::shares_of_features"),
    Mutant("report", "risks of groups are of all their samples", "lvqrej/report.py",
           '"risk", "errors", "accepted"),', '"risk", "errors", "samples"),'),
    Mutant("report", "others may leave their bounds by a common change", "lvqrej/common.py",
           "self.query.judged(points, self.X)[1] & within", "self.query.judged(points, self.X)[1]",
           f"{_REPORT}::one_value"),
    Mutant("report", "a common change is looked for in one cell of each sample", "lvqrej/common.py",
           "np.flatnonzero(known.least[row] < self.best).tolist()", "[int(known.least[row].argmin())]",
           f"{_REPORT}::none_is_forgotten"),
    Mutant("report", "the bound of a common change a hundredth too high", "lvqrej/common.py",
           "return delta, max(0.0, bound)", "return delta, 1.01 * max(0.0, bound)",
           f"{_REPORT}::none_is_forgotten"),
    Mutant("report", "risks compared are shares of all samples", "lvqrej/comparison.py",
           '"risk": errors / max(accepted, 1)', '"risk": errors / n'),
    Mutant("report", "options are compared on what they were fitted to", "lvqrej/comparison.py",
           "fit(_safe_indexing(X, train), labels[train])", "fit(X, labels)"),
    # Thresholds
    Mutant("thresholds", "a rate may be exceeded by one sample", "lvqrej/thresholds.py",
           'rate, side="right")) - 1)', 'rate, side="right")) - 0)'),
    Mutant("thresholds", "accuracies without support", "lvqrej/thresholds.py",
           "enough = bounds >= least", "enough = self.accuracies >= least"),
    Mutant("thresholds", "costs of errors and rejects swapped", "lvqrej/thresholds.py",
           "error / scale * self.n_errors + reject / scale * self.n_rejected",
           "reject / scale * self.n_errors + error / scale * self.n_rejected"),
    Mutant("thresholds", "intervals of 95 % are of 90 %", "lvqrej/thresholds.py",
           "each = (1 + confidence) / 2", "each = confidence"),
    Mutant("thresholds", "ties in the ranking count whole", "lvqrej/thresholds.py",
           "np.trapezoid(self.n_right, self.n_errors)", "(np.diff(self.n_errors) * self.n_right[:-1]).sum()"),
    Mutant("thresholds", "the knee is what is nearly the highest point", "lvqrej/thresholds.py",
           "heights >= heights.max() - 1e-12", "heights >= heights.max() - 0.05"),
    Mutant("thresholds", "groups without samples are left out", "lvqrej/guarantees.py",
           "group if among is None else np.asarray(among)", "group",
           f"{_GUARANTEES}::group_without_samples"),
    Mutant("thresholds", "candidates are skipped", "lvqrej/guarantees.py",
           "last = int(np.argmin(np.append(passed, False))) - 1",
           "last = int(np.flatnonzero(np.append(True, passed))[-1]) - 1",
           f"{_GUARANTEES}::none_is_skipped"),
    Mutant("thresholds", "thresholds at the upper certainty", "lvqrej/thresholds.py",
           "middle = low / 2 + high / 2", "middle = high"),
    Mutant("thresholds", "coverage pays twice", "lvqrej/thresholds.py",
           "-float(wrong * errors.mean() + rejected * rejects.mean())",
           "-float(wrong * errors.mean() + 2 * rejected * rejects.mean())"),
    Mutant("thresholds", "without a knee 10 % are rejected", "lvqrej/fitting.py",
           "NO_KNEE_RATE = 0.05", "NO_KNEE_RATE = 0.1"),
    Mutant("thresholds", "held-out certainties keep their fold's scale", "lvqrej/fitting.py",
           "carried_over(verdicts.certainty, part.certainty(own), final[train])", "verdicts.certainty"),
    Mutant("thresholds", "the default estimator ignores random_state", "lvqrej/fitting.py",
           "GMLVQ(random_state=seed)", "GMLVQ()",
           "tests/package/test_fitting.py tests/package/test_classifier.py"),
    Mutant("thresholds", "folds are not shuffled by random_state", "lvqrej/fitting.py",
           "StratifiedKFold(self.cv, shuffle=True, random_state=self.seed)",
           "StratifiedKFold(self.cv, shuffle=True, random_state=0)",
           "tests/package/test_fitting.py tests/package/test_classifier.py"),
    Mutant("thresholds", "one group that passes is enough", "lvqrej/guarantees.py",
           "passed = np.all(tail(", "passed = np.any(tail(",
           f"{_GUARANTEES}::every_group"),
    Mutant("thresholds", "promises at twice the level", "lvqrej/guarantees.py",
           "tail(k, n, risk) <= level, axis=1", "tail(k, n, risk) <= 2 * level, axis=1",
           f"{_GUARANTEES}::exceeded_as_rarely"),
    Mutant("thresholds", "tests begin at the strictest candidate", "lvqrej/guarantees.py",
           "start = int(np.argmin(_bound(share[:, None] * expected, expected, level).max(axis=1)))",
           "start = 0",
           f"{_GUARANTEES}::falls_with_certainty {_GUARANTEES}::none_is_skipped"),
    Mutant("thresholds", "conformal without the sample that comes", "lvqrej/thresholds.py",
           "self.n_errors + 1 <= share * (self.n_samples + 1)", "self.n_errors <= share * self.n_samples",
           f"{_GUARANTEES}::conformal_share {_GUARANTEES}::too_few_samples"),
    Mutant("thresholds", "local thresholds are tested on what chose them", "lvqrej/fitting.py",
           "np.array_split(np.random.default_rng(self.seed).permutation(len(r)), 2)",
           "[np.arange(len(r))] * 2",
           f"{_GUARANTEES}::one_half"),
    Mutant("thresholds", "local thresholds for the most certain", "lvqrej/thresholds.py",
           "np.where(right, 0, n * (n + 1)) - 1 - np", "np.where(right, 0, n * (n + 1)) - 1 + np",
           f"{_GUARANTEES}::least_certain"),
    # Variants
    Mutant("variants", "steps a tenth below `least`", "lvqrej/robust.py",
           'amounts(least, "least", names)', '0.9 * amounts(least, "least", names)'),
    Mutant("variants", "errors a tenth smaller", "lvqrej/robust.py",
           'amounts(error, "error", names)', '0.9 * amounts(error, "error", names)'),
    Mutant("variants", "the worst certainty is the best", "lvqrej/robust.py",
           "query.option.certainty(answer.counterfactuals + offsets(wrong)).min()",
           "query.option.certainty(answer.counterfactuals + offsets(wrong)).max()"),
    Mutant("variants", "errors may lead to another class", "lvqrej/robust.py",
           "passed.all() and (there.label == verdicts.label[i]).all()", "passed.all()"),
    Mutant("variants", "several differ in nothing", "lvqrej/variants.py",
           "len(features - changed) < min(apart, len(features))", "len(features - changed) < 1",
           "tests/package/test_variants.py"),
    Mutant("variants", "classes in their own order", "lvqrej/variants.py",
           "key=lambda one: float(one.distances[0]))\n    return found",
           "key=lambda one: 0.0)\n    return found"),
    Mutant("variants", "the nearest of the fewest is any of the fewest", "lvqrej/sparsest.py",
           "i = int(found.distances.argmin())", "i = int(np.isfinite(found.distances).argmax())"),
    Mutant("variants", "regions hold a sample less", "lvqrej/plausible.py",
           'method="higher"', 'method="lower"'),
    Mutant("variants", "plausible as any class", "lvqrej/plausible.py",
           "mine = accepted & (verdicts.label == i)", "mine = accepted & (verdicts.label == 0)"),
    # Storage
    Mutant("storage", "the norm of a DecisionDistance is lost", "lvqrej/storage.py",
           "for argument in signature(type(value)).parameters}",
           'for argument in signature(type(value)).parameters if argument != "norm"}'),
    Mutant("storage", "arguments of a partial are lost", "lvqrej/storage.py",
           '"with": _items(value.keywords, name)}', '"with": {}}'),
    Mutant("storage", "normalisation is lost", "lvqrej/storage.py",
           '"normalize": value.normalize}', '"normalize": False}'),
    Mutant("storage", "numbers have twelve digits", "lvqrej/storage.py",
           'return {"array": value.tolist(), "dtype": value.dtype.str}',
           'rounded = value.round(12) if value.dtype.kind == "f" else value\n'
           '        return {"array": rounded.tolist(), "dtype": value.dtype.str}'),
    Mutant("storage", "damage is not noticed", "lvqrej/storage.py",
           "if header != _header(body):", 'if not header.startswith(b\'{"format": "lvqrej\'):'),
    Mutant("storage", "types of arrays are lost", "lvqrej/storage.py",
           'np.array(content, dtype=stored["dtype"])[()]', "np.array(content)[()]"),
    # Sentences
    Mutant("sentences", "a gap of 1 % is called proven", "lvqrej/wording.py",
           "NO_GAP = 1e-6", "NO_GAP = 2e-2"),
    Mutant("sentences", "the cheapest change comes first", "lvqrej/wording.py",
           "key=lambda text: -costs[text[0]]", "key=lambda text: costs[text[0]]"),
    Mutant("sentences", "changes in the order of the features", "lvqrej/wording.py",
           "key=lambda text: -costs[text[0]]", "key=lambda text: text[0]"),
    Mutant("sentences", "values are rounded to the nearest", "lvqrej/wording.py",
           "ROUND_CEILING if change > 0 else ROUND_FLOOR", "ROUND_HALF_EVEN"),
    Mutant("sentences", "shown values are not tested", "lvqrej/wording.py",
           "if why.holds(point):", "if True:"),
    Mutant("sentences", "gaps are rounded down", "lvqrej/wording.py",
           "ceil(value / unit - 1e-9)", "floor(value / unit + 1e-9)"),
    Mutant("sentences", "the fewest are told without proof", "lvqrej/wording.py",
           "1 < why.fewest == len(why.changed)", "1 < len(why.changed)"),
    Mutant("sentences", "a threshold is shown as what is below it", "lvqrej/wording.py",
           "if told and not theta < 1 <= values[2]:", "if True:"),
    Mutant("sentences", "a share of all training samples is rounded up", "lvqrej/cause.py",
           "np.floor(self.farther_than * 1000) / 10", "np.ceil(self.farther_than * 1000) / 10"),
    Mutant("sentences", "far is what the average is", "lvqrej/cause.py",
           'np.quantile(d, level, method="higher")', 'np.quantile(d, level / 2, method="higher")'),
    Mutant("sentences", "weights of the JSON's costs are lost", "lvqrej/requirements.py",
           "costs = np.abs(Z - X) * self.weights", "costs = np.abs(Z - X)",
           "tests/package/test_explanation.py tests/package/test_wording.py"),
    # Classifier
    Mutant("classifier", "changes are not weighed by the scalers", "lvqrej/classifier.py",
           "(1 / self.scale_).tolist()", "(0 * self.scale_ + 1).tolist()"),
    Mutant("classifier", "rejects count as errors in the score", "lvqrej/classifier.py",
           "total = weights[~rejected].sum()", "total = weights.sum()"),
    Mutant("classifier", "coverage is the share of rejects", "lvqrej/classifier.py",
           "return float(1 - np.mean(self.decided(X)[1]))", "return float(np.mean(self.decided(X)[1]))"),
    Mutant("classifier", "classes in the order of their names", "lvqrej/classifier.py",
           "sorted(answers.items(), key=lambda item: item[1].distances[i])", "answers.items()"),
    # Tables
    Mutant("tables", "a level costs half", "lvqrej/discrete.py",
           "np.append(required.weights, moves.prices)", "np.append(required.weights, moves.prices / 2)",
           f"{_COLUMNS}::brute_force"),
    Mutant("tables", "a category makes two moves at once", "lvqrej/discrete.py",
           "| (number > 1)", "", f"{_DISCRETE}::one_move"),
    Mutant("tables", "what costs half as much as the best answer is left out", "lvqrej/discrete.py",
           "goals = np.array(cutoffs)[asked, None]", "goals = np.array(cutoffs)[asked, None] / 2",
           f"{_DISCRETE}::enumeration {_COLUMNS}::many_combinations"),
    Mutant("tables", "only a sample's own levels are divided", "lvqrej/discrete.py",
           "return [self.made(node, self.groups[g][1], j), node._replace(upper=rest)]",
           "return [node._replace(upper=rest)]", f"{_DISCRETE}::cannot_be_listed"),
    Mutant("tables", "levels may be made missing", "lvqrej/requirements.py",
           "prices[:, ~named] = np.inf", "prices[:, ~named] = 1.0",
           f"{_COLUMNS}::pipeline_alone {_DISCRETE}::enumeration"),
    Mutant("tables", "a missing number has no flag", "lvqrej/columns.py",
           "np.hstack([numbers, missing[:, None]])", "np.hstack([numbers, 0 * missing[:, None]])",
           f"{_COLUMNS}::lifted_and_back"),
    Mutant("tables", "a column that is used twice is not completed", "lvqrej/folding.py",
           "np.hstack([A, rest])", "np.hstack([A, 0 * rest])",
           f"{_COLUMNS}::used_twice"),
    Mutant("tables", "missing levels are unknown ones", "lvqrej/columns.py",
           "return self.fill if is_missing(value)", "return self.unknown if is_missing(value)",
           f"{_COLUMNS}::lifted_and_back"),
    Mutant("tables", "missing numbers count as observed", "lvqrej/columns.py",
           "lifted[[is_missing(value) for value in cells[:, k]], self.starts[k]] = np.nan", "pass"),
    Mutant("tables", "a cell that does not change is shown as the model takes it", "lvqrej/columns.py",
           "rows = np.where(self.gathered(Z != X), rows, given)", "pass",
           f"{_COLUMNS}::lifted_and_back"),
    Mutant("tables", "of levels that are alike the rarest is named", "lvqrej/folding.py",
           "key=lambda level: -counts[level]", "key=lambda level: counts[level]",
           f"{_COLUMNS}::never_seen"),
    Mutant("tables", "unknown levels are refused", "lvqrej/folding.py",
           "unknown = None if new is None else place(new[0])", "unknown = None",
           f"{_COLUMNS}::never_seen"),
    Mutant("tables", "gaps are filled with nine tenths", "lvqrej/folding.py",
           "fill = low + float(moved @ slope)", "fill = low + 0.9 * float(moved @ slope)",
           f"{_COLUMNS}::default_pipeline {_COLUMNS}::imputer_takes_it"),
    Mutant("tables", "levels at uneven steps cost by steps", "lvqrej/folding.py",
           "return bool(even), order.tolist()", "return True, order.tolist()",
           "tests/package/test_columns.py"),
    Mutant("tables", "folding is not checked on the training rows", "lvqrej/folding.py",
           "_SAME, _CLOSE = 1e-9, 1e-7", "_SAME, _CLOSE = 1e-9, 1e9",
           f"{_COLUMNS}::multiply_columns"),
    Mutant("tables", "a scale is its inverse", "lvqrej/folding.py",
           "scale[k] = 1 / abs(part[used[0], 0])", "scale[k] = abs(part[used[0], 0])",
           "tests/package/test_prototypes.py"),
    Mutant("tables", "ordered levels that may only rise may fall", "lvqrej/discrete.py",
           "(steps < 0) & required.increase_only", "(steps > 0) & required.increase_only",
           f"{_COLUMNS}::cost_by_steps"),
    Mutant("tables", "ordered levels cost as others", "lvqrej/requirements.py",
           "(far if column.ordered else np.minimum(far, 1))", "np.minimum(far, 1)",
           f"{_COLUMNS}::cost_by_steps"),
    Mutant("tables", "a price of two levels holds both ways", "lvqrej/requirements.py",
           "prices[_pair(pair, column)] = check_number",
           "prices[_pair(pair, column)[::-1]] = prices[_pair(pair, column)] = check_number",
           f"{_COLUMNS}::brute_force {_DISCRETE}::enumeration"),
    Mutant("tables", "levels that bounds do not name are allowed", "lvqrej/requirements.py",
           "upper = np.zeros(column.width)", "upper = np.ones(column.width)",
           f"{_COLUMNS}::requirements_speak"),
    Mutant("tables", "a number may be made missing", "lvqrej/requirements.py",
           "np.array([[0.0, np.inf], [1.0, 0.0]])", "np.array([[0.0, 1.0], [1.0, 0.0]])",
           f"{_DISCRETE}::enumeration"),
    Mutant("tables", "a value that is found for a gap is said to hold", "lvqrej/explanation.py",
           '{"holds": not found and bool(np.isinf(answer.lower_bounds[0]))}', '{"holds": not found}',
           f"{_REASONS}::only_with_a_proof"),
    Mutant("tables", "gaps are filled with means", "lvqrej/fitting.py",
           'SimpleImputer(strategy="median")', 'SimpleImputer(strategy="mean")',
           f"{_COLUMNS}::imputer_takes_it"),
    # Reasons
    Mutant("reasons", "what is not refuted counts as proven", "lvqrej/holding.py",
           "proven = ~refuted & (np.isinf(answers.lower_bounds) | kept.all(axis=1))", "proven = ~refuted",
           f"{_REASONS}::not_refuted"),
    Mutant("reasons", "further reasons may contain known ones", "lvqrej/holding.py",
           "if len(never):", "if False:",
           f"{_REASONS}::all_minimal"),
    Mutant("reasons", "supports are not made small", "lvqrej/holding.py",
           "while support.sum() > self.known + 1:", "while False:",
           f"{_REASONS}::all_minimal"),
    Mutant("reasons", "minimal reasons are smallest ones", "lvqrej/holding.py",
           "smaller = self.further([], int(best.sum()))", "smaller = None",
           f"{_REASONS}::all_minimal {_REASONS}::honest_bound"),
    Mutant("reasons", "all reasons are known", "lvqrej/holding.py",
           "complete=search.exhausted and not search.doubtful", "complete=True",
           f"{_REASONS}::honest_bound"),
    Mutant("reasons", "as many features as it has are needed", "lvqrej/holding.py",
           "fewest=int(fewest.sum())", "fewest=int(mask.sum())",
           f"{_REASONS}::all_minimal"),
    Mutant("reasons", "ranges in the units of costs", "lvqrej/holding.py",
           "ways * answers.lower_bounds / weights[at].repeat(2)", "ways * answers.lower_bounds",
           f"{_REASONS}::fine_scan"),
    Mutant("reasons", "where nothing was found nothing is", "lvqrej/holding.py",
           "never = ~answers.found & np.isinf(answers.lower_bounds)", "never = ~answers.found",
           f"{_REASONS}::open_only"),
    Mutant("reasons", "what may occur does not reach to the sample", "lvqrej/requirements.py",
           "return np.minimum(x, self.lower), np.maximum(x, self.upper)", "return self.lower, self.upper",
           f"{_REASONS}::edges"),
    Mutant("reasons", "levels with which a sample is rejected are listed", "lvqrej/holding.py",
           "enumerate(named) if accepted[i]}", "enumerate(named)}",
           f"{_COLUMNS}::reasons_and_ranges"),
    Mutant("reasons", "both halves are one of them", "lvqrej/reasons.py",
           '"both": kept & changed', '"both": kept | changed',
           f"{_REASONS}::counts_over"),
    # Stream
    Mutant("stream", "rows count from each part's beginning", "lvqrej/stream.py",
           "number * size + rejected", "rejected"),
    Mutant("stream", "accepted rows are explained", "lvqrej/stream.py",
           "np.flatnonzero(~option.accepts(part, query.theta))", "np.arange(len(part))"),
    Mutant("stream", "a folder of another threshold is completed", "lvqrej/stream.py",
           '        "theta": query.theta,\n', ""),
    Mutant("stream", "a folder of other requirements is completed", "lvqrej/stream.py",
           '"requirements": joblib.hash(_state(query.required))', '"requirements": ""'),
    Mutant("stream", "parts of other rows are kept", "lvqrej/stream.py",
           "if there.get(number, file) != file:", "if False:"),
    Mutant("stream", "arrays of an iterable are parts", "lvqrej/stream.py",
           "waiting, cells, held = [block[size:]], [told[size:]], held - size",
           "waiting, cells, held = [block[:0]], [told[:0]], 0"),
    Mutant("stream", "the second reason is that of the first", "lvqrej/stream.py",
           "[reasons.get(i) for i in range(len(rows))]", "[next(iter(reasons.values()), None)] * len(rows)"),
]  # fmt: skip

#: Why an error that no test notices changes nothing that a user could see, by its description.
HARMLESS: dict[str, str] = {}


class Result(NamedTuple):
    """What became of an error."""

    mutant: Mutant
    outcome: str  # "caught", "survived", "harmless" or "stale"
    seconds: float
    noticed: str  # the first test that failed


def tried(mutant: Mutant, folder: Path) -> Result:
    """Put the error into the copy in `folder`, run the tests that belong to it, and take it out again."""
    begin, text, file = time.perf_counter(), mutant.text(folder), folder / mutant.file
    if text is None:
        return Result(mutant, "stale", 0.0, "")
    original = file.read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    try:
        noticed = failed(mutant.arguments(), folder)
    finally:
        file.write_text(original, encoding="utf-8")
    missed = "harmless" if mutant.what in HARMLESS else "survived"
    return Result(mutant, "caught" if noticed else missed, time.perf_counter() - begin, noticed)


def failed(arguments: list[str], folder: Path) -> str:
    """Return the first test that fails, "" if none does, in a process with libraries loaded."""
    receiver, sender = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=_run, args=(arguments, str(folder), sender))
    process.start()
    sender.close()
    try:
        code, noticed = receiver.recv() if receiver.poll(10 * PATIENCE) else (1, "waits for ever")
    except EOFError:
        process.join()
        code, noticed = -process.exitcode, "an end without a word"
        if code == SIGXCPU:
            code, noticed = 1, f"nothing within {PATIENCE} s of processor time"
    finally:
        process.terminate()
        process.join()
    if code not in (0, 1, 2):
        raise RuntimeError(f"pytest could not run {' '.join(arguments)}: {noticed or code}")
    return noticed


def _run(arguments: list[str], folder: str, sender: Any) -> None:
    """Run pytest in a folder, in silence, and send the first test that fails."""
    import pytest

    setrlimit(RLIMIT_CPU, (PATIENCE, PATIENCE + 1))
    os.chdir(folder)
    os.environ |= {"PYTHONPATH": folder}
    sys.path[:] = [folder, f"{folder}/tests", *(place for place in sys.path if place != str(ROOT / "tests"))]
    sys.dont_write_bytecode = True
    words: list[str] = []

    class Watch:
        def pytest_runtest_logreport(self, report: Any) -> None:
            words.extend([report.nodeid] if report.failed else [])

        def pytest_collectreport(self, report: Any) -> None:
            words.extend([report.nodeid] if report.failed else [])

    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-m", "not slow"]
        code = pytest.main([*options, *arguments], plugins=[Watch()])
    sender.send((int(code), (words or [str(code)])[0] if code else ""))


def in_copies(work: list[Mutant], jobs: int) -> list[Result]:
    """Try all errors, each of `jobs` threads in a copy of its own; tell how it goes."""
    queue: SimpleQueue[Mutant] = SimpleQueue()
    results: list[Result] = []
    for mutant in work:
        queue.put(mutant)

    def worker(folder: Path) -> None:
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        while not queue.empty():
            result = tried(queue.get(), folder)
            results.append(result)
            place, by = f"{len(results):3d} of {len(work)}", result.noticed and f"  by {result.noticed}"
            print(
                f"{place}  {result.outcome:8}  {result.seconds:5.1f} s  {result.mutant.what}{by}", flush=True
            )

    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        threads = [Thread(target=worker, args=(Path(home, str(k)),)) for k in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sorted(results, key=lambda result: MUTANTS.index(result.mutant))


def sound(work: list[Mutant]) -> bool:
    """Return whether all tests that belong to the errors pass without any; say which do not."""
    arguments = sorted({argument for mutant in work for argument in mutant.arguments()[1:]})
    broken = failed(["--doctest-modules", *arguments], ROOT)
    if broken:
        print(f"fails without any error in the code: {broken}", file=sys.stderr)
    return not broken


def counted(found: list[tuple[str, str]]) -> list[list[Any]]:
    """Return rows of area, number of errors, noticed and harmless ones; the last is of all areas."""
    areas = list(dict.fromkeys(area for area, _ in found))
    rows: list[list[Any]] = [["area", "errors", "noticed", "harmless"]]
    for name in [*areas, "all"]:
        outcomes = [outcome for area, outcome in found if name in (area, "all")]
        rows.append([name, len(outcomes), outcomes.count("caught"), outcomes.count("harmless")])
    return rows


def written(file: Path, rows: list[list[Any]]) -> None:
    """Write rows as CSV."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)


def main() -> int:
    """Run what is asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="copies of the tree at work at once")
    parser.add_argument("--only", default="", help="a part of an area, a file or a description")
    parser.add_argument("--table", type=Path, help="where to write the outcomes as CSV")
    parser.add_argument("--counts", type=Path, help="where to write counts by area as CSV")
    parser.add_argument("--list", action="store_true", help="only tell which errors are stale")
    parser.add_argument("--trust", action="store_true", help="do not run the tests without any error first")
    asked = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    SERVER.set_forkserver_preload(list(LIBRARIES))
    work = [m for m in MUTANTS if asked.only in f"{m.area} {m.file} {m.what}"]
    stale = [m for m in work if m.text(ROOT) is None]
    for mutant in stale:
        print(f"stale: {mutant.file}: {mutant.what}: {mutant.old!r} is not there (once)", file=sys.stderr)
    if asked.list:
        print(f"{len(work)} errors, {len(stale)} of them stale")
        return int(bool(stale))
    if not asked.trust and not sound(work):
        return 1
    results = in_copies(work, max(1, asked.jobs))
    if asked.table:
        head = ["area", "file", "error", "outcome", "noticed by"]
        found = [[r.mutant.area, r.mutant.file, r.mutant.what, r.outcome, r.noticed] for r in results]
        written(asked.table, [head, *found])
    if asked.counts:
        written(asked.counts, counted([(r.mutant.area, r.outcome) for r in results]))
    counts = {
        name: sum(r.outcome == name for r in results) for name in ("caught", "harmless", "survived", "stale")
    }
    for result in results:
        if result.outcome in ("survived", "stale"):
            print(f"{result.outcome}: {result.mutant.file}: {result.mutant.what}")
        elif result.outcome == "harmless":
            print(f"harmless: {result.mutant.what}: {HARMLESS[result.mutant.what]}")
    print(f"{len(results)} errors: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    return int(bool(counts["survived"] or counts["stale"]))


if __name__ == "__main__":
    sys.exit(main())
