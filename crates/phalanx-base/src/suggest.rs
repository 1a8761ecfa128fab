//! "Did you mean …?"

/// Returns the candidate nearest to `word`, if one is near enough to be meant.
///
/// ```
/// assert_eq!(phalanx_base::nearest("wroker", ["chief", "worker", "ps"]), Some("worker"));
/// assert_eq!(phalanx_base::nearest("banana", ["chief", "worker", "ps"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (word.chars().count() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&word.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|&(distance, candidate)| distance <= limit && distance < candidate.chars().count().max(2))
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}
