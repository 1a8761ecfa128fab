//! Copies "If you know TensorFlow" into the API documentation, where rustdoc checks that every name exists.

use xtask::pages::root;

const PAGE: &str = "docs/if-you-know-tensorflow.md";
const COPY: &str = "crates/phalanx/src/from_tensorflow.md";

/// The page with a link for every path of ours, and no link that only the guide can follow.
fn for_rustdoc(page: &str) -> String {
    let mut text = String::from("<!-- Written by xtask/tests/it/names.rs from docs/if-you-know-tensorflow.md. -->\n\n");
    for (at, span) in page.split('`').enumerate() {
        match (at % 2, span.strip_prefix("phalanx::")) {
            (1, Some(path)) => text += &format!("[`{path}`](crate::{path})"),
            (1, None) => text += &format!("`{span}`"),
            _ => text += &without_links(span),
        }
    }
    text
}

/// `[words](target)` becomes `words`.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once(')').map_or(part, |(_, rest)| rest);
        if let Some(open) = plain.rfind('[') {
            plain.remove(open);
        }
        plain += rest;
    }
    plain
}

#[test]
fn the_names_in_the_documentation_are_those_of_the_page() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page");
    let wanted = for_rustdoc(&page);
    assert!(wanted.matches("](crate::").count() > 150, "the page has lost its names");
    let copy = root().join(COPY);
    if std::fs::read_to_string(&copy).unwrap_or_default() != wanted {
        let written = std::env::var_os("PHALANX_WRITE_DOCS").is_some();
        if written {
            std::fs::write(&copy, wanted).expect("the copy can be written");
        }
        panic!("{COPY} is out of date (written: {written}); `cargo xtask docs` writes it");
    }
}

#[test]
fn links_of_the_guide_become_words() {
    assert_eq!(without_links("see [a](b.md) and [c](d.md#e)."), "see a and c.");
}
