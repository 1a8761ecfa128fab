//! One part of a file name pattern.

/// Whether `text` has anything in it that matches more than itself.
pub(crate) fn is_wild(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether `pattern` matches all of `name`. `*` is any run of characters, `?` any one, `[a-c]` one of a set, `[!a-c]`
/// one outside of it; a `[` that is never closed is itself. As in a shell, a leading dot must be written out.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let (mut p, mut n) = (0, 0);
    // Where to go on when the last `*` takes one character more: it never needs to be any star before that one.
    let mut again: Option<(usize, usize)> = None;
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            p += 1;
            again = Some((p, n));
        } else if let Some(used) = one(&pattern[p..], name[n]) {
            p += used;
            n += 1;
        } else if let Some((star, from)) = again {
            again = Some((star, from + 1));
            (p, n) = (star, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&rest| rest == '*')
}

/// How many characters of the pattern it takes to match `c`, if they do. A star is not asked for here.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match *pattern.first()? {
        '?' => Some(1),
        '[' => match set(pattern, c) {
            Some((used, inside)) => inside.then_some(used),
            None => (c == '[').then_some(1),
        },
        literal => (literal == c).then_some(1),
    }
}

/// How long the set at the start of the pattern is, and whether `c` is in it; nothing if it is never closed.
fn set(pattern: &[char], c: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    // A `]` right at the start is a member.
    let end = first + 1 + pattern.get(first + 1..)?.iter().position(|&end| end == ']')?;
    let mut members = &pattern[first..end];
    let mut inside = false;
    while let [low, rest @ ..] = members {
        if let ['-', high, rest @ ..] = rest {
            inside |= (*low..=*high).contains(&c);
            members = rest;
        } else {
            inside |= *low == c;
            members = rest;
        }
    }
    Some((end + 1, inside != negated))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
