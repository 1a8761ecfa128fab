//! Refused exports. `tests/tf/test_model_export.py` checks that TensorFlow predicts the same.

use phalanx_base::{Code, Result};
use phalanx_nn::model::{Conv2D, Dense, DynTensor, Identity, Layer, Mode, Plan, Sequential, Weights};
use phalanx_optim::Sgd;
use phalanx_train::fit::{Compile, Compiled};

fn compiled(layers: Sequential, input: &[usize]) -> Compiled<phalanx_nn::model::Model> {
    layers.build(input).unwrap().compile(Sgd::new(0.1), "mse", ["mae"]).unwrap()
}

/// A layer that TensorFlow knows nothing of.
#[derive(Clone, Debug, Default)]
struct Own(Identity);

impl Layer for Own {
    fn identity(&self) -> &Identity {
        &self.0
    }

    fn kind(&self) -> &'static str {
        "Own"
    }

    fn plan(&self, inputs: &[Vec<usize>]) -> Result<Plan> {
        Ok(Plan::output(inputs[0].clone()))
    }

    fn forward(&self, mut inputs: Vec<DynTensor>, _: &Weights<'_>, _: Mode) -> Result<DynTensor> {
        Ok(inputs.remove(0))
    }
}

#[test]
fn what_no_graph_can_say_is_refused_with_the_layers_name_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let own = compiled(Sequential::new().add(Own::default()).add(Dense::new(2)), &[3]);
    let error = own.export_saved_model(folder.path().join("own"), None).unwrap_err();
    assert_eq!(error.code(), Code::BadSetting);
    assert!(error.report().contains("own"), "{}", error.report());
    let grouped = compiled(Sequential::new().add(Conv2D::new(4, [2, 2]).groups(2)), &[5, 5, 2]);
    let error = grouped.export_saved_model(folder.path().join("grouped"), None).unwrap_err();
    assert!(error.report().contains("2 groups"), "{}", error.report());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_there_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    let (model, export) = (compiled(Sequential::new().add(Dense::new(2)), &[3]), folder.path().join("1"));
    model.export_saved_model(&export, None).unwrap();
    let before = std::fs::read(export.join("saved_model.pb")).unwrap();
    assert_eq!(model.export_saved_model(&export, None).unwrap_err().code(), Code::StorageWrite);
    assert_eq!(std::fs::read(export.join("saved_model.pb")).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
