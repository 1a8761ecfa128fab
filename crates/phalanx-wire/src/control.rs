//! The control lane: identity and heartbeats.

use crate::proto::control::control_client::ControlClient;
use crate::proto::control::control_server::{Control, ControlServer};
use crate::proto::control::{BeatReply, BeatRequest, IdentifyRequest, Identity};
use crate::{Address, Token, connect, error_from_status, error_to_status, limits};
use phalanx_base::Result;
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// Answers the calls on a task's control lane. Must not block.
pub trait Handler: Send + Sync + 'static {
    /// Returns the identity of this task.
    fn identify(&self) -> Identity;

    /// Handles a heartbeat. Only the chief accepts them.
    ///
    /// # Errors
    /// When the sender does not belong to the job, or this task is not its chief.
    fn beat(&self, beat: BeatRequest) -> Result<BeatReply>;
}

struct Service {
    handler: Arc<dyn Handler>,
}

pub(crate) fn server(handler: Arc<dyn Handler>) -> ControlServer<impl Control> {
    ControlServer::new(Service { handler }).max_decoding_message_size(limits::CONTROL_BYTES)
}

#[tonic::async_trait]
impl Control for Service {
    async fn identify(&self, _: Request<IdentifyRequest>) -> Result<Response<Identity>, Status> {
        Ok(Response::new(self.handler.identify()))
    }

    async fn beat(&self, request: Request<BeatRequest>) -> Result<Response<BeatReply>, Status> {
        self.handler.beat(request.into_inner()).map(Response::new).map_err(|error| error_to_status(&error))
    }
}

/// The control lane to one peer.
#[derive(Clone, Debug)]
pub struct Client {
    inner: ControlClient<Channel>,
    peer: String,
}

impl Client {
    /// Creates a lane to `address`. Call inside of a tokio runtime.
    #[must_use]
    pub fn new(address: &Address, token: Option<Token>) -> Self {
        let channel = connect::channel(address, token.as_ref());
        let inner = ControlClient::new(channel).max_decoding_message_size(limits::CONTROL_BYTES);
        Self { inner, peer: address.to_string() }
    }

    /// Returns the identity of the task that listens there.
    ///
    /// # Errors
    /// When no answer arrives in time, or the peer refuses the call.
    pub async fn identify(&mut self) -> Result<Identity> {
        let request = request(IdentifyRequest {});
        let answer = in_time(self.inner.identify(request)).await;
        answer.map_err(|status| error_from_status(&status, &self.peer))
    }

    /// Sends a heartbeat.
    ///
    /// # Errors
    /// When no answer arrives in time, or the peer refuses the call.
    pub async fn beat(&mut self, beat: BeatRequest) -> Result<BeatReply> {
        let request = request(beat);
        let answer = in_time(self.inner.beat(request)).await;
        answer.map_err(|status| error_from_status(&status, &self.peer))
    }
}

fn request<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.set_timeout(limits::CONTROL_CALL);
    request
}

/// Waits for a call. The request carries its deadline for the server; this side's clock decides, and includes connecting.
async fn in_time<T>(call: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Status> {
    let late = |_| Status::deadline_exceeded(format!("{} s passed", limits::CONTROL_CALL.as_secs_f32()));
    let answer = tokio::time::timeout(limits::CONTROL_CALL, call).await.map_err(late)?;
    answer.map(Response::into_inner)
}
