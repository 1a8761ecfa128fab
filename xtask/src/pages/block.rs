//! Fenced blocks, and the marks that say what is done with them.

/// What is done with a block: an HTML comment on the line above its fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `<!-- file: NAME -->`: the block is that file.
    File(String),
    /// `<!-- not run: REASON -->`: nobody runs the commands.
    NotRun(String),
    /// `<!-- terminals -->`: every command has a terminal of its own, all at once.
    Terminals,
}

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// `PAGE:LINE` of the fence.
    pub place: String,
    /// The language, without what stands behind a comma.
    pub language: String,
    /// All that stands behind the fence.
    pub info: String,
    /// What is done with it, where that is said.
    pub mark: Option<Mark>,
    /// The text between the fences.
    pub text: String,
}

impl Block {
    /// The commands of a transcript, each with the lines that it is to print.
    pub fn commands(&self) -> Vec<(String, Vec<String>)> {
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        let mut open = false;
        for line in self.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
                (None, Some((command, _))) if open => {
                    command.push('\n');
                    command.push_str(line);
                }
                (None, Some((_, output))) => output.push(line.to_owned()),
                (None, None) => panic!("{}: a transcript begins with a command", self.place),
            }
            let (command, output) = commands.last().expect("one was pushed");
            open = output.is_empty() && (command.ends_with('\\') || command.matches('\'').count() % 2 == 1);
        }
        commands
    }
}

pub(super) fn blocks(path: &str, text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let (mut open, mut before) = (false, "");
    for (at, line) in text.lines().enumerate() {
        let fence = line.trim_start().strip_prefix("```");
        match (open, fence) {
            (false, Some(info)) => {
                let language = info.split(',').next().unwrap_or_default().trim().to_owned();
                let place = format!("{path}:{}", at + 1);
                let mark = mark(before, &place);
                found.push(Block { place, language, info: info.to_owned(), mark, text: String::new() });
                open = true;
            }
            (true, Some(_)) => open = false,
            (true, None) => {
                let block = found.last_mut().expect("a block is open");
                block.text.push_str(line);
                block.text.push('\n');
            }
            (false, None) => {}
        }
        before = line;
    }
    assert!(!open, "{path}: a block is not closed");
    found
}

fn mark(line: &str, place: &str) -> Option<Mark> {
    let words = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    Some(match words.split_once(": ") {
        Some(("file", name)) => Mark::File(name.to_owned()),
        Some(("not run", reason)) => Mark::NotRun(reason.to_owned()),
        None if words == "terminals" => Mark::Terminals,
        _ => panic!("{place}: nobody knows the mark {words:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_languages_commands_and_what_they_print() {
        let text = "<!-- not run: needs ssh -->\n```console\n$ a 'x\ny' \\\n  --b\nout [..]\n$ c\n```\n\n```rust,no_run\nfn\n```\n";
        let found = blocks("p.md", text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].mark, Some(Mark::NotRun("needs ssh".to_owned())));
        let commands = found[0].commands();
        assert_eq!(commands[0].0, "a 'x\ny' \\\n  --b");
        assert_eq!(commands[0].1, ["out [..]"]);
        assert_eq!(commands[1], ("c".to_owned(), Vec::new()));
        assert_eq!((found[1].language.as_str(), found[1].place.as_str()), ("rust", "p.md:10"));
    }
}
