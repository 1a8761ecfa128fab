//! The log of a task.
//!
//! The crates emit [`tracing`] events and spans; the program decides what becomes of them. Where it has installed no subscriber,
//! the first task that starts installs the default one, which prints a short line for each event on standard error. Programs
//! that want another subscriber install it before they start a task.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `PHALANX_LOG` | what is logged: a level (`off`, `error`, `warn`, `info`, `debug`, `trace`; the default is `info`), levels of single targets (`phalanx_ps=trace`), or both, with commas between them |
//! | `PHALANX_LOG_FORMAT` | `text` (the default), or `json`: one object a line, with `timestamp`, `level`, `target`, `task`, `message` and the fields of the event and of its spans |

use phalanx_base::{Error, TaskId};
use phalanx_cluster::TaskConfig;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::sync::Once;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Span, Subscriber, dispatcher, span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

const FILTER: &str = "PHALANX_LOG";
const FORMAT: &str = "PHALANX_LOG_FORMAT";

/// Crates whose details are logged only where `PHALANX_LOG` names them.
const TRANSPORT: [&str; 7] = ["h2", "hyper", "hyper_util", "reqwest", "rustls", "tonic", "tower"];

/// Installs the default subscriber, unless the process has a global one. Every task does so when it starts; programs that log
/// before that call it first.
pub fn init() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let text = std::env::var(FILTER).unwrap_or_default();
        let (filter, wrong) = match filter(&text) {
            Ok(filter) => (filter, None),
            Err(why) => (Targets::new().with_default(LevelFilter::INFO), Some(why)),
        };
        let printer = Printer { json: is_json() };
        if dispatcher::set_global_default(Dispatch::new(Registry::default().with(printer).with(filter))).is_ok()
            && let Some(why) = wrong
        {
            tracing::warn!("{FILTER}={text:?} cannot be read ({why}); logging at level info");
        }
    });
}

/// Runs `f` without a log: tasks that it starts log nothing either.
pub fn silence<T>(f: impl FnOnce() -> T) -> T {
    dispatcher::with_default(&Dispatch::none(), f)
}

/// Logs what is suspected about the text that a task's configuration was read from, and about the machine it runs on.
pub fn log_warnings(config: &TaskConfig) {
    init();
    for warning in config.warnings() {
        tracing::warn!("{}", warning.report());
    }
    if let Some(warning) = crate::misplaced_task(config) {
        tracing::warn!("{}", warning.report());
    }
}

/// Reports the error that ends a program on standard error, in the format of the log.
pub fn report(error: &Error) {
    if is_json() {
        init();
        tracing::error!(code = %error.code(), exit_code = error.exit_code(), "{}", error.report().trim_end());
    } else {
        eprint!("{}", error.report());
    }
}

fn is_json() -> bool {
    std::env::var(FORMAT).is_ok_and(|format| format == "json")
}

fn filter(text: &str) -> Result<Targets, String> {
    // An empty text would be the level `error`.
    let text = if text.trim().is_empty() { "info" } else { text };
    let given: Targets = text.parse().map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())?;
    let level = given.default_level().unwrap_or(LevelFilter::INFO);
    let quiet = TRANSPORT.map(|name| (name.to_owned(), level.min(LevelFilter::WARN)));
    let named: Vec<(String, LevelFilter)> = given.iter().map(|(name, level)| (name.to_owned(), level)).collect();
    Ok(Targets::new().with_default(level).with_targets(quiet).with_targets(named))
}

/// The subscriber and the span that events of a task go to, whichever thread emits them.
#[derive(Clone)]
pub(crate) struct LogScope {
    dispatch: Dispatch,
    span: Span,
}

impl LogScope {
    /// The scope of a task that starts on this thread.
    pub(crate) fn of_task(task: TaskId) -> Self {
        // Of the highest level, so that a filter keeps it, and the task is known, wherever it keeps any event.
        Self::with(|| tracing::error_span!("task", %task))
    }

    /// The scope of this thread, for another one.
    pub(crate) fn current() -> Self {
        Self::with(Span::current)
    }

    fn with(span: impl FnOnce() -> Span) -> Self {
        init();
        Self { dispatch: dispatcher::get_default(Clone::clone), span: span() }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Runs `f` in the scope.
    pub(crate) fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        dispatcher::with_default(&self.dispatch, || self.span.in_scope(f))
    }
}

/// An event with the fields of its spans.
pub(crate) struct Record {
    pub(crate) level: tracing::Level,
    pub(crate) target: String,
    pub(crate) task: Option<String>,
    pub(crate) message: String,
    pub(crate) fields: Map<String, Value>,
}

impl Record {
    pub(crate) fn new<S: Subscriber + for<'a> LookupSpan<'a>>(event: &Event<'_>, cx: &Context<'_, S>) -> Self {
        let mut fields = Fields::default();
        for span in cx.event_scope(event).into_iter().flatten().collect::<Vec<_>>().into_iter().rev() {
            if let Some(known) = span.extensions().get::<Fields>() {
                fields.0.extend(known.0.clone());
            }
        }
        event.record(&mut fields);
        let mut text = |name| match fields.0.shift_remove(name) {
            Some(Value::String(text)) => Some(text),
            other => other.map(|value| value.to_string()),
        };
        let (task, message) = (text("task"), text("message").unwrap_or_default());
        let metadata = event.metadata();
        Self { level: *metadata.level(), target: metadata.target().to_owned(), task, message, fields: fields.0 }
    }

    /// The event for people: the task and the message.
    pub(crate) fn line(&self) -> String {
        let message = self.message.trim_end();
        self.task.as_ref().map_or_else(|| message.to_owned(), |task| format!("{task}: {message}"))
    }

    pub(crate) fn json(self, now: SystemTime) -> String {
        let mut object = Map::new();
        object.insert("timestamp".to_owned(), timestamp(now).into());
        object.insert("level".to_owned(), self.level.as_str().into());
        object.insert("target".to_owned(), self.target.into());
        object.extend(self.task.map(|task| ("task".to_owned(), task.into())));
        object.insert("message".to_owned(), self.message.into());
        for (name, value) in self.fields {
            object.entry(name).or_insert(value);
        }
        Value::Object(object).to_string()
    }
}

/// Keeps the fields of spans, for the events inside of them.
pub(crate) fn keep_fields<S: Subscriber + for<'a> LookupSpan<'a>>(
    id: &span::Id,
    cx: &Context<'_, S>,
    record: impl FnOnce(&mut Fields),
) {
    let Some(span) = cx.span(id) else { return };
    let mut extensions = span.extensions_mut();
    if let Some(fields) = extensions.get_mut::<Fields>() {
        return record(fields);
    }
    let mut fields = Fields::default();
    record(&mut fields);
    extensions.insert(fields);
}

#[derive(Default)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }
}

/// Prints events on standard error.
struct Printer {
    json: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Printer {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, cx: Context<'_, S>) {
        keep_fields(id, &cx, |fields| attributes.record(fields));
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, cx: Context<'_, S>) {
        keep_fields(id, &cx, |fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let record = Record::new(event, &cx);
        let line = if self.json { record.json(SystemTime::now()) } else { record.line() };
        // The test harness captures what `eprintln!` prints. It panics once its reader is gone; a task must continue.
        let _gone = std::panic::catch_unwind(|| eprintln!("{line}"));
    }
}

/// A moment as RFC 3339 writes it, in UTC.
fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days since 0000-03-01, in eras of 400 years: leap days come last in years that begin in March.
    let (era, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = 400 * era + year + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LogEvent, LogRecorder};

    fn logged(filter: &str, emit: impl FnOnce()) -> Vec<LogEvent> {
        let recorder = LogRecorder::default();
        recorder.record_with(super::filter(filter).unwrap(), emit);
        recorder.events()
    }

    #[test]
    fn an_event_carries_its_task_to_every_thread() {
        let lines = logged("", || {
            let tasks: Vec<_> =
                ["ps/0", "worker/1"].iter().map(|task| LogScope::of_task(task.parse().unwrap())).collect();
            std::thread::scope(|scope| {
                for task in &tasks {
                    let emit = || task.run(|| tracing::info!(step = 3, loss = 0.5, "step {}", 3));
                    scope.spawn(emit).join().unwrap();
                }
            });
            tracing::warn!("no task\n");
        });
        let texts: Vec<&str> = lines.iter().map(|event| event.line.as_str()).collect();
        assert_eq!(texts, ["ps/0: step 3", "worker/1: step 3", "no task"]);
        let target = module_path!();
        let expected = format!(
            r#"{{"timestamp":"1970-01-01T00:00:00.000Z","level":"INFO","target":"{target}","task":"ps/0","message":"step 3","step":3,"loss":0.5}}"#
        );
        assert_eq!(lines[0].json, expected);
    }

    #[test]
    fn a_filter_names_levels_and_targets_and_the_rest_is_at_info() {
        let emit = || {
            tracing::debug!("ours");
            tracing::debug!(target: "phalanx_ps::client", "theirs");
            tracing::info!(target: "h2::client", "a frame");
            tracing::info!("ours");
        };
        let texts = |filter| logged(filter, emit).into_iter().map(|event| event.line).collect::<Vec<_>>();
        assert_eq!(texts(""), ["ours"]);
        assert_eq!(texts("phalanx_ps=trace"), ["theirs", "ours"]);
        assert_eq!(texts("debug"), ["ours", "theirs", "ours"]);
        assert_eq!(texts("warn,h2=info"), ["a frame"]);
        assert!(texts("off").is_empty() && filter("phalanx_ps=loud").is_err());
        // The task is known at every level.
        let scoped = || LogScope::of_task("ps/0".parse().unwrap()).run(|| tracing::error!("lost"));
        assert_eq!(logged("error", scoped)[0].line, "ps/0: lost");
    }

    #[test]
    fn timestamps_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(timestamp(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_silenced_task_logs_nothing() {
        let emit = || silence(|| LogScope::of_task("ps/0".parse().unwrap())).run(|| tracing::error!("lost"));
        assert!(logged("trace", emit).is_empty());
    }
}
