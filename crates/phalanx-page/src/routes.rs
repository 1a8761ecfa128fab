//! Paths and answers. `curl` works as well as a browser.

use crate::serve::Known;
use crate::{Shared, assets, metrics, stream};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::{Value, json};
use std::sync::Arc;

/// What a browser may load for this page: its own files, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let secret = Router::new()
        .route("/api/state", get(state))
        .route("/api/curves", get(curves))
        .route("/api/logs", get(logs))
        .route("/api/stream", get(stream::stream))
        .route("/metrics", get(metrics::metrics))
        .route_layer(from_fn_with_state(Arc::clone(&shared), token));
    let mut open = Router::new().route("/healthz", get(async || "ok\n"));
    for (path, kind, text) in assets::FILES {
        open = open.route(path, get(async move || ([(header::CONTENT_TYPE, kind)], text)));
    }
    open.merge(secret).layer(from_fn_with_state(Arc::clone(&shared), host)).with_state(shared)
}

async fn host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut answer = match shared.gate.knows_host(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    };
    let rules = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in rules {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn token(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    match shared.gate.has_token(request.uri(), request.headers()) {
        Ok(()) => {
            if let Some(known) = request.extensions().get::<Known>() {
                known.set();
            }
            next.run(request).await
        }
        Err(refused) => refused.into_response(),
    }
}

fn answer(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

async fn state(State(shared): State<Arc<Shared>>) -> Response {
    answer(&shared.lock().board().to_json())
}

async fn curves(State(shared): State<Arc<Shared>>) -> Response {
    let follower = shared.lock();
    let curves: Vec<Value> = follower
        .board()
        .curves
        .iter()
        .map(|curve| json!({ "run": curve.run, "tag": curve.tag, "points": stream::points(&curve.points) }))
        .collect();
    answer(&json!(curves))
}

/// The logs as a file, all tasks by time.
async fn logs(State(shared): State<Arc<Shared>>) -> Response {
    let follower = shared.lock();
    let board = follower.board();
    let mut text = String::new();
    for line in board.lines(0, usize::MAX).1 {
        let task = board.tasks.get(line.task).map_or("", |task| task.task.as_str());
        text += &format!("{} {task} {}\n", phalanx_launch::stamp(line.at_ms), line.text);
    }
    let kind = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"logs.txt\""),
    ];
    (StatusCode::OK, kind, Body::from(text)).into_response()
}
