//! Embeddings whose rows are elsewhere.

use phalanx_base::{Code, Result};
use phalanx_nn::burn::tensor::{Device, Tensor};
use phalanx_nn::model::{Add, Dense, DynTensor, Embedding, Flatten, Initializer, Input, Layer, Mode, Model, RowSource};
use phalanx_nn::{Network, ParameterRegistry, Rows, default_device};
use std::sync::{Arc, Mutex};

/// Two inputs share a table; another table is looked up by ids that a layer computes.
fn model() -> Model {
    let (a, b) = (Input::named("a", [2]), Input::named("b", [2]));
    let shared = Embedding::new(50, 3).name("shared");
    let sum = Add::new().call([&shared.call(&a), &shared.call(&b)]);
    let computed = Embedding::new(9, 3).name("computed").call(&Add::new().call([&a, &b]));
    let both = Flatten::new().call(&Add::new().call([&sum, &computed]));
    Model::seeded([&a, &b], &Dense::new(1).call(&both), 3).unwrap()
}

fn inputs(a: [i64; 4], b: [i64; 4]) -> Vec<DynTensor> {
    let of = |ids: [i64; 4]| DynTensor::integers(ids.to_vec(), &[2, 2], &default_device()).unwrap();
    vec![of(a), of(b)]
}

/// Rows of the initial table, each lookup recorded.
struct Recorded(Vec<f32>, Mutex<Vec<Vec<i64>>>);

impl RowSource for Recorded {
    fn rows(&self, table: usize, ids: &[i64], device: &Device) -> Result<Rows> {
        assert_eq!(table, 0);
        self.1.lock().unwrap().push(ids.to_vec());
        let positions: Vec<u32> = ids.iter().map(|&id| id as u32).collect();
        Ok(Rows::fixed(self.0.clone(), 3, &positions, device))
    }
}

#[test]
fn a_layer_whose_ids_are_inputs_is_a_table_and_is_not_created_unless_it_is_used() {
    let model = model();
    let tables = model.tables();
    assert_eq!(tables.len(), 1);
    assert_eq!((tables[0].name.as_str(), tables[0].rows, tables[0].dim), ("shared/embeddings", 50, 3));
    assert_eq!(model.table_values().unwrap(), [None]);
    let name = |place: usize| model.variables()[place].name.clone();
    assert_eq!(name(tables[0].place), "shared/embeddings");
    let values = model.values().unwrap();
    assert_eq!(values[tables[0].place], tables[0].initializer.table(50, 3));
    assert_eq!(model.table_values().unwrap(), [Some(values[tables[0].place].clone())]);
    assert!(model.table_ids(&inputs([1; 4], [2; 4])).unwrap().is_empty(), "it has its tables itself");
}

#[test]
fn a_model_computes_the_same_with_rows_from_elsewhere() {
    let model = model();
    let (table, variables) = (model.tables().remove(0), model.variables());
    let given = || inputs([1, 2, 3, 1], [4, 1, 0, 0]);
    let wanted = model.call(given(), Mode::Inference).unwrap().remove(0).numbers().unwrap();
    let source = Arc::new(Recorded(table.initializer.table(50, 3), Mutex::default()));
    let away = model.clone().with_rows(Some(Arc::clone(&source) as _));
    assert_eq!(away.call(given(), Mode::Inference).unwrap().remove(0).numbers().unwrap(), wanted);
    let seen = std::mem::take(&mut *source.1.lock().unwrap());
    assert_eq!(seen, [[1, 2, 3, 1], [4, 1, 0, 0]]);
    assert_eq!(away.table_ids(&given()).unwrap(), [seen.concat()]);
    assert_eq!((away.variables(), away.count_params()), (variables, model.count_params()));
    let registry = ParameterRegistry::of(&away).unwrap();
    let names: Vec<&str> = registry.parameters().iter().map(|parameter| parameter.name.as_str()).collect();
    assert_eq!(names, ["computed/embeddings", "dense/kernel", "dense/bias"]);
    let error = away.table_ids(&inputs([50, 0, 0, 0], [0; 4])).unwrap_err();
    assert!(error.code() == Code::DataRow && error.report().contains("shared"), "{}", error.report());
    assert!(away.clone().with_rows(None).call(given(), Mode::Inference).is_err());
    // Values make it the model's own again.
    let mut back = away.with_rows(None);
    back.set("shared/embeddings", table.initializer.table(50, 3)).unwrap();
    assert_eq!(back.call(given(), Mode::Inference).unwrap().remove(0).numbers().unwrap(), wanted);
}

#[test]
fn rows_that_depend_on_each_other_are_no_table() {
    let x = Input::new([1]);
    let layer = Embedding::new(4, 2).embeddings_initializer(Initializer::orthogonal());
    let model = Model::new(&x, &layer.call(&x)).unwrap();
    assert!(model.tables().is_empty());
    let output: Tensor<3> =
        model.forward(DynTensor::integers(vec![3], &[1, 1], &default_device()).unwrap(), Mode::Inference).unwrap();
    assert_eq!(output.dims(), [1, 1, 2]);
}

#[test]
fn every_initializer_of_a_table_has_its_distribution() {
    for initializer in [Initializer::he_normal(), Initializer::glorot_uniform(), Initializer::truncated_normal()] {
        let x = Input::new([1]);
        let layer = Embedding::new(4000, 5).embeddings_initializer(initializer);
        let values = Model::new(&x, &layer.call(&x)).unwrap().values().unwrap().remove(0);
        let known = initializer.values(&[4000, 5], 1);
        let deviation = |values: &[f32]| (values.iter().map(|x| x * x).sum::<f32>() / values.len() as f32).sqrt();
        let ratio = deviation(&values) / deviation(&known);
        assert!((ratio - 1.0).abs() < 0.03, "{initializer:?}: {ratio}");
    }
}
