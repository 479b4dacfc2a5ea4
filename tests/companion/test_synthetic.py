"""The stand-ins say what they are, repeat exactly, and reproduce the published statistics they cite."""

import hashlib

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from companion.datasets import flip_synthetic, load, t21_synthetic
from companion.synthetic import FLIP_CORRELATIONS, FLIP_MARKERS, FLIP_OUTLIER, trisomy_risk


@pytest.fixture(scope="module")
def screened():
    """A draw so large that a published share is seen to a fraction of a per cent."""
    data = t21_synthetic(200_000, random_state=1)
    return data.X, data.y == 1


@pytest.fixture(scope="module")
def fibrosis():
    """Many draws of the 136 patients, put together."""
    draws = [flip_synthetic(seed) for seed in range(200)]
    frames = [draw.X.drop(index=outlier_row(draw)) for draw in draws]
    labels = [np.delete(draw.y, outlier_row(draw)) for draw in draws]
    return np.vstack(frames), np.concatenate(labels) == 1


def outlier_row(data):
    return int(np.flatnonzero(data.X["triglycerides"] == FLIP_OUTLIER["triglycerides"])[0])


@pytest.mark.parametrize("name", ["flip_synthetic", "t21_synthetic"])
def test_a_stand_in_says_so_everywhere(name):
    data = load(name)
    assert data.synthetic
    assert data.name == name
    assert data.description.split()[0] == "Synthetic"
    assert "Synthetic" in str(data)


def test_flip_has_the_size_the_imbalance_and_the_defects():
    data = flip_synthetic()
    assert data.X.shape == (136, 12)
    assert data.counts == {"no fibrosis": 115, "fibrosis": 21}
    assert {"blood glucose", "BMI", "total cholesterol"} <= set(data.feature_names)
    assert 0.03 <= data.missing <= 0.05
    assert data.X.isna().any(axis=0).sum() >= 10
    assert not data.X.isna().all(axis=1).any()
    # Classes are mixed: a fold of consecutive rows is no fold of one class.
    assert np.diff(data.y).nonzero()[0].size > 1


def test_flip_has_one_outlier_and_names_its_row():
    data = flip_synthetic()
    row = outlier_row(data)
    assert f"row {row} " in data.description
    assert not data.X.loc[row].isna().any()
    logs = np.log(data.X[list(FLIP_OUTLIER)])
    deviations = ((logs - logs.median()) / (1.4826 * (logs - logs.median()).abs().median())).max(axis=1)
    assert deviations.idxmax() == row
    assert deviations[row] > 4.5 > deviations.drop(row).max()


def test_flip_follows_its_medians(fibrosis):
    X, affected = fibrosis
    for column, marker in enumerate(FLIP_MARKERS):
        for group, centre in ((~affected, marker.centre), (affected, marker.affected)):
            assert np.nanmedian(X[group, column]) == pytest.approx(centre, rel=0.03, abs=0.06), marker.name


def test_flip_follows_its_correlations(fibrosis):
    X, affected = fibrosis
    names = [marker.name for marker in FLIP_MARKERS]
    for (first, second), value in FLIP_CORRELATIONS.items():
        pair = X[~affected][:, [names.index(first), names.index(second)]]
        pair = pair[np.isfinite(pair).all(axis=1)]
        ranks = pair.argsort(axis=0).argsort(axis=0)
        assert np.corrcoef(ranks.T)[0, 1] == pytest.approx(value, abs=0.06), (first, second)


def test_flip_is_missing_at_random():
    draws = [flip_synthetic(seed) for seed in range(40)]
    table = sum(
        np.array([[draw.X[draw.y == c].isna().to_numpy().sum(), draw.X[draw.y == c].size] for c in (0, 1)])
        for draw in draws
    )
    assert chi2_contingency(table).pvalue > 0.01


def test_published_statistics_of_fibrosis(fibrosis):
    """Drolz et al. 2021, Table 2: shares above the limits, stages 0-I against III-IV."""
    X, affected = fibrosis
    names = [marker.name for marker in FLIP_MARKERS]
    for name, limit, without, advanced in (
        ("total cholesterol", 200, 110 / 278, 16 / 58),
        ("triglycerides", 170, 148 / 278, 33 / 58),
    ):
        values = X[:, names.index(name)]
        known = np.isfinite(values)
        assert (values[known & ~affected] >= limit).mean() == pytest.approx(without, abs=0.03)
        assert (values[known & affected] >= limit).mean() == pytest.approx(advanced, abs=0.03)


@pytest.mark.parametrize("n", [250, 5_000, 50_000])
def test_t21_has_the_size_and_the_imbalance(n):
    data = t21_synthetic(n)
    assert data.X.shape == (n, 18)
    assert data.y.sum() == round(0.008 * n)
    assert {"weight", "fetal heart rate"} <= set(data.feature_names)
    assert data.missing == 0
    assert (data.X.to_numpy() >= 0).all()


def test_t21_of_the_paper_size_is_the_default():
    assert len(load("t21_synthetic").X) == 50_000


def test_risk_by_age_is_the_published_curve():
    """Morris et al. 2002, against their formula in another form: logit = b + a / (1 + exp(-k (age - m)))."""
    age = np.linspace(15, 50, 36)
    risk = trisomy_risk(age)
    logit = np.log(risk / (1 - risk))
    assert np.allclose(logit, -7.330 + 4.211 * 0.5 * (1 + np.tanh(0.141 * (age - 37.23))))
    assert (np.diff(risk) > 0).all()


def test_affected_mothers_are_older_by_their_risk(screened):
    X, affected = screened
    age = X["maternal age"]
    old = age >= 35
    expected = trisomy_risk(age.to_numpy())
    assert old[affected].mean() == pytest.approx(expected[old].sum() / expected.sum(), abs=0.04)
    assert age[affected].mean() > age[~affected].mean() + 4


@pytest.mark.parametrize(
    ("feature", "unaffected", "trisomy"),
    [
        ("ductus venosus a-wave reversed", 0.032, 0.664),
        ("nasal bone absent", 12 / 1256, 13 / 31),
        ("tricuspid regurgitation", 0.01, 0.55),
    ],
)
def test_published_shares(screened, feature, unaffected, trisomy):
    X, affected = screened
    assert set(X[feature].unique()) == {0.0, 1.0}
    assert X[feature][~affected].mean() == pytest.approx(unaffected, abs=0.002)
    assert X[feature][affected].mean() == pytest.approx(trisomy, abs=0.035)


@pytest.mark.parametrize(
    ("feature", "unaffected", "trisomy"),
    [
        ("free beta-hCG", 1.0, 2.0),
        ("PAPP-A", 1.0, 0.5),
        ("PlGF", 1.0, 0.72),
        ("uterine artery PI", 1.55, 1.42),
    ],
)
def test_published_medians(screened, feature, unaffected, trisomy):
    X, affected = screened
    assert X[feature][~affected].median() == pytest.approx(unaffected, rel=0.01)
    assert X[feature][affected].median() == pytest.approx(trisomy, rel=0.06)


def test_ductus_venosus_above_the_95th_centile(screened):
    X, affected = screened
    limit = np.exp(0.15 * 1.645)
    assert (X["ductus venosus PIV"][affected] > limit).mean() == pytest.approx(0.772, abs=0.03)
    assert (X["ductus venosus PIV"][~affected] > limit).mean() == pytest.approx(0.083, abs=0.02)


def test_heart_rate_falls_with_length_and_is_higher_in_trisomy(screened):
    X, affected = screened
    length, rate = X["crown-rump length"], X["fetal heart rate"]
    slope, height = np.polyfit(length[~affected], rate[~affected], 1)
    assert height + 35 * slope == pytest.approx(170, abs=0.5)
    assert height + 84 * slope == pytest.approx(155, abs=0.5)
    excess = rate - (height + slope * length)
    assert (excess[affected] > np.quantile(excess[~affected], 0.95)).mean() == pytest.approx(0.10, abs=0.025)


def test_nuchal_translucency_grows_with_length_only_if_unaffected(screened):
    X, affected = screened
    length, log_nuchal = X["crown-rump length"], np.log(X["nuchal translucency"])
    assert np.corrcoef(length[~affected], log_nuchal[~affected])[0, 1] > 0.4
    assert abs(np.corrcoef(length[affected], log_nuchal[affected])[0, 1]) < 0.15
    assert X["nuchal translucency"][affected].median() == pytest.approx(3.3, abs=0.15)
    assert X["nuchal translucency"][~affected].median() == pytest.approx(1.7, abs=0.1)


def test_gestational_age_follows_robinson(screened):
    X, _ = screened
    dated = 8.052 * np.sqrt(1.037 * X["crown-rump length"]) + 23.73
    assert (X["gestational age"] - dated).mean() == pytest.approx(0, abs=0.05)
    assert X["gestational age"].between(70, 105).all()


@pytest.mark.parametrize("make", [flip_synthetic, lambda random_state: t21_synthetic(2000, random_state)])
def test_a_seed_repeats_and_another_differs(make):
    assert make(random_state=3).sha == make(random_state=3).sha != make(random_state=4).sha


@pytest.mark.parametrize(
    ("make", "start"),
    [(flip_synthetic, "86475f9667075fb5"), (lambda: t21_synthetic(5_000), "7c1d70d7e4c219ca")],
)
def test_the_default_draw_never_changes(make, start):
    """Results in the book belong to these very rows; the values are rounded, so that machines agree."""
    assert make().sha.startswith(start)


def test_the_hash_is_of_the_content():
    data = flip_synthetic()
    changed = flip_synthetic()
    changed.X.iloc[0, 0] += 1
    assert changed.sha != data.sha
    assert len(data.sha) == hashlib.sha256().digest_size * 2


@pytest.mark.parametrize("n", [249, 0, -1, 1e4, "many", True])
def test_bad_size(n):
    with pytest.raises(ValueError, match="n must be"):
        t21_synthetic(n)


@pytest.mark.parametrize("make", [flip_synthetic, t21_synthetic])
@pytest.mark.parametrize("seed", [-1, 0.5, None, "0"])
def test_bad_seed(make, seed):
    with pytest.raises(ValueError, match="random_state must be"):
        make(random_state=seed)
