//! One component of a file name pattern.

/// Whether `text` contains a wildcard.
pub(crate) fn is_wild(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// One compiled component of a path pattern.
///
/// `*` matches any run of characters, `?` any one, `[a-c]` one of a set, `[!a-c]` and `[^a-c]` one outside of it; a `[`
/// that is never closed matches itself. As in a shell, a leading dot must be written out.
pub(crate) struct Pattern(glob::Pattern);

impl Pattern {
    pub(crate) fn new(component: &str) -> Self {
        // The crate refuses what a shell accepts: stars in a row, `^`, and a `[` without a `]`.
        let mut text = component.replace("[^", "[!");
        while text.contains("**") {
            text = text.replace("**", "*");
        }
        loop {
            match glob::Pattern::new(&text) {
                Ok(pattern) => return Self(pattern),
                Err(error) => {
                    let bracket: usize = text.chars().take(error.pos).map(char::len_utf8).sum();
                    text.replace_range(bracket..=bracket, "[[]");
                }
            }
        }
    }

    /// Whether the pattern matches all of `name`.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let options = glob::MatchOptions { require_literal_leading_dot: true, ..glob::MatchOptions::new() };
        self.0.matches_with(name, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, yes, no) in [
            ("train-*.csv", &["train-.csv", "train-00.csv"][..], &["train-.csv2", "atrain-.csv", "train.csv"][..]),
            ("*", &["a", "a.b"], &[".a"]),
            (".*", &[".a"], &["a"]),
            ("?", &["a", "ü"], &["", "ab", "."]),
            ("[ab]c", &["ac", "bc"], &["cc", "c"]),
            ("[!ab]c", &["cc"], &["ac"]),
            ("[^ab]c", &["cc"], &["ac"]),
            ("[0-9][0-9]", &["07"], &["7", "a7"]),
            ("[]]", &["]"], &["["]),
            ("[!]]", &["["], &["]"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[]x", &["[x"], &["x"]),
            ("[x", &["[x"], &["x"]),
            ("a*b*c", &["abc", "aXbYc", "abbcc"], &["acb", "ab"]),
            ("**", &["a", "ab"], &[".a"]),
            ("", &[""], &["a"]),
        ] {
            for name in yes {
                assert!(matches(pattern, name), "{pattern} {name}");
            }
            for name in no {
                assert!(!matches(pattern, name), "{pattern} {name}");
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        let name = "a".repeat(5_000);
        assert!(!matches(&format!("{}b", "a*".repeat(500)), &name));
    }

    proptest! {
        #[test]
        fn hostile_patterns_do_not_panic(pattern in "[\\[\\]!^*?a-c-]{0,12}", name in "[\\[\\]!a-c-]{0,12}") {
            let _ = matches(&pattern, &name);
        }

        #[test]
        fn what_has_no_wild_part_matches_itself_only(a in "[a-c.]{1,4}", b in "[a-c.]{1,4}") {
            prop_assert_eq!(matches(&a, &b), a == b);
        }
    }
}
