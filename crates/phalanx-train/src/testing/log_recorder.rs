//! Log events, kept for a test to look at.

use crate::logging::{Record, keep_fields};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber, span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

/// One event of the log.
#[derive(Clone, Debug)]
pub struct LogEvent {
    /// The event as the default subscriber prints it.
    pub line: String,
    /// The event as JSON, at the epoch.
    pub json: String,
    /// The task that logged it.
    pub task: Option<String>,
    /// Its fields, and those of its spans, but the task and the message.
    fields: Map<String, Value>,
}

impl LogEvent {
    /// Returns the value of a field as text.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<String> {
        let value = self.fields.get(name)?;
        Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    }
}

/// Keeps the events of the tasks that are started while it records, whichever threads they come from.
#[derive(Clone, Debug, Default)]
pub struct LogRecorder(Arc<Mutex<Vec<LogEvent>>>);

impl LogRecorder {
    /// Records what `f`, and the tasks that it starts, log; the tasks also after `f` has returned.
    pub fn record<T>(&self, f: impl FnOnce() -> T) -> T {
        self.record_with(Targets::new().with_default(LevelFilter::INFO), f)
    }

    pub(crate) fn record_with<T>(&self, filter: Targets, f: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(Registry::default().with(self.clone()).with(filter), f)
    }

    /// Returns the events so far.
    #[must_use]
    pub fn events(&self) -> Vec<LogEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the events so far as the default subscriber would print them.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.events().into_iter().map(|event| event.line).collect()
    }

    /// Whether a line contains `text`.
    #[must_use]
    pub fn contains(&self, text: &str) -> bool {
        self.lines().iter().any(|line| line.contains(text))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogRecorder {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, cx: Context<'_, S>) {
        keep_fields(id, &cx, |fields| attributes.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let record = Record::new(event, &cx);
        let (line, task, fields) = (record.line(), record.task.clone(), record.fields.clone());
        let event = LogEvent { line, json: record.json(UNIX_EPOCH), task, fields };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }
}
