"""Generalized (matrix) learning vector quantization: sklearn-lvq's estimators, trained to convergence."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted
from sklearn_lvq import GlvqModel, GmlvqModel

from lvqrej.prototypes import squared_distances
from lvqrej.training import (
    Coordinates,
    Indices,
    Problem,
    balance,
    class_centres,
    cost_weights,
    distances_between,
    given_prototypes,
    initial_matrix,
    minimise,
    reach,
)
from lvqrej.validation import (
    LARGEST,
    Floats,
    check_choice,
    check_number,
    classes_of,
    validated,
)


class PrototypeWarning(UserWarning):
    """A prototype represents nothing: it wins no training sample, or lies outside the data of its class."""


class GLVQ(GlvqModel):  # type: ignore[misc]  # sklearn-lvq is untyped
    """Generalized learning vector quantization.

    Learns prototypes p_j by minimising the mean of phi(c mu) over the training samples,
    mu = (d+ - d-) / (d+ + d-), where d+ and d- are the squared Euclidean distances of the sample to the
    nearest prototype of its own and of another class. A new sample gets the label of its nearest prototype.

    Parameters
    ----------
    prototypes_per_class : int or list of int
        One number for all classes, or one for each in sorted order. A single prototype starts at the mean
        of its class, several at the centres of a k-means clustering of it.
    initial_prototypes : array-like of shape (m, d + 1), optional
        Where to start instead, the label in the last column; `prototypes_per_class` is then not used.
    max_iter : int
        Most iterations of L-BFGS; a ConvergenceWarning tells if they did not suffice.
    gtol : float
        The largest entry of the gradient at which training stops, in units of the data's own spread. It
        also stops where nothing is gained any more: minima may lie on kinks, where no gradient vanishes.
    beta : float
        Steepness of the logistic squashing.
    c : list of (label, label, weight), optional
        The weights c, by the class of the sample and that of the nearest wrong prototype; 1 if not listed.
    display : bool
        Whether to print the cost after each iteration.
    random_state : int, RandomState instance or None
        Seed of the k-means clustering; nothing else is random.
    squashing : {"logistic", "identity"}
        phi(t) = 1 / (1 + exp(-beta t)) or phi(t) = t.
    keep_history : bool
        Whether to keep cost, prototypes (and matrix) of each iteration in `history_`.
    class_weight : dict of label to float, "balanced" or None
        How much a sample of each class counts. "balanced" gives all classes the same sum: without it a rare
        class may lose its prototype, as the cost is least where it wins nothing.

    Attributes
    ----------
    w_ : array of shape (m, d)
        The prototypes.
    c_w_ : array of shape (m,)
        Their labels.
    classes_ : array of shape (n_classes,)
    cost_ : float
        The cost reached.
    n_iter_ : int
        Iterations of L-BFGS.
    history_ : list of dict
        Only with `keep_history`: "cost", "w" and (of a GMLVQ) "omega" before the first and after each
        iteration.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    Where minimising the cost takes a prototype farther from all data than half their range, training starts
    again with that as a bound. A `PrototypeWarning` names prototypes that win no training sample or end
    outside the data of their class.

    Examples
    --------
    >>> model = GLVQ().fit([[0, 0], [0, 1], [4, 0], [4, 1]], ["a", "a", "b", "b"])
    >>> model.w_.round(2)
    array([[-0.06,  0.5 ],
           [ 4.06,  0.5 ]])
    >>> model.predict([[1, 7]])
    array(['a'], dtype='<U1')
    """

    _learns_matrix: ClassVar[bool] = False
    #: Only GMLVQ learns a matrix, has a penalty on it, and may be told where it starts.
    regularization: float = 0.0
    initial_matrix: Any = None
    initialdim: int | None = None

    def __init__(
        self,
        prototypes_per_class: Any = 1,
        initial_prototypes: Any = None,
        max_iter: int = 2500,
        gtol: float = 1e-6,
        beta: float = 2,
        c: Any = None,
        display: bool = False,
        random_state: Any = None,
        squashing: str = "logistic",
        keep_history: bool = False,
        class_weight: Any = None,
    ) -> None:
        GlvqModel.__init__(
            self, prototypes_per_class, initial_prototypes, max_iter, gtol, beta, c, display, random_state
        )
        self.squashing = squashing
        self.keep_history = keep_history
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Tags:
        # sklearn-lvq lists BaseEstimator before ClassifierMixin, which hides that these are classifiers.
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        tags.target_tags.required = True
        tags.input_tags.sparse = True  # what a OneHotEncoder gives; it is made dense
        return tags

    def fit(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from samples `x` (n, d) and labels `y` (n,) and return self."""
        X, labels = validated(self, x, y=y)
        self._check_parameters()
        self.classes_, targets = classes_of(labels, "y")
        if self.initial_prototypes is not None:
            P, classes = given_prototypes(self.initial_prototypes, X.shape[1], self.classes_)
        else:
            P, classes = class_centres(
                X, targets, self.classes_, self.prototypes_per_class, self.random_state
            )
        self.c_w_ = self.classes_[classes]
        penalty, L = float(self.regularization), None
        space = Coordinates.of(X, whiten=self._learns_matrix, regularization=penalty)
        if self._learns_matrix:
            L = initial_matrix(self.initial_matrix, self.initialdim, P, space, penalty)
            self.dim_ = len(L)
        problem = Problem(
            space.to(X), targets, classes, cost_weights(self.c, self.classes_),
            float(self.beta) if self.squashing == "logistic" else 0.0,
            penalty, space.W, balance(self.class_weight, self.classes_, targets),
        )  # fmt: skip
        self._train(problem, space.to(P), L, space)
        self._warn_of_prototypes(X, targets, classes, space.std)
        return self

    def _train(self, problem: Problem, P: Floats, L: Floats | None, space: Coordinates) -> None:
        """Minimise the cost from P and L and set the fitted attributes."""
        history: list[dict[str, Any]] = []

        def fitted(cost: float, P: Floats, L: Floats | None) -> dict[str, Any]:
            found: dict[str, Any] = {"cost": float(cost), "w": space.back(P)}
            if L is not None:
                omega = L @ space.W.T
                found["omega"] = omega / np.linalg.norm(omega)
            return found

        def watch(cost: float, P: Floats, L: Floats | None) -> None:
            if self.display:
                print(f"iteration {len(history)}: cost {cost:.10g}")
            history.append(fitted(cost, P, L))

        watching = watch if self.keep_history or self.display else None
        options = {"gtol": self.gtol, "max_iter": self.max_iter, "watch": watching}
        solution, box = minimise(problem, P, L, **options), reach(problem.X)
        if (np.clip(solution.P, *box) != solution.P).any():
            history.clear()
            solution = minimise(problem, np.clip(P, *box), L, box=box, **options)
        for name, value in fitted(solution.cost, solution.P, solution.L).items():
            setattr(self, f"{name}_", value)
        self.n_iter_ = solution.n_iter
        self.history_ = history if self.keep_history else []
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.max_iter} iterations: increase max_iter, "
                "scale the features (StandardScaler) or loosen gtol",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _warn_of_prototypes(self, X: Floats, targets: Indices, classes: Indices, std: Floats) -> None:
        """Warn of prototypes that win no sample, or lie farther out than all samples of their class."""
        L = self._matrix()
        wins = np.isin(np.arange(len(classes)), distances_between(L @ X.T, self.w_ @ L.T).argmin(axis=0))
        away = np.zeros(len(classes), dtype=bool)
        for label in range(len(self.classes_)):
            own, mine = X[targets == label], classes == label
            centre = own.mean(axis=0)
            radius = np.square((own - centre) / std).sum(axis=1).max(initial=len(std))  # that of all samples
            away[mine] = np.square((self.w_[mine] - centre) / std).sum(axis=1) > radius
        for which, what in (
            (~wins, "wins no training sample"),
            (away & wins, "lies outside its class's data"),
        ):
            if which.any():
                labels = ", ".join(sorted({repr(label) for label in self.c_w_[which].tolist()}))
                warnings.warn(
                    f"{type(self).__name__}: a prototype of class {labels} {what}: scale the features, try "
                    "class_weight='balanced' or another number of prototypes_per_class",
                    PrototypeWarning,
                    stacklevel=3,
                )

    def _check_parameters(self) -> None:
        """Raise a ValueError that names the first parameter with a value that is not allowed."""
        check_number(self.max_iter, "max_iter", low=1, integer=True)
        check_number(self.gtol, "gtol", low=0, low_open=True)
        check_number(self.beta, "beta", low=0, low_open=True, high=LARGEST)
        check_choice(self.squashing, "squashing", ("logistic", "identity"))
        check_number(self.regularization, "regularization", low=0, high=1e100)
        if self.random_state is not None and not isinstance(self.random_state, np.random.RandomState):
            check_number(self.random_state, "random_state", low=0, high=2**32 - 1, integer=True)

    def _matrix(self) -> Floats:
        """Return L of the metric that was learned, (k, d); the identity if none is."""
        return self.omega_ if self._learns_matrix else np.eye(self.w_.shape[1])

    def _compute_distance(self, x: ArrayLike, w: Floats | None = None) -> Floats:
        """Return squared distances of samples to prototypes, of shape (n, m)."""
        check_is_fitted(self, "w_")
        return squared_distances(validated(self, x), self.w_ if w is None else w, self._matrix())

    def predict(self, x: ArrayLike) -> NDArray[Any]:
        """Return the label of the nearest prototype (the first one on a tie), of shape (n,)."""
        nearest = self._compute_distance(x).argmin(axis=1)
        return self.c_w_[nearest]

    def decision_function(self, x: ArrayLike) -> Floats:
        """Return by how much the nearest prototype of each class is nearer than that of any other.

        Of shape (n, n_classes), or for two classes (n,): the value of the second one.
        """
        distances = self._compute_distance(x)
        own = self.c_w_ == self.classes_[:, None]
        nearest = np.stack([distances[:, same].min(axis=1) for same in own], axis=1)
        others = np.stack([distances[:, ~same].min(axis=1) for same in own], axis=1)
        scores = others - nearest
        return scores[:, 1] if len(self.classes_) == 2 else scores

    def phi(self, x: ArrayLike) -> Floats:
        """Return the squashing phi(x)."""
        return expit(self.beta * np.asarray(x)) if self.squashing == "logistic" else np.asarray(x, float)

    def phi_prime(self, x: ArrayLike) -> Floats:
        """Return the derivative of the squashing."""
        values = self.phi(x)
        return self.beta * values * (1 - values) if self.squashing == "logistic" else np.ones_like(values)


class GMLVQ(GLVQ, GmlvqModel):  # type: ignore[misc]
    """Generalized matrix learning vector quantization.

    Learns prototypes as `GLVQ` does and with them the metric d(x, p) = |L (x - p)|^2. The cost is that of
    `GLVQ` minus `regularization` times the log-determinant of L L' / trace(L L').

    Parameters
    ----------
    initial_matrix : array-like of shape (k, d), optional
        L to start from. Otherwise the identity in units of the features' standard deviations or, if
        `initialdim` asks for fewer rows, the first directions in which the initial prototypes differ (the
        axes of a linear discriminant analysis).
    regularization : float
        Weight of the log-determinant, at least 0: keeps L from losing rank. With 0 a matrix learned from
        dependent columns may collapse, and then all certainties lie next to 1.
    initialdim : int, optional
        Number k of rows of L, an upper bound of the metric's rank; the number of features if None.
    prototypes_per_class, initial_prototypes, max_iter, gtol, beta, c
        See `GLVQ`.
    display, random_state, squashing, keep_history, class_weight
        See `GLVQ`.

    Attributes
    ----------
    omega_ : array of shape (k, d)
        L, scaled such that Omega = L'L has trace 1.
    dim_ : int
        Its number of rows.
    w_, c_w_, classes_, cost_, n_iter_, history_, n_features_in_, feature_names_in_
        See `GLVQ`.

    Examples
    --------
    The second feature says nothing about the class, and the metric learns to ignore it:

    >>> X = [[0, 0], [1, 9], [0, 3], [5, 1], [6, 8], [5, 4]]
    >>> model = GMLVQ().fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> relevances = np.diag(model.omega_.T @ model.omega_)
    >>> bool(relevances[0] > 0.9)
    True
    """

    _learns_matrix = True

    def __init__(
        self,
        prototypes_per_class: Any = 1,
        initial_prototypes: Any = None,
        initial_matrix: Any = None,
        regularization: float = 0.001,
        initialdim: int | None = None,
        max_iter: int = 2500,
        gtol: float = 1e-6,
        beta: float = 2,
        c: Any = None,
        display: bool = False,
        random_state: Any = None,
        squashing: str = "logistic",
        keep_history: bool = False,
        class_weight: Any = None,
    ) -> None:
        GLVQ.__init__(
            self, prototypes_per_class, initial_prototypes, max_iter, gtol, beta, c, display, random_state,
            squashing, keep_history, class_weight,
        )  # fmt: skip
        self.initial_matrix = initial_matrix
        self.regularization = regularization
        self.initialdim = initialdim

    def project(self, x: ArrayLike, dims: int, print_variance_covered: bool = False) -> Floats:
        """Return the samples in the `dims` directions the metric weighs most, of shape (n, dims).

        Distances in the first k of them are those of the model. `print_variance_covered` prints the share
        of the trace of Omega that they carry.
        """
        check_is_fitted(self, "omega_")
        X = validated(self, x)
        check_number(dims, "dims", low=1, high=X.shape[1], integer=True)
        _, scales, axes = np.linalg.svd(self.omega_)
        scales = np.append(scales, np.zeros(X.shape[1] - len(scales)))[:dims]
        if print_variance_covered:
            print(f"variance covered by the projection: {100 * np.sum(scales**2):.2f} %")
        return X @ (axes[:dims].T * scales)
