"""How certain is the model? The paper's certainties r(x); an input is accepted where r(x) >= theta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lvqrej.cells import AcceptedSet, Cells
from lvqrej.columns import Columns
from lvqrej.prototypes import PrototypeModel, squared_distances
from lvqrej.validation import LARGEST, Floats, check_choice, check_number, check_vector, describe

Indices = NDArray[np.intp]


class Verdicts(NamedTuple):
    """All that one evaluation tells of samples, arrays of shape (n,).

    `label` and `rival` are the two classes in question, by their indices: the class of an accepted sample and
    the one it is compared with. `distance` and `rival_distance` are the distances |L (x - p)| to the nearest
    prototypes of the two. A certainty that rests on no prototypes has the rival -1 and infinite distances.
    `asked` is what the nearest prototype asks for itself and `certainty` exceeds (`LocalThresholds`), else 0.
    """

    certainty: Floats
    label: Indices
    rival: Indices
    distance: Floats
    rival_distance: Floats
    asked: Floats


class Certainty(ABC):
    """What every certainty offers: r(x), the test r(x) >= theta, the label that goes with it, the cells.

    A certainty of your own is a subclass with `certainty`, `predict` and `cells`, and the attributes below.
    """

    #: The paper's name of the certainty, as sentences and figures use it.
    name: ClassVar[str]
    #: The largest value it can have.
    largest: float = 1.0
    #: Whether it falls where a sample is far from every prototype.
    sees_unfamiliarity: bool = True
    classes: NDArray[Any]
    n_features: int
    feature_names: list[str] | None = None

    @abstractmethod
    def certainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return r(x) for each sample, of shape (n,)."""

    @abstractmethod
    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label an accepted sample gets, of shape (n,)."""

    @abstractmethod
    def cells(self, theta: float) -> AcceptedSet:
        """Return the accepted set r(x) >= theta."""

    def accepts(self, X: ArrayLike, theta: float) -> NDArray[np.bool_]:
        """Return whether r(x) >= theta for each sample, of shape (n,), without any tolerance."""
        return self.certainty(X) >= check_theta(theta)

    def verdicts(self, X: ArrayLike) -> Verdicts:
        """Return certainty and class, and what they rest on, of each sample."""
        labels = self.predict(X)
        label = (labels[:, None] == self.classes).argmax(axis=1)  # the classes may come in any order
        far = np.full(len(labels), np.inf)
        return Verdicts(self.certainty(X), label, np.full(len(labels), -1), far, far, np.zeros(len(labels)))

    def judged(self, X: ArrayLike, theta: float) -> tuple[Verdicts, NDArray[np.bool_]]:
        """Return the verdicts and whether each sample is accepted, if possible by one evaluation."""
        verdicts = self.verdicts(X)
        if type(self).accepts is Certainty.accepts:
            return verdicts, verdicts.certainty >= theta
        return verdicts, self.accepts(X, theta)

    def models(self) -> dict[tuple[int, ...], PrototypeModel]:
        """Return the prototype models it rests on: one for all classes under (), or one per pair (i, j)."""
        return {}

    def nearest(self, X: ArrayLike) -> Indices:
        """Return the prototype whose own threshold would count for each sample, of shape (n,)."""
        raise ValueError(f"local thresholds need one nearest prototype; found {describe(self)}")

    @property
    def columns(self) -> Columns:
        """How a table's columns become its features."""
        models = self.models()
        if not models:
            return Columns.numeric(self.n_features, self.feature_names)
        return next(iter(models.values())).columns

    @property
    def unrestricted(self) -> Certainty:
        """The certainty itself, or the one whose accepted set it restricts."""
        return self


class Restricted(Certainty):
    """A certainty that accepts only a part of what another one does; subclasses say which in `judged`.

    What a subclass does not change is the other's.
    """

    def __init__(self, option: Certainty) -> None:
        check_option(option)
        self.option = option
        self.name = option.name  # type: ignore[misc]  # that of the certainty, whatever it is
        self.largest, self.sees_unfamiliarity = option.largest, option.sees_unfamiliarity
        self.classes, self.n_features = option.classes, option.n_features
        self.feature_names = option.feature_names

    @property
    def unrestricted(self) -> Certainty:
        """The certainty without the restriction."""
        return self.option

    @abstractmethod
    def judged(self, X: ArrayLike, theta: float) -> tuple[Verdicts, NDArray[np.bool_]]:
        """Return the verdicts of the certainty itself, and whether each sample is accepted."""

    def accepts(self, X: ArrayLike, theta: float) -> NDArray[np.bool_]:
        """Return whether each sample is accepted, of shape (n,)."""
        return self.judged(X, check_theta(theta))[1]

    def certainty(self, X: ArrayLike) -> Floats:
        """Return that of the certainty itself, of shape (n,)."""
        return self.option.certainty(X)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label an accepted sample gets, of shape (n,)."""
        return self.option.predict(X)

    def cells(self, theta: float) -> AcceptedSet:
        """Return the accepted set of the certainty itself."""
        return self.option.cells(theta)

    def verdicts(self, X: ArrayLike) -> Verdicts:
        """Return those of the certainty itself."""
        return self.option.verdicts(X)

    def models(self) -> dict[tuple[int, ...], PrototypeModel]:
        """Return those of the certainty itself."""
        return self.option.models()


class PrototypeCertainty(Certainty):
    """A certainty read off the nearest prototype p+ and the nearest one of another class, p-.

    What exceeds the threshold of p+ itself, of which there is one per prototype; they are 0 unless given.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, PrototypeModel):
            raise ValueError(f"model must be a PrototypeModel; found {describe(model)}")
        self.model = model
        self.classes = model.classes
        self.n_features = model.n_features
        self.feature_names = model.feature_names
        self.thresholds = np.zeros(len(model.prototypes))

    def certainty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return r(x), less the threshold of p+, of shape (n,)."""
        return self._of(*self._nearest_two(X))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest prototype, of shape (n,)."""
        return self.model.predict(X)

    def verdicts(self, X: ArrayLike) -> Verdicts:
        """Return the certainty, the classes of p+ and p-, the distances and the threshold of p+."""
        plus, minus, d_plus, d_minus = nearest = self._nearest_two(X)
        group, distances = self.model.class_index, (np.sqrt(d_plus), np.sqrt(d_minus))
        return Verdicts(self._of(*nearest), group[plus], group[minus], *distances, self.thresholds[plus])

    def models(self) -> dict[tuple[int, ...], PrototypeModel]:
        """Return the one model."""
        return {(): self.model}

    def nearest(self, X: ArrayLike) -> Indices:
        """Return the index of p+ for each sample, of shape (n,), the first on a tie."""
        return self.model.distances(X).argmin(axis=1)

    def cells(self, theta: float) -> Cells:
        """Return the accepted set: `local_cells` with theta added to all thresholds.

        The latest is kept: who explains one reject after another has one threshold.
        """
        theta, latest = check_theta(theta), vars(self).get("_latest_cells")
        if latest is None or latest[0] != theta:
            latest = self._latest_cells = theta, self.local_cells(self.thresholds + theta)
        return latest[1]

    @abstractmethod
    def local_cells(self, thresholds: Floats) -> Cells:
        """Return the set r(x) >= thresholds[j], p_j the nearest prototype, closed; of shape (m,)."""

    def _of(self, plus: Indices, minus: Indices, d_plus: Floats, d_minus: Floats) -> Floats:
        """Return r(x) = (d- - d+) / scale, 0 where p+ and p- coincide, less the threshold, (n,)."""
        scale = self._scale(plus, minus, d_plus + d_minus)
        apart = (scale > 0) & ~self._twins[plus, minus]
        r = np.divide(d_minus - d_plus, scale, out=np.zeros_like(scale), where=apart)
        return r - self.thresholds[plus]

    @abstractmethod
    def _scale(self, plus: Indices, minus: Indices, total: Floats) -> Floats:
        """Return what d- - d+ is divided by, from the indices of p+ and p- and the sum d- + d+."""

    @cached_property
    def _twins(self) -> NDArray[np.bool_]:
        """Which prototypes coincide in the metric, of shape (m, m)."""
        return separations(self.model.prototypes, self.model.L) == 0

    def _cells(self, plus: Indices, rows: NDArray[np.intp], **constraints: Any) -> Cells:
        """Return the cells with these rows of constraints, accepted as the classes of `plus`."""
        model = self.model
        used, places = np.unique(np.append(rows, -1), return_inverse=True)
        shape = np.broadcast_shapes(*(np.shape(part) for part in constraints.values()))
        flat: dict[str, Any] = {
            name: np.broadcast_to(part, shape).ravel()[used[1:]] for name, part in constraints.items()
        }
        return Cells(
            metrics=model.L[None],
            points=model.prototypes,
            point_metric=np.zeros(len(model.prototypes), dtype=np.int64),
            rows=places[:-1].reshape(rows.shape) - 1,
            labels=model.class_index[plus].astype(np.int64),
            point_names=[f"prototype {j} ({label})" for j, label in enumerate(model.labels, 1)],
            **flat,
        )

    def _nearest_two(self, X: ArrayLike) -> tuple[Indices, Indices, Floats, Floats]:
        """Return the indices of p+ and p- (the first on a tie) and the distances d+ and d-."""
        distances = self.model.distances(X)
        rows = np.arange(len(distances))
        plus = distances.argmin(axis=1)
        own_class = self.model.class_index == self.model.class_index[plus][:, None]
        minus = np.where(own_class, np.inf, distances).argmin(axis=1)
        return plus, minus, distances[rows, plus], distances[rows, minus]


class RelativeSimilarity(PrototypeCertainty):
    """Relative similarity, between 0 (on a decision boundary) and 1 (on a prototype).

    r(x) = (d- - d+) / (d- + d+) with d+ = d(x, p+), d- = d(x, p-). Where p+ and p- coincide in the metric, up
    to rounding, it is 0.

    Examples
    --------
    >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> option.certainty([[0, 0], [0.5, 0], [1, 3]])
    array([1. , 0.8, 0. ])
    >>> option.accepts([[0, 0], [0.5, 0], [1, 3]], theta=0.5)
    array([ True,  True, False])
    """

    name = "relative similarity"

    def _scale(self, plus: Indices, minus: Indices, total: Floats) -> Floats:
        return total

    def local_cells(self, thresholds: Floats) -> Cells:
        """Return one cell per target prototype p+, an Apollonius ball for each p_j of another class.

        (1 + theta) d(x, p+) <= (1 - theta) d(x, p_j). Their union is exactly {r >= theta}: in the cell of p+
        the nearest prototype has p+'s label and is at least as near, and an accepted x lies in the cell of
        its own nearest prototype. A p+ that coincides with a prototype of another class has none; theta > 1
        leaves none; theta <= 0 accepts everything, and the cells are the classes' regions. Where another
        prototype of the class asks for more than p+, the cell ends where that one is nearer.

        >>> option = RelativeSimilarity(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
        >>> ball = option.cells(0.5)[0].balls[0]
        >>> ball.centre, round(ball.radius, 4)
        (array([-1.,  0.]), 1.7321)
        """
        theta, group = np.maximum(thresholds, 0.0), self.model.class_index
        other, m = group != group[:, None], len(group)
        twin, stricter = self._twins & other, ~other & (theta > theta[:, None])
        # On a tie the first prototype wins, so at theta = 0 a later one has no region of its own.
        lost = np.where(theta[:, None] > 0, twin, np.tril(twin)) | np.tril(stricter & self._twins)
        plus = np.flatnonzero(~(lost.any(axis=1) | (theta > 1)))
        # Constraint p * m + j compares target p with p_j.
        table = np.where((other | stricter) & ~self._twins, np.arange(m * m).reshape(m, m), -1)
        share = np.where(other, theta[:, None], 0.0)
        return self._cells(
            plus, table[plus], near=np.arange(m)[:, None], far=np.arange(m)[None], alpha=1 + share,
            beta=1 - share, gamma=0.0,
        )  # fmt: skip


class DecisionDistance(PrototypeCertainty):
    """Distance to the decision boundary, 0 on it and growing without bound away from it.

    r(x) = (d- - d+) / (2 D(p+, p-)), and 0 where p+ and p- coincide, up to rounding.

    Parameters
    ----------
    model : PrototypeModel
    norm : {"metric", "euclidean"}
        ``D(p, q) = |L (p - q)|^2``, as the paper's appendix expands it, or ``|p - q|^2``, as its
        definition prints it.

    Examples
    --------
    >>> option = DecisionDistance(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
    >>> option.certainty([[0, 0], [0.5, 0], [-3, 0]])
    array([0.5 , 0.25, 2.  ])
    """

    name = "distance to the decision boundary"
    largest = np.inf
    sees_unfamiliarity = False

    def __init__(self, model: Any, norm: str = "metric") -> None:
        super().__init__(model)
        self.norm = check_choice(norm, "norm", ("metric", "euclidean"))
        L = self.model.L if norm == "metric" else np.eye(self.n_features)
        self.separations = separations(self.model.prototypes, L)

    def _scale(self, plus: Indices, minus: Indices, total: Floats) -> Floats:
        return 2 * self.separations[plus, minus]

    def local_cells(self, thresholds: Floats) -> Cells:
        """Return one cell per ordered pair (p+, p-) of prototypes of different classes, all half-spaces.

        p+ is nearest in its class, p- nearest among the other classes, and d- - d+ >= 2 theta D(p+, p-),
        with the threshold of p+. The union is {r >= theta}, closed (r jumps where p+ or p- changes). Pairs
        that coincide have no cell; of prototypes of one class that coincide only the first has;
        theta <= 0 accepts everything.

        >>> option = DecisionDistance(PrototypeModel([[0, 0], [2, 0]], ["a", "b"]))
        >>> option.cells(0.25)[0].half_spaces[0].excess(np.array([[0.25, 7.0], [1.0, 7.0]]))
        array([-1.,  2.])
        """
        theta, group = np.maximum(thresholds, 0.0)[:, None], self.model.class_index
        other, twin, m = group != group[:, None], self._twins, len(group)
        first = ~np.tril(twin & ~other, -1).any(axis=1)
        crossed = twin & other
        lost = ~first | np.where(theta > 0, crossed, np.tril(crossed)).any(axis=1)
        plus, minus = np.nonzero(other & ~lost[:, None])
        lead = ~(np.tril(twin, -1)[minus] & other[plus]).any(axis=1)
        plus, minus = plus[lead], minus[lead]
        # Constraint p * m + a keeps p nearer than p_a; the same number plus m * m asks for the margin, too.
        a = np.arange(m)[None]
        near = np.where(other[plus], minus[:, None], plus[:, None])
        facets = np.where((a != near) & ~twin[near, a], near * m + a, -1)
        rows = np.where(a == plus[:, None], (m * m + plus * m + minus)[:, None], facets)
        return self._cells(
            plus, rows, near=np.arange(m)[None, :, None], far=np.arange(m)[None, None], alpha=1.0,
            beta=1.0, gamma=np.stack([np.zeros((m, m)), 2 * theta * self.separations]),
        )  # fmt: skip


class LocalThresholds(PrototypeCertainty):
    """A certainty with one threshold per prototype: its margin r(x) - theta_j, p_j the nearest prototype.

    Accepted at 0 is what reaches the threshold of its own nearest prototype (Fischer, Hammer and Wersing);
    any other theta is added to all of them.

    Parameters
    ----------
    option : RelativeSimilarity or DecisionDistance
    thresholds : array-like of shape (m,)
        One per prototype of the option's model; `lvqrej.thresholds.local_curve` finds good ones.

    Examples
    --------
    >>> model = PrototypeModel([[0, 0], [2, 0], [4, 0]], ["a", "b", "b"])
    >>> option = LocalThresholds(RelativeSimilarity(model), [0.5, 0.9, 0.2])
    >>> option.accepts([[0.5, 0], [1.5, 0], [3.5, 0]], 0)
    array([ True, False,  True])
    """

    def __init__(self, option: Any, thresholds: ArrayLike) -> None:
        check_option(option)
        if not isinstance(option, PrototypeCertainty) or isinstance(option, LocalThresholds):
            raise ValueError(f"option must be read off one nearest prototype; found {describe(option)}")
        super().__init__(option.model)
        self.option = option
        self.thresholds = check_vector(thresholds, len(option.model.prototypes), "thresholds")
        self.name = f"margin of {option.name}"  # type: ignore[misc]
        self.largest = option.largest - float(self.thresholds.min())
        self.sees_unfamiliarity = option.sees_unfamiliarity

    def local_cells(self, thresholds: Floats) -> Cells:
        """Return the accepted set, closed: it jumps where a nearer prototype of the class asks for more."""
        return self.option.local_cells(thresholds)

    def _scale(self, plus: Indices, minus: Indices, total: Floats) -> Floats:
        return self.option._scale(plus, minus, total)


def separations(P: Floats, L: Floats) -> Floats:
    """Return |L (p - q)|^2 between prototypes, of shape (m, m), and 0 where that is nothing but rounding.

    A metric of deficient rank maps twins onto each other up to rounding; dividing by that is noise. A feature
    in which two prototypes have the same digits adds none.
    """
    result = squared_distances(P, P, L)
    magnitudes, size = np.abs(P), np.abs(L.T)
    for p, row, distances in zip(P, magnitudes, result, strict=True):
        noise = 4 * np.finfo(float).eps * (np.where(p == P, 0.0, row + magnitudes) @ size)
        distances[distances <= np.square(noise).sum(axis=1)] = 0
    return result


def check_option(option: Any) -> None:
    """Raise a ValueError unless the option is a certainty."""
    if not isinstance(option, Certainty):
        raise ValueError(f"option must be a certainty such as RelativeSimilarity; found {describe(option)}")


def check_theta(theta: Any) -> float:
    """Return the threshold as a finite float, or raise a ValueError."""
    return check_number(theta, "theta", low=-LARGEST, high=LARGEST)
