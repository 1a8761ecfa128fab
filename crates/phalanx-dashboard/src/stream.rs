//! Changes of a run as server-sent events.

use crate::chosen::ChosenRun;
use axum::response::sse::{self, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use phalanx_run::{Event, Point, RunState};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

/// How often changes are sent.
const INTERVAL: Duration = Duration::from_millis(250);
/// The most log lines and points in one message.
const MAX_LINES: usize = 4000;
const MAX_POINTS: usize = 20_000;

/// What one browser has received.
#[derive(Default)]
struct Cursor {
    state: String,
    events: u64,
    line: u64,
    /// Points sent of each curve, and the curve's version then.
    curves: Vec<(usize, u64)>,
}

pub(crate) async fn stream(ChosenRun(run): ChosenRun) -> Sse<impl Stream<Item = Result<sse::Event, Infallible>>> {
    run.tailer.follow_lines();
    let start = (run, Cursor::default(), VecDeque::new());
    let stream = unfold(start, async |(run, mut cursor, mut ready)| {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(event), (run, cursor, ready)));
            }
            cursor.changes(&run.tailer.state(), &mut ready);
            if ready.is_empty() {
                tokio::time::sleep(INTERVAL).await;
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(5)))
}

impl Cursor {
    /// Queues messages with what has changed.
    fn changes(&mut self, run: &RunState, ready: &mut VecDeque<sse::Event>) {
        let state = run.to_json().to_string();
        if state != self.state {
            ready.push_back(sse::Event::default().event("state").data(&state));
            self.state = state;
        }
        let (from, events) = run.events(self.events);
        let events: Vec<&Event> = events.collect();
        if !events.is_empty() {
            self.events = from + events.len() as u64;
            ready.push_back(message("events", &json!(events)));
        }
        let points = self.points(run);
        if !points.is_empty() {
            ready.push_back(message("points", &Value::Array(points)));
        }
        let (from, lines) = run.lines(self.line, MAX_LINES);
        let lines: Vec<Value> = lines.map(|line| json!([line.at_ms, line.task, line.text])).collect();
        if !lines.is_empty() {
            self.line = from + lines.len() as u64;
            ready.push_back(message("lines", &json!({ "from": from, "lines": lines })));
        }
    }

    fn points(&mut self, run: &RunState) -> Vec<Value> {
        let mut capacity = MAX_POINTS;
        let mut changed = Vec::new();
        self.curves.resize(run.curves.len(), (0, 0));
        for (at, (curve, (sent, version))) in run.curves.iter().zip(&mut self.curves).enumerate() {
            let reset = *version != curve.version;
            if reset {
                (*sent, *version) = (0, curve.version);
            }
            let until = curve.points.len().min(*sent + capacity);
            if until > *sent || reset {
                let points = points(&curve.points[*sent..until]);
                changed.push(json!({ "i": at, "run": curve.run, "tag": curve.tag, "reset": reset, "points": points }));
                capacity -= until - *sent;
                *sent = until;
            }
        }
        changed
    }
}

fn message(kind: &str, data: &Value) -> sse::Event {
    sse::Event::default().event(kind).data(data.to_string())
}

/// Points as `[step, seconds, value]`, with `null` for values that are not finite.
pub(crate) fn points(points: &[Point]) -> Vec<Value> {
    points.iter().map(|point| json!([point.step, point.wall_time, point.value])).collect()
}
