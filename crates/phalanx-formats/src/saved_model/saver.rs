//! The nodes that read and write the variables' checkpoint.

use super::output::NodeOutput;
use super::proto::Saver;
use super::{GraphBuilder, Output, Text, attr};

impl GraphBuilder {
    /// Adds the nodes that restore all variables, and those that save them; tells how they are called. `None` without
    /// variables: then there is no checkpoint.
    pub(super) fn add_saver(&mut self) -> Option<Saver> {
        if self.variables.is_empty() {
            return None;
        }
        let names = self.scope("save", |graph| {
            let prefix = graph.scope("filename", |graph| graph.text("model"));
            let prefix = graph.make("PlaceholderWithDefault").input(prefix).dtype::<Text>("dtype");
            // The loader feeds the path of the checkpoint here.
            let prefix = prefix.attr("shape", attr::shape(attr::known(&[]))).add_as("Const");
            let prefix = Output::<Text>::new(prefix, 0);
            let save = graph.add_save(prefix);
            let restore = graph.add_restore(prefix);
            [
                graph.tensor_name(prefix.at),
                graph.tensor_name(save),
                graph.nodes.get(restore).map(|node| node.name.clone()),
            ]
        });
        let [filename_tensor_name, save_tensor_name, restore_op_name] = names.map(Option::unwrap_or_default);
        // The numbers are TensorFlow's own defaults.
        Some(Saver {
            filename_tensor_name,
            save_tensor_name,
            restore_op_name,
            max_to_keep: 5,
            sharded: false,
            keep_checkpoint_every_n_hours: 10_000.0,
            version: 2,
        })
    }

    /// The names of all variables, and that each is saved as a whole.
    fn names_and_slices(&mut self) -> [Output<Text>; 2] {
        let names: Vec<String> = self.variables.iter().map(|variable| variable.spec.name.clone()).collect();
        let whole = vec![""; names.len()];
        [self.texts(&[names.len()], &names), self.texts(&[whole.len()], &whole)]
    }

    fn add_save(&mut self, prefix: Output<Text>) -> NodeOutput {
        let [names, slices] = self.names_and_slices();
        let (reads, dtypes): (Vec<_>, Vec<_>) =
            self.variables.iter().map(|variable| (variable.read, variable.spec.dtype)).unzip();
        let save = self.make("SaveV2").input(prefix).input(names).input(slices);
        let save = reads.into_iter().fold(save, |save, node| save.place(NodeOutput { node, output: 0 }));
        let save = save.attr("dtypes", attr::dtypes(dtypes)).add_node();
        // Gives the prefix once everything is saved.
        let done = self.make("Identity").input(prefix).after(save).dtype::<Text>("T").add_as("control_dependency");
        NodeOutput { node: done, output: 0 }
    }

    fn add_restore(&mut self, prefix: Output<Text>) -> usize {
        let [names, slices] = self.names_and_slices();
        let (handles, dtypes): (Vec<_>, Vec<_>) =
            self.variables.iter().map(|variable| (variable.handle, variable.spec.dtype)).unzip();
        let restore = self.make("RestoreV2").input(prefix).input(names).input(slices);
        let restore = restore.attr("dtypes", attr::dtypes(dtypes.iter().copied())).add_node();
        let mut assigns = Vec::new();
        for (output, (handle, dtype)) in handles.into_iter().zip(dtypes).enumerate() {
            let assign = self.make("AssignVariableOp").place(NodeOutput { node: handle, output: 0 });
            let assign = assign.place(NodeOutput { node: restore, output }).attr("dtype", attr::dtype(dtype));
            assigns.push(assign.add_node());
        }
        assigns.into_iter().fold(self.make("NoOp"), |all, assign| all.after(assign)).add_as("restore_all")
    }
}
