//! Compares the licences of all dependencies with the list in `deny.toml`. cargo-deny does this too, and more (advisories, sources),
//! but has to be installed.

use crate::metadata;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What `deny.toml` allows.
struct Allowed {
    licences: BTreeSet<String>,
    /// More licences for a crate.
    exceptions: BTreeMap<String, BTreeSet<String>>,
    /// The licences of crates whose manifest names none.
    clarified: BTreeMap<String, String>,
}

/// Counts the packages, or lists those that may not be used.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(root.join("deny.toml")).map_err(|error| format!("deny.toml: {error}"))?;
    let allowed = Allowed::read(&text)?;
    let all = metadata(root, &["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    let packages = all["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let wrong: Vec<String> = packages.iter().filter_map(|package| allowed.refuse(package)).collect();
    if wrong.is_empty() {
        return Ok(format!("licences: {} packages, all of them allowed by deny.toml", packages.len()));
    }
    Err(format!("not allowed by deny.toml:\n{}", wrong.join("\n")))
}

impl Allowed {
    fn read(text: &str) -> Result<Self, String> {
        let table: toml::Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
        let licences = table.get("licenses").ok_or("deny.toml has no [licenses]")?;
        let words = |value: Option<&toml::Value>| -> BTreeSet<String> {
            let list = value.and_then(toml::Value::as_array).map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(toml::Value::as_str).map(str::to_owned).collect()
        };
        let tables = |key: &str| licences.get(key).and_then(toml::Value::as_array).cloned().unwrap_or_default();
        let text = |table: &toml::Value, key: &str| {
            table.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned()
        };
        let exceptions = tables("exceptions").iter().map(|one| (text(one, "crate"), words(one.get("allow")))).collect();
        let clarified = tables("clarify").iter().map(|one| (text(one, "crate"), text(one, "expression"))).collect();
        Ok(Self { licences: words(licences.get("allow")), exceptions, clarified })
    }

    /// Returns why a package may not be used.
    fn refuse(&self, package: &Value) -> Option<String> {
        let name = package["name"].as_str().unwrap_or_default();
        let expression = package["license"].as_str().or_else(|| self.clarified.get(name).map(String::as_str));
        match expression {
            Some(expression) if self.allows(name, expression) => None,
            Some(expression) => Some(format!("  {name}: {expression}")),
            None => Some(format!("  {name}: names no licence; add it to [[licenses.clarify]]")),
        }
    }

    /// `A OR B` needs one of them, `A AND B` both; an old `A/B` means `A OR B`.
    fn allows(&self, name: &str, expression: &str) -> bool {
        let known = |licence: &str| {
            let licence = licence.trim_matches(|letter| "() ".contains(letter));
            self.licences.contains(licence) || self.exceptions.get(name).is_some_and(|more| more.contains(licence))
        };
        let any = |part: &str| part.replace('/', " OR ").split(" OR ").any(known);
        expression.split(" AND ").all(any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_may_be_used() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn expressions_are_read() {
        let text = "[licenses]\nallow = [\"MIT\", \"Zlib\"]\n[[licenses.exceptions]]\ncrate = \"odd\"\nallow = [\"MPL-2.0\"]\n";
        let allowed = Allowed::read(text).unwrap();
        for good in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR GPL-3.0) AND Zlib"] {
            assert!(allowed.allows("any", good), "{good}");
        }
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0"] {
            assert!(!allowed.allows("any", bad), "{bad}");
        }
        assert!(allowed.allows("odd", "MPL-2.0"));
    }
}
