//! An accepted gRPC connection that ends when its client is silent for too long, or when another connection displaces
//! it.

use crate::connect::Stream;
use crate::connections::{Activity, Permit};
use crate::limits;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};
use tonic::transport::server::Connected;

pub(crate) struct GuardedStream {
    stream: Stream,
    permit: Permit,
    activity: Activity,
    /// The time of the client's last byte; `None` before its first.
    heard: Option<Instant>,
    over: bool,
    /// The next check for a silent client.
    look: Pin<Box<Sleep>>,
}

impl GuardedStream {
    pub(crate) fn new(stream: Stream, permit: Permit) -> Self {
        let activity = permit.activity();
        Self { stream, permit, activity, heard: None, over: false, look: Box::pin(sleep(limits::HANDSHAKE)) }
    }

    /// Ready once the connection must end.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // A completed receiver must not be polled again.
        self.over = self.over || Pin::new(&mut self.permit.closed).poll(cx).is_ready();
        if self.over {
            return Poll::Ready(());
        }
        while self.look.as_mut().poll(cx).is_ready() {
            let Some(end) = self.heard.map(|heard| heard + limits::IDLE) else { return Poll::Ready(()) };
            if end <= Instant::now() {
                return Poll::Ready(());
            }
            self.look.as_mut().reset(end);
        }
        Poll::Pending
    }
}

impl AsyncRead for GuardedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let read = Pin::new(&mut this.stream).poll_read(cx, into);
        if read.is_ready() {
            this.heard = Some(Instant::now());
            this.activity.heard();
        }
        match this.poll_over(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => read,
        }
    }
}

impl AsyncWrite for GuardedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Connected for GuardedStream {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
