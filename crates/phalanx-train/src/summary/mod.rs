//! Summaries for TensorBoard.
//!
//! | file | contents |
//! | --- | --- |
//! | `writer` | [`SummaryWriter`]: what programs and the job itself write |
//! | `event_log` | the event files behind it |
//! | `schedule` | when the progress of training is written |
//! | `picture` | pixels as PNG files |

mod event_log;
mod picture;
mod schedule;
mod writer;

pub use picture::Picture;
pub(crate) use schedule::{SummaryInterval, SummarySchedule};
pub use writer::SummaryWriter;
