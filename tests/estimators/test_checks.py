"""What scikit-learn asks of every estimator."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from varmix.estimators import MixtureKMeans, MixtureSGDClassifier, MixtureSGDRegressor

# The same two that scikit-learn expects its own SGDClassifier, SGDRegressor and MiniBatchKMeans to fail.
REPEATED = (
    "a weight is not a repeated row for SGD: the batches differ; test_sgd.py and test_kmeans.py compare the objectives"
)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": REPEATED,
    "check_sample_weight_equivalence_on_sparse_data": REPEATED,
}


@parametrize_with_checks(
    [
        MixtureSGDClassifier(),
        MixtureSGDClassifier(loss="log_loss"),
        MixtureSGDRegressor(),
        MixtureKMeans(),
        MixtureKMeans(components="shuffle", batch_size=10),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
)
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)
