//! The names of event files.

/// Returns the name of an event file as TensorFlow 2 does: its creation in seconds since 1970, the host, the process and
/// the number of the file in that process. TensorBoard reads the files of a folder in the order of their names.
///
/// A slash in the host's name becomes an underscore, so that the file stays in its folder.
///
/// ```
/// let name = phalanx_formats::event::event_file_name(1_700_000_000, "node-3", 4711, 0);
/// assert_eq!(name, "events.out.tfevents.1700000000.node-3.4711.0.v2");
/// ```
#[must_use]
pub fn event_file_name(secs: u64, host: &str, pid: u32, n: u64) -> String {
    let host = host.replace(['/', '\\', '\0'], "_");
    format!("events.out.tfevents.{secs:010}.{host}.{pid}.{n}.v2")
}
