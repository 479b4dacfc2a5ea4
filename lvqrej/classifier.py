"""The scikit-learn face of it all: a classifier that rejects, and explains its rejects."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lvqrej import counterfactual, storage, variants
from lvqrej.cause import Familiarity
from lvqrej.columns import as_frame, is_table
from lvqrej.common import CommonChange, common_change
from lvqrej.explanation import Explanation
from lvqrej.fitting import (
    OPTIONS,
    HeldOut,
    check_fitting,
    check_informative,
    check_rule,
    chosen_point,
    divided,
    label_of_reject,
    needs_held_out,
    with_rejects,
)
from lvqrej.holding import EFFORT
from lvqrej.requirements import Observed, feature_index
from lvqrej.validation import (
    Floats,
    as_sample,
    check_choice,
    check_path,
    check_samples,
    check_vector,
    classes_of,
    describe,
    difference,
    dimensions,
    feature_names_of,
    like,
    validated,
    validated_table,
)
from lvqrej.wording import class_row

if TYPE_CHECKING:
    from lvqrej.report import RejectReport

#: What `fit` learns, but for names, as files have it.
_LEARNED = (
    "option_", "classes_", "threshold_", "reject_label_", "target_name_", "scale_", "familiarity_", "curve_",
    "operating_point_", "observed_", "n_features_in_",
)  # fmt: skip


def _has_probabilities(classifier: Any) -> bool:
    option = classifier.option
    return hasattr(OPTIONS.get(option) if isinstance(option, str) else option, "probabilities")


class RejectOptionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A classifier that says "I am not certain enough" instead of guessing, and explains when it does.

    It trains an LVQ estimator, chooses a threshold on the certainties of held-out samples, and rejects what
    is less certain. Everything is in the units of the data, and in its columns: what a pipeline does before
    the model is folded into it, categories are levels, missing values are taken as its imputer takes them.

    Parameters
    ----------
    estimator : estimator, optional
        An LVQ estimator or a pipeline of affine steps that ends in one (`lvqrej.folding`); any other step is
        an error. If None, a StandardScaler and a GMLVQ. For a data frame with categories or gaps, None and an
        LVQ estimator by itself get a ColumnTransformer that standardizes numbers, fills in medians and has an
        indicator for each level; ``estimator_`` shows it.
    option : {"relative-similarity", "decision-distance", "probabilistic"} or object
        The certainty by name, or what makes one of a PrototypeModel (a class, or
        ``partial(DecisionDistance, norm="euclidean")``), or a `ProbabilisticCertainty` to be fitted. A
        certainty that has its model already is used as it is; `fit` then only chooses the threshold, on
        samples that this model should not have seen, and `estimator` has to be None.
    threshold : float, "knee", ("reject_rate", r), ("accuracy", a), ("costs", error, reject), \
            ("risk", r, confidence) or ("conformal", share)
        A number is used as it is. Otherwise it is read off the accuracy-reject curve: its knee (5 % rejects,
        with a warning, if there is none); the most rejects up to a rate; the fewest rejects with an accuracy
        by a 95 % bound of that threshold alone (if none has it, with a warning, the most accurate threshold
        that is supported); the least cost (Chow). The last two are promises, kept on held-out samples
        (`calibration`): with this confidence at most a share r of what is accepted is wrong
        (`lvqrej.guarantees.at_risk`; if none can be told to, a warning says what can); or a new sample is
        accepted and wrong with at most this probability (`AccuracyRejectCurve.at_conformal`).
    cv : int
        Number of stratified folds whose held-out certainties make the curve (fewer, with a warning, if a
        class has fewer samples). They are pooled, each carried over to the scale of the model that is used,
        by quantiles of training certainties.
    calibration : float
        Share of the samples that is held out of training for a promise or for local thresholds, drawn at
        random; `fit` takes other samples, too. Cross-validation would not do: its models are not the one
        that is used.
    local : bool
        Whether each prototype gets a threshold of its own, the best for the number of rejects that the rule
        asks for (`lvqrej.thresholds.local_curve`); for relative similarity and decision distance.
    reject_label : label, optional
        What `predict` returns for a reject, of the type of the classes. By default "reject" for text, -1 for
        numbers (if that is a class: the next lower integer that is not). Booleans have no third value: with
        them `predict` returns objects, True, False or "reject".
    random_state : int
        Seed of the folds and of the default estimator.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    estimator_ : estimator or None
        The fitted pipeline, as refitting `estimator` on the same data gives it; None if the option trains its
        own models, or has one already, or if the classifier was loaded from a file.
    option_ : Certainty
        The certainty in use; its model is in the units of the data.
    threshold_ : float
        Accepted is what has a certainty of at least this. With local thresholds it is 0: the certainty is
        then a margin, and `option_.thresholds` has one number per prototype.
    curve_ : AccuracyRejectCurve or None
        The held-out curve the threshold was chosen on; None if `threshold` is a number.
    operating_point_ : OperatingPoint or None
        Reject rate and accuracy to expect, with intervals. `found` is False where the curve does not offer
        what was asked for.
    reject_label_ : label
    observed_ : Observed
        Ranges of the training data and how finely it is recorded, which `explain` keeps to.
    scale_ : array of shape (d,)
        What the scalers divide each column of numbers by, its standard deviation if a pipeline does more with
        it, 1 for categories; `explain` weighs a unit change by 1 / scale_ unless told otherwise.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    All of scikit-learn's estimator checks pass with the defaults. One of them, `check_classifiers_train`,
    counts a reject as an error: it wants 83 % of overlapping training samples labelled right, and `predict`
    to be the most probable class wherever there are probabilities. So it passes only with thresholds that
    reject little: with "decision-distance" not at the knee but at ``("reject_rate", 0.05)``, with
    "probabilistic" at 0.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True, as_frame=True)
    >>> classifier = RejectOptionClassifier(threshold=("reject_rate", 0.1)).fit(X, y)
    >>> rejected = X[classifier.rejects(X)]
    >>> len(rejected), classifier.predict(rejected).unique().tolist()
    (10, [-1])
    >>> why = classifier.explain(rejected.iloc[0])
    >>> bool(why.certainty_before < classifier.threshold_ <= why.certainty)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        option: Any = "relative-similarity",
        threshold: Any = "knee",
        *,
        cv: int = 5,
        calibration: float = 0.3,
        local: bool = False,
        reject_label: Any = None,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.option = option
        self.threshold = threshold
        self.cv = cv
        self.calibration = calibration
        self.local = local
        self.reject_label = reject_label
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, *, calibration: Any = None, groups: Any = None) -> Self:
        """Train on samples X (n, d) with labels y (n,), choose the threshold, and return self.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            A frame may have text, categories, truth values and gaps.
        y : array-like of shape (n,)
        calibration : (X, y), optional
            Samples to hold a promise on, or to choose local thresholds, instead of a share of the above.
        groups : "class" or array-like of shape (n,), optional
            Let a risk hold within each group of samples at once, or for each predicted class. Nothing can be
            promised of one without held-out samples.
        """
        X = as_frame(X)
        fitting = check_fitting(self.estimator, self.option, self.cv, self.random_state, X)
        rule = check_rule(self.threshold, self.local)
        # Rows are an array of floats, or a table as it is.
        table = fitting.by_name or (is_table(X) and (self.estimator is not None or hasattr(X, "columns")))
        rows, labels = (validated_table if table else validated)(self, X, y=y)
        classes, _ = classes_of(labels, "y")
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        if fitting.is_complete:
            _check_complete(fitting.option, rows, classes)
            classes = fitting.option.classes
        reject_label = label_of_reject(classes, self.reject_label)
        whole = rows
        held_out, needed = None, needs_held_out(rule, self.local)
        if needed:
            check = validated_table if table else validated
            X, y, rows, labels, held_out = self._held_out(X, y, rows, labels, calibration, groups, check)
        if groups is not None and not (needed and rule[0] == "risk"):
            raise ValueError(f"groups cannot be given with the threshold {describe(self.threshold)}")
        if calibration is not None and not needed:
            raise ValueError(f"calibration cannot be given with the threshold {describe(self.threshold)}")
        folds = rule[0] == "risk" and not self.local if needed else not isinstance(rule, float)
        fitting = fitting.for_counts(np.unique(labels, return_counts=True)[1], chooses=folds)
        self.estimator_ = fitting.trained(X, y)
        # Steps that know names are asked by name.
        self.option_ = fitting.certainty(
            X if self.estimator_ and names else rows, labels, self.estimator_, names
        )
        self.scale_ = fitting.scale(X if self.estimator_ and names else rows, labels, self.estimator_)
        self.classes_, self.reject_label_ = classes, reject_label
        self.target_name_ = getattr(y, "name", None)
        self.observed_ = Observed.of(self.option_.columns.observed(whole))
        self.familiarity_ = Familiarity.of(self.option_, self.option_.columns.lifted(rows), labels)
        self.curve_ = self.operating_point_ = None
        if isinstance(rule, float):
            self.threshold_ = rule
            return self
        if held_out is None:
            self.curve_ = fitting.held_out_curve(self.option_, rows, labels)
            check_informative(self.curve_, self.option_.largest)
            self.operating_point_ = chosen_point(self.curve_, rule)
        else:
            self.option_, self.curve_, self.operating_point_ = fitting.calibrated(
                self.option_, rows, labels, held_out, rule, self.local
            )
        self.threshold_ = 0.0 if self.local else self.operating_point_.threshold
        return self

    def certainty(self, X: ArrayLike) -> Any:
        """Return r(x) of each sample, of shape (n,); a Series for a data frame."""
        samples = self._samples(X)
        return like(X, self.option_.certainty(samples), self.option_.name)

    def rejects(self, X: ArrayLike) -> Any:
        """Return whether r(x) < threshold_ for each sample, of shape (n,); a Series for a data frame."""
        return like(X, self.decided(X)[1], "rejected")

    def predict(self, X: ArrayLike) -> Any:
        """Return labels, `reject_label_` where rejected, of shape (n,); a Series for a data frame."""
        return like(X, with_rejects(*self.decided(X), self.reject_label_), self.target_name_)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> Any:
        """Return class probabilities that sum to 1, of shape (n, n_classes); a data frame for a data frame.

        Only with the probabilistic option. The certainty is the largest one before the division by the sum,
        unless the option normalises.
        """
        samples = self._samples(X)
        option: Any = copy.copy(self.option_)
        option.normalize = True  # itself it divides before anything underflows
        return like(X, option.probabilities(samples), columns=self.classes_)

    def coverage(self, X: ArrayLike) -> float:
        """Return the share of samples that are accepted."""
        return float(1 - np.mean(self.decided(X)[1]))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy on what is accepted, 0 with a warning if nothing is; see `coverage` too.

        It only grows with rejects: to search for parameters use `lvqrej.thresholds.cost_scorer`.
        """
        labels, rejected = self.decided(X)
        n, right = len(labels), np.asarray(y)
        if right.shape != (n,):
            raise ValueError(f"y must have shape ({n},); found shape {right.shape}")
        weights = np.ones(n) if sample_weight is None else check_vector(sample_weight, n, "sample_weight")
        total = weights[~rejected].sum()
        if not total > 0:
            warnings.warn("nothing is accepted: the score is 0", UndefinedMetricWarning, stacklevel=2)
            return 0.0
        return float(weights[~rejected & (labels == right)].sum() / total)

    def explain(
        self,
        X: ArrayLike,
        how: Any = counterfactual.explain,
        *,
        bounds: Any = "observed",
        grid: Any = "observed",
        **options: Any,
    ) -> Any:
        """Return for each sample the smallest change with which it would be accepted.

        Parameters
        ----------
        X : array-like of shape (n, d), or one sample: (d,), a Series or a dict of features to values
        how : function or str
            `lvqrej.explain`, or one of `lvqrej.variants`: sparsest, trade_off, several, robust, plausible.
        bounds : "observed", mapping of feature to (low, high) or to allowed levels, DataFrame or None
            Where answers have to lie. By default in the ranges of the training data, widened to the sample;
            of features that are named, within what is given instead; (None, None) for any value. None for no
            bounds at all.
        grid : "observed", mapping of feature to float or None
            How finely values are recorded. By default as the training data's columns are: whole numbers stay
            whole. None for any value.
        **options
            Those of `how`; of `lvqrej.explain`: weights, fixed, increase_only, decrease_only, constraints,
            target, integers, on_infeasible, n_jobs, progress; all in the units of the data. Without
            `weights` a change is measured as the scalers do: sum_k |delta_k| / scale_k.

        Returns
        -------
        Explanations, or Explanation for one sample
        """
        rows, single, index = self._given(X)
        rows = rows[0] if single else rows
        if isinstance(how, str):
            check_choice(how, "how", ("explain", *variants.__all__[1:]))
            how = counterfactual.explain if how == "explain" else getattr(variants, how)
        result = how(self.option_, self.threshold_, rows, **self.asked(bounds=bounds, grid=grid, **options))
        known = self.familiarity_ if self.familiarity_.distances else None
        if isinstance(result, Explanation):
            return replace(result.batch, familiarity=known)[result.row]
        return replace(result, familiarity=known, index=index)

    def sufficient_reason(self, X: ArrayLike, *, effort: int = EFFORT, k: int = 1, **options: Any) -> Any:
        """Return a smallest set of features whose values alone keep a sample rejected.

        Whatever the others are within `bounds`, by default the ranges of the training data, it stays so; see
        `lvqrej.reasons.sufficient_reason`.

        Parameters
        ----------
        X : array-like of shape (n, d), or one sample as in `explain`
            Rejected samples.
        effort : int
            How many sets of features are asked about.
        k : int
            How many different reasons are wanted.
        **options
            Those of `explain`; for the reason only `bounds` count.

        Returns
        -------
        Reason, or a list of them for several samples
        """
        rows, single, _ = self._given(X)
        rows = rows if single else X
        if single and hasattr(self, "feature_names_in_"):
            import pandas as pd

            rows = pd.DataFrame(rows, columns=self.feature_names_in_)
        reasons = self.explain(rows, **options, on_infeasible="skip").sufficient_reasons(effort, k)
        return reasons[0] if single else reasons

    def explain_per_class(self, X: ArrayLike, **options: Any) -> Any:
        """Return a table of what it would take to be accepted as each class, in the order of the cost.

        Takes the options of `explain` but `target` and `on_infeasible`.

        Returns
        -------
        DataFrame
            One row per class (and sample, if X has several): distance (infinite if impossible), lower_bound,
            gap, certainty, n_changed and changes, or why there is no answer.
        """
        import pandas as pd

        rows, single, index = self._given(X)
        who = range(len(rows)) if index is None else index
        answers = counterfactual.explain_per_class(
            self.option_, self.threshold_, rows, **self.asked(**options)
        )
        lines = [
            {"sample": sample, "class": label} | class_row(result, i)
            for i, sample in enumerate(who)
            for label, result in sorted(answers.items(), key=lambda item: item[1].distances[i])
        ]
        table = pd.DataFrame(lines, columns=None if lines else ["sample", "class"])
        table = table.set_index(["sample", "class"])
        return table.droplevel("sample") if single else table

    def cause(self, X: ArrayLike, level: float = 0.99) -> Any:
        """Return why each sample is rejected, as a list of `Cause`, or one of them for one sample.

        Ambiguous: two classes are nearly equally near. Unfamiliar: farther from every prototype than a share
        `level` of the training samples.
        """
        rows, single, _ = self._given(X)
        samples, option = self.option_.columns.lifted(rows), self.option_.unrestricted
        if not self.familiarity_.distances:
            raise ValueError(f"option must rest on prototypes to tell a cause; found {describe(option)}")
        causes = self.familiarity_.causes(option, *option.judged(samples, self.threshold_), level)
        return causes[0] if single else causes

    def report(self, X: ArrayLike, y: Any = None, groups: Any = None, **options: Any) -> RejectReport:
        """Return what a whole table of samples says: how often, why, whom and for want of what it rejects.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Samples, accepted and rejected, that the classifier was not fitted to.
        y : array-like of shape (n,), optional
            Their labels; with them errors are counted.
        groups : array-like of shape (n,) or name of a column of X, optional
            What to compare, e.g. a hospital or a sex; at most 50 different values.
        **options
            `reasons` (20): for how many rejects, drawn at random, a sufficient reason is asked for;
            `random_state` (0): seed of that; and those of `explain` but `how` and `on_infeasible`, such as
            `fixed`, `n_jobs` and `progress`.

        Returns
        -------
        RejectReport
            With `to_frame()`, `plot()`, `to_html(file)`, and as text.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> X, y = load_wine(return_X_y=True, as_frame=True)
        >>> classifier = RejectOptionClassifier(threshold=("reject_rate", 0.1)).fit(X[::2], y[::2])
        >>> report = classifier.report(X[1::2], y[1::2], reasons=5)
        >>> report.rates[["count", "of"]].head(3).to_numpy().tolist()
        [[83, 89], [6, 89], [0, 83]]
        """
        from lvqrej.report import reject_report

        check_is_fitted(self)
        return reject_report(self, X, y, groups, **options)

    def common_change(
        self, X: ArrayLike, share: float = 0.9, *, bounds: Any = "observed", **options: Any
    ) -> CommonChange:
        """Return the smallest offset, the same for all samples, that gets a share of them accepted.

        Takes `bounds` and the options of `explain`, and `effort`; see `lvqrej.common.common_change`. Values
        need not stay on the grid of the data.
        """
        samples, _, _ = self._given(X)
        asked = self.asked(bounds=bounds, grid=None, **options)
        return common_change(self.option_, self.threshold_, samples, share, **asked)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted classifier to a file without pickle, at once or not at all.

        The training data is not in it but for the range of each feature, nor the trained scikit-learn
        estimator: what it learned, prototypes and metric in the units of the data, is. See `lvqrej.storage`.
        """
        file = check_path(path, "path")
        check_is_fitted(self)
        content = self.get_params(deep=False) | {name: getattr(self, name) for name in _LEARNED}
        if self.option is self.option_:
            content["option"] = None  # one copy is enough
        content["feature_names_in_"] = getattr(self, "feature_names_in_", None)
        storage.save(content | {"feature_names": self.option_.feature_names}, file)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Return the classifier that `save` wrote, or raise a `StorageError` that says what is wrong."""
        content = storage.load(check_path(path, "path"))
        try:
            option = content["option_"]
            option.feature_names = content["feature_names"]
            parameters = {name: content[name] for name in cls().get_params(deep=False)}
            classifier = cls(**parameters | {"option": content["option"] or option})
            classifier.estimator_ = None
            for name in _LEARNED:
                setattr(classifier, name, content[name])
            if content["feature_names_in_"] is not None:
                classifier.feature_names_in_ = content["feature_names_in_"]
            if {len(option.columns.columns)} != {classifier.n_features_in_, *classifier.scale_.shape}:
                raise ValueError("model, scale and number of features do not fit together")
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise storage.StorageError(f"{path} is not a complete stored classifier: {error!r}") from error
        return classifier

    def _held_out(self, X: Any, y: Any, rows: Any, labels: Any, given: Any, groups: Any, check: Any) -> Any:
        """Return X, y, rows and labels to train on, and a held-out share of them or what is given."""
        if isinstance(groups, str):
            check_choice(groups, "groups", ("class",))
        if given is None:
            parts = divided(self.calibration, self.random_state, groups, X, y, rows, labels)
            return parts[0], parts[2], parts[4], parts[6], HeldOut(parts[5], parts[7], parts[8])
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise ValueError(f"calibration must be a pair of X and y; found {describe(given)}")
        held_out = check(self, as_frame(given[0]))
        right = np.asarray(given[1])
        if right.shape != (len(held_out),) or not len(right):
            raise ValueError(f"calibration must have a label for each sample; found {describe(given[1])}")
        return X, y, rows, labels, HeldOut(held_out, right, groups)

    def decided(self, X: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return each sample's label, rejected or not, and whether it is rejected, both of shape (n,)."""
        samples = self._samples(X)
        verdicts, accepted = self.option_.judged(samples, self.threshold_)
        return self.option_.classes[verdicts.label], ~accepted

    def asked(self, *, bounds: Any = "observed", grid: Any = "observed", **options: Any) -> dict[str, Any]:
        """Return the options of `explain` with what the classifier knows of the data."""
        names, given = self.option_.columns.names, options.get("weights")
        names = self.option_.feature_names or names
        if given is None or isinstance(given, Mapping):
            own = {feature_index(key, "weights", names): value for key, value in (given or {}).items()}
            options["weights"] = dict(enumerate((1 / self.scale_).tolist())) | own
        if isinstance(bounds, str) and check_choice(bounds, "bounds", ("observed",)):
            bounds = self.observed_
        elif bounds is not None and not isinstance(bounds, Observed):
            bounds = replace(self.observed_, own=bounds)
        if isinstance(grid, str) and check_choice(grid, "grid", ("observed",)):
            grid = self.observed_
        return {"bounds": bounds, "grid": grid, **options}

    def _rows(self, X: Any) -> Any:
        """Return X as an array of floats (n, d), or as the table it is, its columns checked."""
        check_is_fitted(self)
        if self.option_.columns.takes_numbers:
            return validated(self, X)
        return validated_table(self, as_frame(X))

    def _samples(self, X: Any) -> Floats:
        """Return X lifted, an array (n, D), after checking its columns against those of `fit`."""
        rows = self._rows(X)
        return self.option_.columns.lifted(rows)

    def _given(self, X: Any) -> tuple[Any, bool, Any]:
        """Return X as a table (n, d), whether it was one sample, and its index if it was a data frame."""
        if dimensions(X) != 1 and not isinstance(X, Mapping):
            return self._rows(X), False, getattr(X, "index", None)
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        X = as_sample(X, None if known is None else known.tolist())
        found = feature_names_of(X)
        if known is not None and found is not None and found != known.tolist():
            other = difference(found, known.tolist())
            raise ValueError(
                f"X must have the features {known.tolist()}, in this order; found {found}{other}"
            )
        if self.option_.columns.takes_numbers:
            return check_samples(np.asarray(X)[None], self.n_features_in_), True, None
        return np.array(X, dtype=object)[None], True, None


def _check_complete(option: Any, rows: Any, classes: NDArray[Any]) -> None:
    """Raise a ValueError if validation samples do not fit a certainty that has its model already."""
    number = len(option.columns.columns)
    if rows.shape[1] != number:
        raise ValueError(f"X must have the option's {number} features; found {rows.shape[1]}")
    unknown = [label for label in classes.tolist() if label not in option.classes.tolist()]
    if unknown:
        raise ValueError(f"y must name classes of the option, {option.classes.tolist()}; found {unknown}")
