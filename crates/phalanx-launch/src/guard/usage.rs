//! What a guard's program and its descendants used.

use phalanx_run::ProcessUsage;
use std::time::Duration;

/// Returns the CPU time and the peak memory of all children that have been waited for, and of theirs.
///
/// `/proc` has the CPU time as well, but the peak memory of a process is lost there when it exits.
#[allow(unsafe_code)]
pub(super) fn of_children() -> ProcessUsage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of an `rusage`, and the call writes nothing else.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) } != 0;
    if failed {
        return ProcessUsage::default();
    }
    // SAFETY: the call succeeded, so it has filled the structure; all of its fields are numbers, for which zeros are valid too.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    // Linux counts in kibibytes.
    let peak_bytes = usage.ru_maxrss.unsigned_abs().saturating_mul(1024);
    ProcessUsage { cpu: time(usage.ru_utime) + time(usage.ru_stime), peak_bytes }
}
