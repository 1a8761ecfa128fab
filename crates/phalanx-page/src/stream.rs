//! What changes, as it changes: server-sent events.

use crate::Shared;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use phalanx_launch::{Board, Point};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// How often a browser hears something new.
const ROUND: Duration = Duration::from_millis(250);
/// Log lines and points in one message.
const LINES: usize = 4000;
const POINTS: usize = 20_000;

/// How far one browser has been told.
#[derive(Default)]
struct Cursor {
    state: String,
    events: u64,
    line: u64,
    /// Points sent of each curve, and the curve's version then.
    curves: Vec<(usize, u64)>,
}

pub(crate) async fn stream(State(shared): State<Arc<Shared>>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let start = (shared, Cursor::default(), VecDeque::new());
    let stream = unfold(start, async |(shared, mut cursor, mut ready)| {
        loop {
            if let Some(event) = ready.pop_front() {
                return Some((Ok(event), (shared, cursor, ready)));
            }
            cursor.news(shared.lock().board(), &mut ready);
            if ready.is_empty() {
                tokio::time::sleep(ROUND).await;
            }
        }
    });
    Sse::new(stream).keep_alive(KeepAlive::new().interval(Duration::from_secs(5)))
}

impl Cursor {
    /// Puts what is new into messages.
    fn news(&mut self, board: &Board, ready: &mut VecDeque<Event>) {
        let state = board.to_json().to_string();
        if state != self.state {
            ready.push_back(Event::default().event("state").data(&state));
            self.state = state;
        }
        let (from, events) = board.events(self.events);
        let events: Vec<&Value> = events.collect();
        if !events.is_empty() {
            self.events = from + events.len() as u64;
            ready.push_back(message("events", &json!(events)));
        }
        let points = self.points(board);
        if !points.is_empty() {
            ready.push_back(message("points", &Value::Array(points)));
        }
        let (from, lines) = board.lines(self.line, LINES);
        let lines: Vec<Value> = lines.map(|line| json!([line.at_ms, line.task, line.text])).collect();
        if !lines.is_empty() {
            self.line = from + lines.len() as u64;
            ready.push_back(message("lines", &json!({ "from": from, "lines": lines })));
        }
    }

    fn points(&mut self, board: &Board) -> Vec<Value> {
        let mut room = POINTS;
        let mut news = Vec::new();
        self.curves.resize(board.curves.len(), (0, 0));
        for (at, (curve, (sent, version))) in board.curves.iter().zip(&mut self.curves).enumerate() {
            let reset = *version != curve.version;
            if reset {
                (*sent, *version) = (0, curve.version);
            }
            let until = curve.points.len().min(*sent + room);
            if until > *sent || reset {
                let points = points(&curve.points[*sent..until]);
                news.push(json!({ "i": at, "run": curve.run, "tag": curve.tag, "reset": reset, "points": points }));
                room -= until - *sent;
                *sent = until;
            }
        }
        news
    }
}

fn message(kind: &str, data: &Value) -> Event {
    Event::default().event(kind).data(data.to_string())
}

/// `[step, seconds, value]`, with `null` for what is no number.
pub(crate) fn points(points: &[Point]) -> Vec<Value> {
    points.iter().map(|point| json!([point.step, point.wall_time, point.value])).collect()
}
