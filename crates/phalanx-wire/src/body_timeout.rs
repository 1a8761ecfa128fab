//! A layer that bounds how long the body of a request may take to arrive, so that half a request holds nothing for
//! long.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

/// Serves requests whose bodies arrive in time. Others end with an error.
#[derive(Clone)]
pub(crate) struct BodyTimeout<S> {
    pub(crate) inner: S,
    pub(crate) after: Duration,
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for BodyTimeout<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> S::Future {
        let deadline = |body| Body::new(Arriving { body, deadline: Box::pin(sleep(self.after)) });
        let request = request.map(deadline);
        self.inner.call(request)
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
                Poll::Ready(Some(Err(Status::deadline_exceeded("the rest of the request did not arrive"))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body as _;
    use std::convert::Infallible;

    /// A body that stops after its first frame, or ends there.
    struct Begun {
        sent: bool,
        ends: bool,
    }

    impl http_body::Body for Begun {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match (std::mem::replace(&mut self.sent, true), self.ends) {
                (false, _) => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"half"))))),
                (true, true) => Poll::Ready(None),
                (true, false) => Poll::Pending,
            }
        }
    }

    /// Reads a request's body to its end. Returns the number of data frames, or the error.
    async fn read(request: http::Request<Body>) -> Result<usize, Status> {
        let (mut body, mut frames) = (request.into_body(), 0);
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            frames += usize::from(frame?.is_data());
        }
        Ok(frames)
    }

    #[test]
    fn half_a_request_ends_with_an_error_and_a_whole_one_does_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut service = BodyTimeout { inner: tower::service_fn(read), after: Duration::from_millis(50) };
            let mut call = |ends| service.call(http::Request::new(Body::new(Begun { sent: false, ends })));
            assert_eq!(call(true).await.unwrap(), 1);
            let half = tokio::time::timeout(Duration::from_secs(20), call(false)).await.expect("an end");
            assert_eq!(half.unwrap_err().code(), tonic::Code::DeadlineExceeded);
        });
    }
}
