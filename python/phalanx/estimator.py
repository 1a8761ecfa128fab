"""`tf.estimator`: describe columns, choose a model, train it in every role of a job.

>>> from phalanx import estimator, feature_column as fc
>>> model = estimator.LinearRegressor([fc.numeric_column("x")])
>>> _ = model.train(lambda: ({"x": [0.0, 1.0, 2.0]}, [1.0, 3.0, 5.0]), steps=300)
>>> model.evaluate(lambda: ({"x": [0.0, 1.0, 2.0]}, [1.0, 3.0, 5.0]))["loss"] < 0.1
True
"""

from __future__ import annotations

from phalanx._phalanx import ClusterSpec
from phalanx.estimator_base import Estimator
from phalanx.estimator_click_models import DeepFMClassifier, DLRMClassifier, FMClassifier, FMRegressor, MFRegressor
from phalanx.estimator_config import RunConfig, WarmStartSettings
from phalanx.estimator_inputs import numpy_input_fn, pandas_input_fn
from phalanx.estimator_models import (
    SUM,
    SUM_OVER_BATCH_SIZE,
    BaselineClassifier,
    BaselineRegressor,
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearRegressor,
)
from phalanx.estimator_specs import (
    BestExporter,
    EarlyStopping,
    EvalSpec,
    Exporter,
    FinalExporter,
    LatestExporter,
    Report,
    ServingInputReceiver,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    TrainSpec,
    build_parsing_serving_input_receiver_fn,
    build_raw_serving_input_receiver_fn,
    make_early_stopping_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
    train_and_evaluate,
)

__all__ = [
    "SUM",
    "SUM_OVER_BATCH_SIZE",
    "BaselineClassifier",
    "BaselineRegressor",
    "BestExporter",
    "ClusterSpec",
    "DLRMClassifier",
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "DeepFMClassifier",
    "EarlyStopping",
    "Estimator",
    "EvalSpec",
    "Exporter",
    "FMClassifier",
    "FMRegressor",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearRegressor",
    "MFRegressor",
    "Report",
    "RunConfig",
    "ServingInputReceiver",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "TrainSpec",
    "WarmStartSettings",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
    "make_early_stopping_hook",
    "numpy_input_fn",
    "pandas_input_fn",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
    "train_and_evaluate",
]
