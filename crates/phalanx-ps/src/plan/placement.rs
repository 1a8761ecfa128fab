//! On which server a shard lives.

use phalanx_base::{Code, Error, Result, nearest};

/// The most names that an error lists.
const NAMES: usize = 12;

/// How variables are placed on servers: spread by a rule, except those that are pinned. Everything depends on the order in
/// which variables are listed, which is the same in all tasks.
///
/// The rows of a table are spread over all servers by id, unless the table is pinned.
///
/// ```
/// use phalanx_ps::Placement;
/// // The embeddings on ps/1, one of them on ps/0, the rest in turn.
/// let placement = Placement::round_robin().pin("embeddings/*", 1).pin("embeddings/small", 0);
/// let shards = [("bias", 4), ("embeddings/users", 4000), ("embeddings/small", 40), ("kernel", 400)];
/// assert_eq!(placement.place(&shards, 2), [0, 1, 0, 1]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    rule: Rule,
    pins: Vec<Pin>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Rule {
    #[default]
    RoundRobin,
    GreedyByBytes,
}

/// The server of all variables and tables with such a name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    pattern: String,
    server: usize,
}

impl Placement {
    /// One shard after the other, TensorFlow's default. Pinned shards count, so that a pin moves nothing else.
    #[must_use]
    pub fn round_robin() -> Self {
        Self::default()
    }

    /// Each shard on the server that has the fewest bytes so far: `GreedyLoadBalancingStrategy` by bytes.
    #[must_use]
    pub fn greedy_by_bytes() -> Self {
        Self { rule: Rule::GreedyByBytes, pins: Vec::new() }
    }

    /// Puts variables and tables on parameter server number `server`, as `tf.device("/job:ps/task:1")` does. `pattern` is a
    /// name, in which `*` stands for any characters. Where several pins match, the last one counts.
    #[must_use]
    pub fn pin(mut self, pattern: impl Into<String>, server: usize) -> Self {
        self.pins.push(Pin { pattern: pattern.into(), server });
        self
    }

    /// Returns the server of each shard, given the names of their variables and their sizes in bytes.
    ///
    /// ```
    /// use phalanx_ps::Placement;
    /// let shards = [("a", 9), ("b", 1), ("c", 1), ("d", 1)];
    /// assert_eq!(Placement::round_robin().place(&shards, 2), [0, 1, 0, 1]);
    /// assert_eq!(Placement::greedy_by_bytes().place(&shards, 2), [0, 1, 1, 1]);
    /// ```
    #[must_use]
    pub fn place(&self, shards: &[(&str, usize)], servers: usize) -> Vec<usize> {
        let mut load = vec![0_usize; servers];
        let mut pick = |i: usize, name: &str, bytes: usize| {
            let server = self.pinned(name).filter(|&server| server < servers).unwrap_or_else(|| match self.rule {
                Rule::RoundRobin => i % servers,
                // `min_by_key` takes the first of equals, as TensorFlow does.
                Rule::GreedyByBytes => (0..servers).min_by_key(|&server| load[server]).unwrap_or(0),
            });
            load[server] += bytes;
            server
        };
        shards.iter().enumerate().map(|(i, &(name, bytes))| pick(i, name, bytes)).collect()
    }

    /// Returns the server that a variable or table is pinned to.
    pub(crate) fn pinned(&self, name: &str) -> Option<usize> {
        self.pins.iter().rev().find(|pin| matches(&pin.pattern, name)).map(|pin| pin.server)
    }

    /// Refuses pins that name no variable or table, or no server.
    pub(crate) fn check(&self, names: &[&str], servers: usize) -> Result<()> {
        for Pin { pattern, server } in &self.pins {
            if *server >= servers {
                let what = format!("{pattern:?} is pinned to ps/{server}, which does not exist");
                let have = match servers {
                    1 => "the job has one parameter server, ps/0".to_owned(),
                    _ => format!("the job has {servers} parameter servers, ps/0 to ps/{}", servers - 1),
                };
                return Err(Error::new(Code::NoSuchTask, what).because(have).help(
                    "pin it to one of them, or start more; a job of one process has one server, which holds everything",
                ));
            }
            if !names.iter().any(|name| matches(pattern, name)) {
                let what = format!("{pattern:?} is pinned to ps/{server}, but the model has no such variable or table");
                let listed = names.iter().take(NAMES).copied().collect::<Vec<_>>().join(", ");
                let more = if names.len() > NAMES { ", …" } else { "" };
                let error = Error::new(Code::NoSuchVariable, what).because(format!("it has {listed}{more}"));
                return Err(match nearest(pattern, names.iter().copied()) {
                    Some(near) => error.help(format!("did you mean {near:?}?")),
                    None => error.help("write a name, or a pattern such as \"embeddings/*\""),
                });
            }
        }
        Ok(())
    }
}

/// Whether `name` fits a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, pattern)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, fits) in [
            ("a/b", "a/b", true),
            ("a/b", "a/bc", false),
            ("a/*", "a/b/c", true),
            ("a/*", "a", false),
            ("*", "", true),
            ("*/kernel", "dense/kernel", true),
            ("*/kernel", "dense/kernel/m", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("aa*aa", "aaa", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn pinned_bytes_count_and_a_pin_moves_nothing_else() {
        let shards = [("a", 4), ("b", 4), ("c", 4), ("d", 4)];
        let pinned = Placement::round_robin().pin("b", 0);
        assert_eq!(pinned.place(&shards, 2), [0, 0, 0, 1]);
        let greedy = Placement::greedy_by_bytes().pin("a", 1).pin("b", 1);
        assert_eq!(greedy.place(&shards, 2), [1, 1, 0, 0]);
    }

    #[test]
    fn a_pin_to_nothing_names_both() {
        let names = ["users", "dense/kernel"];
        let error = Placement::default().pin("user", 1).check(&names, 2).unwrap_err();
        assert_eq!(error.code(), Code::NoSuchVariable);
        assert_eq!(error.what(), "\"user\" is pinned to ps/1, but the model has no such variable or table");
        assert_eq!(error.next(), Some("did you mean \"users\"?"));
        let error = Placement::default().pin("us*", 2).check(&names, 2).unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"us*\" is pinned to ps/2, which does not exist: the job has 2 parameter servers, ps/0 to ps/1"
        );
        Placement::default().pin("us*", 1).pin("*/kernel", 0).check(&names, 2).unwrap();
    }
}
