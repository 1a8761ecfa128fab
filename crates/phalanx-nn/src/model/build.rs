//! The construction of a model from a graph of layer calls.

use super::dyn_tensor::check_axes;
use super::functional::{LayerCall, Model, ModelOptions, ModelStructure, NamedLayer, named};
use super::graph::{NodeKind, Symbol};
use super::layer::Plan;
use super::names::names;
use super::random::mixed;
use super::tables::TableLayer;
use super::topology::Topology;
use super::weights::Weight;
use phalanx_base::{Code, Error, Result};
use std::sync::Arc;

impl Model {
    /// Names the layers, infers all shapes and creates the weights.
    pub(crate) fn build(inputs: &[&Symbol], outputs: &[&Symbol], style: ModelOptions) -> Result<Self> {
        let graph = Topology::of(inputs, outputs);
        let names = names(&graph.layers())?;
        check_ends(&graph, inputs, outputs, &names)?;
        let (mut steps, plans) = plan(&graph, &names)?;
        let place = |symbols: &[&Symbol]| symbols.iter().map(|symbol| graph.place(symbol)).collect::<Vec<_>>();
        let (inputs, outputs) = (place(inputs), place(outputs));
        mark_last_uses(&mut steps, &outputs);
        let fed = fed(&graph, &steps, (&inputs, &outputs), &names)?;
        let nodes = graph.layers();
        let mut layers = Vec::with_capacity(names.len());
        let mut weights = Vec::with_capacity(names.len());
        for (place, &number) in graph.order.iter().enumerate() {
            let made = weights_of(&plans[number], mixed(style.seed, place as u64));
            weights.push(made.map_err(|error| named(error, &names[number], nodes[number].layer()))?);
            let (name, layer) = (names[number].clone(), nodes[number].layer().cloned());
            layers.push(NamedLayer { name, layer, values: nodes[number].values() });
        }
        let tables = tables(&graph, &plans, &steps, style.seed);
        let form = ModelStructure { style, layers, steps, chain: graph.is_chain(), inputs, fed, outputs, tables };
        Ok(Self { form: Arc::new(form), weights, source: None })
    }
}

/// Plans one call per node, and for each layer, by its number, the output and weights of its first call.
fn plan(graph: &Topology, names: &[String]) -> Result<(Vec<LayerCall>, Vec<Plan>)> {
    let mut rank = vec![0; names.len()];
    graph.order.iter().enumerate().for_each(|(place, &layer)| rank[layer] = place);
    let mut plans: Vec<Plan> = Vec::with_capacity(names.len());
    let mut steps: Vec<LayerCall> = Vec::with_capacity(graph.nodes.len());
    for (at, node) in graph.nodes.iter().enumerate() {
        let number = graph.layer_of[at];
        let places: Vec<usize> = node.inputs.iter().map(|input| graph.place(input)).collect();
        let given: Vec<Vec<usize>> = places.iter().map(|&place| steps[place].dims.clone()).collect();
        let plan = match &node.what {
            NodeKind::Input { dims, .. } => Ok(Plan::output(dims.clone())),
            NodeKind::Layer(layer) => layer.plan(&given),
        };
        let fitting = plan.and_then(|plan| fits(plan, plans.get(number)));
        let plan = fitting.map_err(|error| named(error, &names[number], node.layer()))?;
        steps.push(LayerCall {
            layer: rank[number],
            call: node.call,
            inputs: places.into_iter().map(|place| (place, false)).collect(),
            dims: plan.output.clone(),
        });
        // Layers are numbered in the order of their first nodes.
        if number == plans.len() {
            plans.push(plan);
        }
    }
    Ok((steps, plans))
}

fn weights_of(plan: &Plan, seed: u64) -> Result<Vec<Weight>> {
    let device = crate::default_device();
    plan.weights.iter().enumerate().map(|(i, plan)| Weight::new(plan, mixed(seed, i as u64), &device)).collect()
}

/// Returns the tables: layers that only look up rows, by ids that are inputs of the model.
fn tables(graph: &Topology, plans: &[Plan], steps: &[LayerCall], seed: u64) -> Vec<TableLayer> {
    let table = |(place, &number): (usize, &usize)| {
        let [plan] = plans[number].weights.as_slice() else { return None };
        let input = |call: &LayerCall| match call.inputs.as_slice() {
            // The ids must be there before anything is computed: an input, or what preprocessing makes of one.
            &[(from, _)] if graph.nodes[from].layer().is_none_or(|layer| layer.on_host().is_some()) => Some(from),
            _ => None,
        };
        let calls = steps.iter().filter(|step| step.layer == place).map(input).collect::<Option<_>>()?;
        let initializer = plan.initializer.by_row(&plan.dims, mixed(mixed(seed, place as u64), 0))?;
        plan.looked_up.then_some(TableLayer { layer: place, initializer, calls })
    };
    graph.order.iter().enumerate().filter_map(table).collect()
}

/// Checks that a layer that is called again needs the same weights, and that no tensor has too many axes.
fn fits(plan: Plan, known: Option<&Plan>) -> Result<Plan> {
    check_axes(&plan.output)?;
    if let Some(known) = known.filter(|known| known.weights != plan.weights) {
        let dims =
            |plan: &Plan| plan.weights.iter().map(|weight| format!("{:?}", weight.dims)).collect::<Vec<_>>().join(", ");
        let what = format!("a shared layer has weights {} but needs {}", dims(known), dims(&plan));
        return Err(Error::new(Code::ShapeMismatch, what).because("its calls have inputs of different shapes"));
    }
    Ok(plan)
}

fn check_ends(graph: &Topology, inputs: &[&Symbol], outputs: &[&Symbol], names: &[String]) -> Result<()> {
    if outputs.is_empty() {
        return Err(Error::new(Code::BadSetting, "the model has no output"));
    }
    if inputs.iter().any(|input| input.0.layer().is_some()) {
        return Err(Error::new(Code::BadSetting, "an input of the model is the output of a layer")
            .help("start with Input::new"));
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let listed = inputs.iter().filter(|input| Arc::ptr_eq(&input.0, node)).count();
        let name = &names[graph.layer_of[at]];
        if node.layer().is_none() && listed != 1 {
            return Err(Error::new(Code::BadSetting, format!("input {name:?} is listed {listed} times"))
                .because("the outputs need it")
                .help("list every Input of the graph once"));
        }
    }
    Ok(())
}

/// Returns the steps whose values a model is given: inputs and outputs of preprocessing layers that other layers take, or
/// that are outputs of the model.
fn fed(
    graph: &Topology,
    steps: &[LayerCall],
    (inputs, outputs): (&[usize], &[usize]),
    names: &[String],
) -> Result<Vec<usize>> {
    let is_host = |at: usize| graph.nodes[at].layer().is_some_and(|layer| layer.on_host().is_some());
    let (mut by_host, mut by_tensors) = (vec![false; steps.len()], vec![false; steps.len()]);
    outputs.iter().for_each(|&at| by_tensors[at] = true);
    for (at, step) in steps.iter().enumerate() {
        for &(from, _) in &step.inputs {
            let users = if is_host(at) { &mut by_host } else { &mut by_tensors };
            users[from] = true;
            if is_host(at) && graph.nodes[from].layer().is_some() && !is_host(from) {
                let error =
                    Error::new(Code::BadSetting, "a preprocessing layer takes the output of a layer of tensors")
                        .because("preprocessing is computed on the host, before there are tensors")
                        .help("let it take an Input, or another preprocessing layer");
                return Err(named(error, &names[graph.layer_of[at]], graph.nodes[at].layer()));
            }
        }
    }
    // An input that nothing takes is given as before.
    let of_inputs = inputs.iter().copied().filter(|&at| by_tensors[at] || !by_host[at]);
    let of_host = (0..steps.len()).filter(|&at| is_host(at) && by_tensors[at]);
    Ok(of_inputs.chain(of_host).collect())
}

fn mark_last_uses(steps: &mut [LayerCall], outputs: &[usize]) {
    let mut needed: Vec<bool> = (0..steps.len()).map(|at| outputs.contains(&at)).collect();
    for step in steps.iter_mut().rev() {
        for (from, last) in step.inputs.iter_mut().rev() {
            *last = !std::mem::replace(&mut needed[*from], true);
        }
    }
}
