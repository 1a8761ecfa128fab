//! A layer that bounds how long the body of a request may take to arrive: half a request holds nothing for long.

use crate::limits;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// Serves requests whose bodies come in time; the others end with an error.
#[derive(Clone)]
pub(crate) struct BodyTimeout<S>(pub(crate) S);

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for BodyTimeout<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let deadline = |body| Body::new(Arriving { body, deadline: Box::pin(sleep(limits::BODY)) });
        self.0.call(request.map(deadline))
    }
}

/// A body that arrives in time, or fails.
struct Arriving {
    body: Body,
    deadline: Pin<Box<Sleep>>,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Pending if self.deadline.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Some(Err(Status::deadline_exceeded("the rest of the request did not come"))))
            }
            frame => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
