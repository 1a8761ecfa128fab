//! README and guide as data: pages, their blocks of code, their links and headings.

mod block;
mod link;

pub use block::{Block, Mark};
pub use link::{Link, anchors, links};

use std::path::{Path, PathBuf};

/// A page of the repository.
pub struct Page {
    /// From the root of the repository.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the repository").to_owned()
}

/// Every page: those of the root and those below `docs/`, by path.
pub fn pages() -> Vec<Page> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, false, &mut found);
    collect(&root.join("docs"), true, &mut found);
    found.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let path = path.strip_prefix(&root).expect("found below the root").display().to_string();
        Page { path, text }
    };
    found.into_iter().map(read).collect()
}

fn collect(dir: &Path, deep: bool, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())).flatten() {
        let path = entry.path();
        if path.is_dir() && deep {
            collect(&path, deep, found);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
}

impl Page {
    /// The fenced blocks, in their order.
    pub fn blocks(&self) -> Vec<Block> {
        block::blocks(&self.path, &self.text)
    }

    /// The page's lines outside of fenced blocks, each with its number.
    pub fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut inside = false;
        let lines = self.text.lines().enumerate().map(|(at, line)| (at + 1, line));
        lines.filter(move |(_, line)| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
    }
}
