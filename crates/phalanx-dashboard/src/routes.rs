//! The paths of the server and their responses.

use crate::chosen::{ChosenRun, refuse};
use crate::serve::Authenticated;
use crate::{Shared, assets, metrics, stream};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use std::sync::Arc;

/// What a browser may load: the files of the dashboard and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(crate) fn router(shared: Arc<Shared>) -> Router {
    let secret = Router::new()
        .route("/api/state", get(state))
        .route("/api/curves", get(curves))
        .route("/api/logs", get(logs))
        .route("/api/statistics", get(statistics))
        .route("/api/variables", get(variables))
        .route("/api/settings", get(settings))
        .route("/api/runs", get(runs))
        .route("/api/stop", post(stop))
        .route("/api/stream", get(stream::stream))
        .route("/metrics", get(metrics::metrics))
        .route_layer(from_fn_with_state(Arc::clone(&shared), token));
    let mut open = Router::new().route("/healthz", get(async || "ok\n"));
    let [run_page, list_page] = if shared.source.index().is_some() { ["/run", "/"] } else { ["/", "/runs"] };
    for (name, kind, text) in assets::FILES {
        let path = match name {
            assets::RUN_PAGE => run_page,
            assets::LIST_PAGE => list_page,
            file => file,
        };
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
            if let Some(known) = request.extensions().get::<Authenticated>() {
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

async fn state(ChosenRun(run): ChosenRun) -> Response {
    answer(&run.tailer.state().to_json())
}

async fn curves(ChosenRun(run): ChosenRun) -> Response {
    let state = run.tailer.state();
    let curves: Vec<Value> = state
        .curves
        .iter()
        .map(|curve| json!({ "run": curve.run, "tag": curve.tag, "points": stream::points(&curve.points) }))
        .collect();
    answer(&json!(curves))
}

/// The variables and tables, and where their shards lie.
async fn variables(ChosenRun(run): ChosenRun) -> Response {
    answer(&json!(run.tailer.state().variables()))
}

/// The settings that the run was started with, as pairs of name and value.
async fn settings(ChosenRun(run): ChosenRun) -> Response {
    answer(&json!(run.tailer.settings()))
}

/// The statistics of the training data, or `null`.
async fn statistics(ChosenRun(run): ChosenRun) -> Response {
    let state = run.tailer.state();
    answer(state.statistics.as_ref().map_or(&Value::Null, |found| &found.content))
}

/// The runs of the folder, newest first.
async fn runs(State(shared): State<Arc<Shared>>) -> Response {
    match shared.source.index() {
        Some(index) => {
            let folder = index.folder().root().display().to_string();
            answer(&json!({ "folder": folder, "runs": index.summaries() }))
        }
        None => refuse(StatusCode::NOT_FOUND, "the dashboard shows one run").into_response(),
    }
}

/// Asks the launcher of the run to stop it.
async fn stop(ChosenRun(run): ChosenRun) -> Response {
    match run.stop() {
        Ok(()) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refuse(StatusCode::CONFLICT, &error.report()).into_response(),
    }
}

/// The logs of all tasks by time, as a file.
async fn logs(ChosenRun(run): ChosenRun) -> Response {
    run.tailer.follow_lines();
    let state = run.tailer.state();
    let mut text = String::new();
    for line in state.lines(0, usize::MAX).1 {
        let task = state.tasks.get(line.task).map_or_else(String::new, |task| task.task.to_string());
        text += &format!("{} {task} {}\n", phalanx_run::timestamp(line.at_ms), line.text);
    }
    let kind = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"logs.txt\""),
    ];
    (StatusCode::OK, kind, Body::from(text)).into_response()
}
