//! A graph as data.

use phalanx_graph::{Dense, Graph, InputValues, Slice};

fn graph() -> Graph {
    let mut graph = Graph::default();
    let x = graph.input("x", InputValues::Numbers(vec![3])).unwrap();
    let kernel = graph.parameter("dense/kernel", [3, 2]).unwrap();
    let y = graph.add(Dense { relu: true, ..Dense::default() }, &[x, kernel]).unwrap();
    graph.add(Slice { start: 1, width: 1 }, &[y]).unwrap();
    graph
}

#[test]
fn it_is_printed_as_a_table() {
    let expected = "\
0  Input x                      [batch, 3]
1  Parameter dense/kernel       [3, 2]
2  Dense relu              0 1  [batch, 2]
3  Slice                   2    [batch, 1]
";
    assert_eq!(graph().to_string(), expected);
}

#[test]
fn it_is_read_as_it_was_stored_and_a_damaged_one_is_refused() {
    let stored = serde_json::to_string(&graph()).unwrap();
    let read: Graph = serde_json::from_str(&stored).unwrap();
    assert_eq!(read, graph());
    read.check().unwrap();
    for (part, other) in [("\"start\":1", "\"start\":2"), ("[0,1]", "[0,7]"), ("\"Parameter\":0", "\"Parameter\":4")] {
        assert!(stored.contains(part), "{stored}");
        let damaged: Graph = serde_json::from_str(&stored.replace(part, other)).unwrap();
        assert!(damaged.check().is_err(), "{other}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let mut graph = graph();
    let x = graph.input("z", InputValues::Numbers(vec![4])).unwrap();
    let kernel = graph.parameter("other", [3, 2]).unwrap();
    let error = graph.add(Dense::default(), &[x, kernel]).unwrap_err();
    assert_eq!(error.what(), "an input of shape [batch, 4] does not fit a kernel of shape [3, 2]");
    assert_eq!(error.place(), Some("Dense"));
}
