//! Links and the headings that they lead to.

use super::Page;

/// A link of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `PAGE:LINE`.
    pub place: String,
    /// Where it leads, as it is written.
    pub target: String,
}

/// Every link and picture of a page, outside of code.
pub fn links(page: &Page) -> Vec<Link> {
    let mut found = Vec::new();
    for (at, line) in page.prose() {
        // What stands between backticks is code.
        let words: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in words.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(Link { place: format!("{}:{at}", page.path), target: target.to_owned() });
            }
        }
    }
    found
}

/// The names under which a page's headings can be linked to, as mdBook and code hosts make them.
pub fn anchors(page: &Page) -> Vec<String> {
    let headings = page.prose().filter_map(|(_, line)| {
        let words = line.trim_start_matches('#');
        (words.len() < line.len() && words.starts_with(' ')).then(|| words.trim())
    });
    let mut found: Vec<String> = Vec::new();
    for heading in headings {
        let name: String = heading
            .to_lowercase()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let before = found.iter().filter(|one| **one == name || one.starts_with(&format!("{name}-"))).count();
        found.push(if before == 0 { name } else { format!("{name}-{before}") });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code_and_headings_have_names() {
        let text = "# What `TF_CONFIG` is, here\n[a](b.md#c) `[no](x)` ![d](e.png)\n```text\n[no](y)\n# no\n```\n";
        let page = Page { path: "p.md".to_owned(), text: text.to_owned() };
        let targets: Vec<String> = links(&page).into_iter().map(|link| link.target).collect();
        assert_eq!(targets, ["b.md#c", "e.png"]);
        assert_eq!(anchors(&page), ["what-tf_config-is-here"]);
    }
}
